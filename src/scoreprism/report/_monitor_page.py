"""write_monitor_page(): what a monitor says, as one self-contained page."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from scoreprism._core.checks import refuse
from scoreprism.monitoring import CalibrationMonitor

#: In print, a row of a few things would leave its heading behind on the page before.
_RULES = "@media print { .row:not(:has(> :nth-child(4))) { break-inside: avoid; } }\n"


def write_monitor_page(
    monitor: CalibrationMonitor, path: str | os.PathLike[str], *, title: str | None = None, overwrite: bool = False
) -> Path:
    """
    Write what a monitor says as one page: no script, no network, light and dark.

    The file appears whole or not at all.

    Parameters
    ----------
    monitor : CalibrationMonitor
        What is shown: verdict and what to do, evidence and reliability over time, event rates, mean scores and rows,
        segments, and what changed.
    path : path
        Ends in .html.
    title : str, optional
        Page title; "Calibration monitor" by default.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        Where it is.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from scoreprism.monitoring import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 5, 500)
    >>> monitor = CalibrationMonitor().update(rng.random(500) < p, p, period="2026-11-15")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_monitor_page(monitor, f"{folder}/monitor.html", title="Credit scores").name
    'monitor.html'
    """
    from scoreprism._core.atomic_files import write_text
    from scoreprism._document.html import render_html

    if not isinstance(monitor, CalibrationMonitor):
        refuse("`monitor` must be a CalibrationMonitor", type(monitor).__name__, "Make one, and update() it.")
    if Path(path).suffix.lower() != ".html":
        refuse("the name of a page must end in .html", repr(Path(path).name), "For example 'monitor.html'.")

    def make() -> str:
        document = monitor.document()
        shown = document if title is None else replace(document, title=title)
        return render_html(shown, monitor._facts(), _RULES)

    return write_text(path, make, overwrite=overwrite)
