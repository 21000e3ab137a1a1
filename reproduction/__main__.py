"""``python -m reproduction``: run the paper's experiments and set each of our numbers beside the printed one."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reproduction.run import reproduce
from scoreprism.exceptions import ScoreprismError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__.partition(": ")[2])
    flag = parser.add_argument
    flag("--quick", action="store_true", help="fewer splits, trees and repetitions: a minute, with wider tolerances")
    folder = "folder for the page, tables and figures (%(default)s); an interrupted run goes on where it was"
    flag("--out", metavar="DIR", default="scoreprism-paper", help=folder)
    flag("--jobs", metavar="N", type=int, default=-1, help="processes; results do not depend on it (all cores)")
    flag("--force", action="store_true", help="replace the results of a finished run")
    options = parser.parse_args(arguments)
    if options.jobs == 0:
        parser.error("--jobs must be 1 or more, or -1 for one for each core; got 0")

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

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
    print(replace(found.report, sections=found.report.sections[:1]).to_text())
    report(f"wrote {Path(options.out) / 'index.html'}: open it in a browser")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: workers end, the journal is closed
    sys.exit(main())
