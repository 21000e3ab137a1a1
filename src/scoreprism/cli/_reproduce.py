"""The paper's experiments: our numbers beside the printed ones."""

from __future__ import annotations

import click

from scoreprism.cli._options import FORCE, SHOWN, Command, Option, options
from scoreprism.cli._output import Voice, emit, emit_bytes
from scoreprism.cli._process import Terminated
from scoreprism.cli._types import FILE, Jobs


@click.command(cls=Command, example="scoreprism reproduce --quick")
@options(
    click.option("--quick", is_flag=True,
                 help="Fewer splits, trees and repetitions: a look in a minute, with wider tolerances."),
    click.option("--out", type=FILE, metavar="DIR", default="scoreprism-paper", show_default=True,
                 help="A folder for the page, tables and figures. An interrupted run goes on where it was."),
    click.option("--jobs", cls=Option, section="Numbers", type=Jobs(), metavar="N", default=-1,
                 show_default="one for each core", help="Processes; results do not depend on it."),
)  # fmt: skip
@options(FORCE, SHOWN)
def reproduce(quick: bool, out: str, jobs: int, force: bool, form: str, quiet: bool) -> None:
    """
    Run all experiments of the paper, and set each of our numbers beside the printed one.

    Writes a page, tables (CSV, Markdown) and figures (SVG, PNG) to a folder, and prints what is reproduced.
    """
    from dataclasses import replace
    from pathlib import Path

    from scoreprism.paper import reproduce as run
    from scoreprism.paper._folder import checks_text

    voice = Voice(quiet)
    with voice.listening():
        try:
            found = run(out, quick=quick, n_jobs=jobs, overwrite=force, callback=voice.say)
        except (KeyboardInterrupt, Terminated):
            voice.say(f"what is finished is kept in {out}: the same command goes on from there")
            raise
    if form == "csv":
        emit_bytes(checks_text(found))  # all numbers: that is what one computes with
    else:
        emit(found.report if form == "json" else replace(found.report, sections=found.report.sections[:1]), form)
    voice.say(f"wrote {Path(out) / 'index.html'}: open it in a browser")
