# ruff: noqa: A005
"""``python -m benchmarks.statistics [--quick] [--only NAME ...] [--out FILE.md] [--checkpoint DIR] [--jobs 2]``.

Simulations of decompositions on laws known exactly, beside the bars they must meet; docs/simulations.md holds the tables.
--only takes the beginnings of names of cells, such as ``scores/b`` or ``features``; --list shows them all.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

import scoreprism
from benchmarks.statistics.bars import SECTIONS, cells
from benchmarks.statistics.cells import Cell, Checkpoint, run
from benchmarks.statistics.scenarios import check_truths
from benchmarks.statistics.tables import markdown, tally


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.statistics", description="Simulations beside their bars."
    )
    parser.add_argument("--quick", action="store_true", help="a few samples of each cell, in less than two minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cells whose names begin so")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the tables there instead of printing them")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="keep results there and continue from them")
    parser.add_argument("--simulations", type=int, metavar="N", help="at most N samples of each cell")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stale", action="store_true", help="use results of other versions of the code too")
    parser.add_argument("--list", action="store_true", help="names of the cells, and nothing else")
    return parser.parse_args(arguments)


def missing(cell: Cell) -> str:
    """What a cell needs and there is not yet; empty if it can run."""
    kind = cell.name.partition("/")[0]
    if kind in ("size", "power"):
        return "" if importlib.util.find_spec("benchmarks.tests_power") else "benchmarks.tests_power"
    if kind == "lightgbm" and importlib.util.find_spec("lightgbm") is None:
        return "lightgbm (python -m pip install lightgbm)"
    name = "grouping_test" if kind.startswith("grouping-") else "decompose"
    return "" if hasattr(scoreprism, name) else f"scoreprism.{name}"


def versions(options: argparse.Namespace, seconds: float, verdicts: str) -> str:
    command = "python -m benchmarks.statistics" + " --quick" * options.quick
    command += f" --only {' '.join(options.only)}" if options.only else ""
    command += f" --simulations {options.simulations}" if options.simulations else ""
    return (
        f"`{command}`: {verdicts}.\n\nUnits of truth, bias, RMSE and width are 1e-4 of the loss; ± is the Monte-Carlo error "
        "of the number that the bar speaks of. *within error*: the bar is missed by at most two of these. "
        f"Brier is (p−y)² for two classes. {seconds:.0f} s of simulation with numpy {np.__version__}.\n"
    )


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    chosen = [cell for cell in cells() if not options.only or cell.name.startswith(tuple(options.only))]
    if options.list:
        print("\n".join(cell.name for cell in chosen))
        return 0
    check_truths()
    checkpoint, book = Checkpoint(options.checkpoint, stale=options.stale), {}
    start, skipped = time.perf_counter(), []
    for number, cell in enumerate(chosen, 1):
        lacking = missing(cell)
        if lacking:
            skipped.append(f"{cell.name}: not available, {lacking}")
            continue
        place = f"[{number}/{len(chosen)}]"
        wanted = min(cell.quick if options.quick else cell.full, options.simulations or cell.full)
        book[cell.name] = run(cell, checkpoint, wanted, jobs=options.jobs, place=place)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    sections = [section(book) for section in SECTIONS]
    seconds = sum(float(np.nansum(results["seconds"])) for results in book.values())
    text = "# Simulations\n\n" + versions(options, seconds, tally(sections) or "no verdicts")
    failed = [
        f"{name}: {results['failed'].sum():.0f} samples failed"
        for name, results in book.items()
        if results["failed"].any()
    ]
    text += "\n" + markdown(sections) + "".join(f"\n- {line}" for line in [*failed, *skipped]) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
