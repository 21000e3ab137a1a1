"""The demonstration: four models of German credit, from training to the report."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scoreprism.cli._options import FORCE, RANDOM, SHOWN, Command, options
from scoreprism.cli._output import Voice, emit, outputs, shorten
from scoreprism.cli._types import FILE

if TYPE_CHECKING:
    from scoreprism.report import Report

#: How a page of the demonstration ends: with a digest of all that stands before it.
_MARK = "<!-- written by scoreprism demo: {} -->\n"
_MARKED = re.compile(rb"<!-- written by scoreprism demo: ([0-9a-f]{64}) -->\n\Z")
#: Bytes of a file that is no page of ours, and is not read.
_LARGEST = 10**8


@click.command(cls=Command, example="scoreprism demo")
@options(
    click.option("--output", "-o", type=FILE, metavar="FILE", default="scoreprism-demo.html", show_default=True,
                 help="The report."),
    click.option("--save-data", type=FILE, metavar="FILE",
                 help="Only write the predictions it is about, to try commands on."),
)  # fmt: skip
@options(RANDOM, FORCE, SHOWN)
def demo(output: str, save_data: str | None, seed: int, jobs: int | None, force: bool, form: str, quiet: bool) -> None:
    """
    Train two credit models on bundled data, combine them in two ways, and report on all four.

    Writes the report, and prints its verdict. A page that a demonstration wrote, and nobody changed, is replaced.
    """
    from scoreprism._core.atomic_files import write_text
    from scoreprism._document.model import require_ending

    voice = Voice(quiet)
    if save_data:
        _write_example(save_data, voice, force=force)
        return
    way = require_ending(output)
    replaced = force or _is_ours(Path(output))
    (target,) = outputs((output,), force=replaced)
    with voice.listening():
        found = _reported(voice, seed, jobs)
        text = getattr(found, way)()
        where = write_text(target, lambda: _marked(text) if way == "to_html" else text, overwrite=replaced)
    emit(shorten(found), form)
    voice.say(f"wrote {where}: open it in a browser")


def _marked(page: str) -> str:
    """A page that says at its end that a demonstration wrote it."""
    return page + _MARK.format(hashlib.sha256(page.encode("utf-8")).hexdigest())


def _is_ours(path: Path) -> bool:
    """Whether a file is the page of a demonstration, as it was written."""
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size < _LARGEST else b""
    except OSError:
        return False
    found = _MARKED.search(content)
    return found is not None and hashlib.sha256(content[: found.start()]).hexdigest().encode() == found[1]


def _reported(voice: Voice, seed: int, jobs: int | None) -> Report:
    from scoreprism.cli._example import SCORES, TARGET, example_predictions
    from scoreprism.datasets import load_german_credit
    from scoreprism.report import summarize

    voice.say("training a logistic regression and a forest on 500 applicants …")
    rows = example_predictions()
    voice.say(f"judging them, their average and a stack of them on the other {rows.height} …")
    features = rows.drop(TARGET, *SCORES)
    return summarize(
        rows[TARGET], {name: rows[name] for name in SCORES}, features, segments={"housing": features["housing"]},
        random_state=seed, n_jobs=jobs, title="German credit: who will not pay back?",
        notes=[f"Data: {load_german_credit().attribution}"],
    )  # fmt: skip


def _write_example(path: str, voice: Voice, *, force: bool) -> None:
    """Write the predictions that the demonstration and the documentation are about."""
    from scoreprism.cli._apply_map import require_ending, write_frame
    from scoreprism.cli._example import example_predictions

    targets = outputs((path,), force=force)
    require_ending(targets[0])
    write_frame(example_predictions(), targets[0], None, voice, overwrite=force)
