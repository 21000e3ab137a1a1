"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from scoreprism.exceptions import InputError


def write_text(path: str | os.PathLike[str], make: Callable[[], str], *, overwrite: bool = False) -> Path:
    """
    Write text to a file: checked before the text is made, written beside it, synced, put in its place at once.

    Parameters
    ----------
    path : path
        The file.
    make : callable
        Makes the text; called once it is known that it can be kept.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_text(folder / "a.txt", lambda: "whole").read_text()
    'whole'
    """
    raise InputError("not written yet")
