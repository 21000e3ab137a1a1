"""``python -m benchmarks.scale_statistics [--quick] [--only NAME ...] [--out FILE.md] [--checkpoint DIR] [--jobs 2]``.

Simulations of what scale claims: how little cells matter, folds that are drawn within cells, calibrated scores, drift between
periods. docs/scale_statistics.md holds the tables; --only takes the beginnings of names, --list shows them all.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.scale_statistics.studies import cells
from benchmarks.scale_statistics.tables import markdown
from benchmarks.statistics.cells import Checkpoint, run

#: What the numbers depend on beside the estimators.
SOURCES = tuple(f"scale/{name}" for name in ("_engine_pass", "_expressions", "_shift", "_sums_to_sample"))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_statistics")
    parser.add_argument("--quick", action="store_true", help="a few samples of each cell with few rows")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cells whose names begin so")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the tables there instead of printing them")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="keep results there and continue from them")
    parser.add_argument("--simulations", type=int, metavar="N", help="at most N samples of each cell")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stale", action="store_true", help="use results of other versions of the code too")
    parser.add_argument("--list", action="store_true", help="names of the cells, and nothing else")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    chosen = [cell for cell in cells() if not options.only or cell.name.startswith(tuple(options.only))]
    if options.list:
        print("\n".join(cell.name for cell in chosen))
        return 0
    checkpoint, book = Checkpoint(options.checkpoint, stale=options.stale, more=SOURCES), {}
    start = time.perf_counter()
    for number, cell in enumerate(chosen, 1):
        wanted = min(cell.quick if options.quick else cell.full, options.simulations or cell.full)
        if wanted:
            jobs, place = min(options.jobs, wanted), f"[{number}/{len(chosen)}]"
            book[cell.name] = run(cell, checkpoint, wanted, jobs=jobs, place=place)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    text = markdown(book)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
