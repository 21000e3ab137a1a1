"""The command line: ``--help`` against importing click, and a diagnosis of a million rows in its own process.

``python -m benchmarks.command_line [rows]``: seconds and peak memory, beside the bars they must meet.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

#: Seconds and gigabytes of a diagnosis of a million rows; --help against importing click.
SECONDS, GIGABYTES, RATIO = 15.0, 1.0, 1.5
#: Runs the command and says how much memory the process held at most (kilobytes on Linux).
_WATCHED = """
import resource, sys
from scoreprism.cli import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\\n")
"""


def help_against_click(repeats: int = 15) -> float:
    """Median seconds of ``--help`` over those of importing click, taken in turns."""
    commands = {"help": ["-m", "scoreprism", "--help"], "click": ["-c", "import click"]}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
            taken[name].append(time.perf_counter() - start)
    ours, peer = (statistics.median(taken[name]) for name in ("help", "click"))
    print(
        f"scoreprism --help {1e3 * ours:.0f} ms, import click {1e3 * peer:.0f} ms: ratio {ours / peer:.2f} (bar {RATIO})"
    )
    return ours / peer


def write_rows(path: Path, n: int) -> None:
    """Outcomes and two scores with 17 digits each, as pandas writes them."""
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 4.0, n)
    noisy = 1.0 / (1.0 + np.exp(-np.log(p / (1.0 - p)) + rng.normal(0.0, 0.5, n)))
    pl.DataFrame({"y": (rng.random(n) < p).astype(int), "old": noisy, "new": p}).write_csv(path)


def diagnose(path: Path) -> tuple[float, float, float]:
    """Seconds, seconds of the processors, and gigabytes of a diagnosis without features."""
    command = ["diagnose", str(path), "--target", "y", "--score", "old", "--score", "new"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _WATCHED, *command], capture_output=True, text=True, check=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, int(done.stderr.rsplit("peak ", 1)[1]) / 1e6


def main(n: int = 1_000_000) -> bool:
    ratio = help_against_click()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(path, n)
        seconds, used, gigabytes = diagnose(path)
        size = path.stat().st_size / 1e6
    print(
        f"diagnose {n:,} rows, two scores ({size:.0f} MB of CSV): {seconds:.1f} s (bar {SECONDS:g}; {used:.1f} s of the processors), {gigabytes:.2f} GB (bar {GIGABYTES:g})"
    )
    return ratio <= RATIO and seconds <= SECONDS and gigabytes <= GIGABYTES


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:2])) else 1)
