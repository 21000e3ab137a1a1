"""For every test and example: one thread for each process, figures drawn off the screen and closed afterwards."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "agg")
# Before numpy is loaded: the processes of a run fill the cores, and threads of theirs would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("COLUMNS", None)  # 80 in the processes of a run; commands obey it
gc.disable()  # until all is collected: half of that time went into looking for garbage, of which there is none

#: What `python -m pytest -m fast` runs: the mathematics, the border, and one file of each surface.
FAST = (
    "tests/laws/test_theorems.py", "tests/laws/test_loss_laws.py", "tests/laws/test_custom_losses.py",
    "tests/decompose/test_labels.py", "tests/decompose/test_validation.py", "tests/calibrators/test_calibrators.py",
    "tests/inference/test_calibration_test.py", "tests/metrics/test_scorers.py", "tests/figures/test_curves.py",
    "tests/ensembles/test_pools.py", "tests/report/test_findings.py", "tests/cli/test_reading.py",
    "tests/scale/test_scale.py",
)  # fmt: skip


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m fast` other files are not even imported, which would take longer than some of its tests."""
    if config.option.markexpr != "fast" or collection_path.is_dir() or collection_path.name == "__init__.py":
        return None
    return True if collection_path.relative_to(config.rootpath).as_posix() not in FAST else None


def pytest_collection_finish() -> None:
    """Garbage is looked for among what tests make, not what was imported, and less often: a tenth of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    atexit.register(gc.unfreeze)  # or extensions complain at the end that something was not freed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FAST) and not {"slow", "statistical", "engines", "pages"} & {
            m.name for m in item.iter_markers()
        }:
            item.add_marker("fast")


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
