"""``python -m reproduction``: run the paper's experiments and set each of our numbers beside the printed one."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from reproduction.run import reproduce
from scoreprism.exceptions import ScoreprismError


def parse_jobs(text: str) -> int:
    """Parse a number of processes, as in joblib: −1 is one for each core."""
    jobs = int(text)
    if jobs == 0:
        raise argparse.ArgumentTypeError("0 processes cannot run anything; pass 1 or more, or -1 for one for each core")
    return jobs


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__.partition(": ")[2])
    parser.add_argument(
        "--quick", action="store_true", help="fewer splits, trees and repetitions: a minute, with wider tolerances"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="scoreprism-paper",
        help="folder for the page, tables and figures (%(default)s); an interrupted run goes on where it was",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=parse_jobs, default=-1, help="processes; results do not depend on it (all cores)"
    )
    parser.add_argument("--force", action="store_true", help="replace the results of a finished run")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = parse_arguments(arguments)

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: workers end, the journal is closed
    try:
        found = reproduce(
            options.out, quick=options.quick, n_jobs=options.jobs, overwrite=options.force, callback=report
        )
    except ScoreprismError as error:
        report(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        report(f"interrupted; what is finished is kept in {options.out}: the same command goes on from there")
        return 130
    print(repr(found))
    report(f"wrote {Path(options.out) / 'index.html'}: open it in a browser")
    return 0


if __name__ == "__main__":
    sys.exit(main())
