"""For every test and example: one thread for each process, figures drawn off the screen and closed afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("MPLBACKEND", "agg")
# Before numpy is loaded: the processes of a run fill the cores, and threads of theirs would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("COLUMNS", None)  # 80 in the processes of a run; commands obey it


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
