"""From a file to a report: reads, says what must be said, calls `summarize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scoreprism._document.model import Callout
from scoreprism._findings.finding import MIN_GAIN, Finding
from scoreprism.cli._options import Asked
from scoreprism.cli._output import Voice

if TYPE_CHECKING:
    from scoreprism import Sample
    from scoreprism.decomposition import Decomposition
    from scoreprism.report import ModelResult, Report


#: Parts that rows are split into, so that each is judged by a fit that has not seen it.
_FOLDS = 5


def summarized(asked: Asked, voice: Voice, kind: str, choose: Callable[[Sample], Any], **options: Any) -> Report:
    """The report on a file; everything but the result is said on stderr."""
    given = asked.given
    losses = asked.losses()
    with voice.listening():
        data = asked.read()
        _require_enough(data.sample)
        sections = choose(data.sample)
        for note in data.notes:
            voice.say(f"note: {note}")
        voice.say(f"seed: {given['seed']}")
        from scoreprism.report import summarize  # not before the file is found fit: it loads everything

        found = summarize(
            data.sample, loss=losses, clip=given["clip"], confidence_level=given["confidence"],
            min_gain=given.get("min_gain", MIN_GAIN), random_state=given["seed"], n_jobs=given["jobs"],
            sections=sections, title=given.get("title"), origin=data.origin, notes=data.notes,
            findings=find_suspects(data.doubts), **options,
        )  # fmt: skip
    if kind != "recalibration":  # which shows no terms
        say_floors(found, voice)
    return replace(found, kind=kind)


def find_suspects(doubts: Sequence[str]) -> list[Finding]:
    """What speaks against a file being complete."""
    return [Finding("file_suspect", facts={"reason": text}) for text in doubts]


def say_floors(report: Report, voice: Voice) -> None:
    """Say where terms are those of a floor that nobody asked for, and how to ask for another."""
    infinite = {
        (loss, twin._mark): [one for one, other in report.models.items() if loss in _floors(other)]
        for model in report.models.values()
        for loss, twin in _floors(model).items()
    }
    for (loss, mark), names in infinite.items():
        what = f"the {loss} loss of {', '.join(names)} is infinite; its terms are shown {mark}"
        voice.say(f"note: {what}. Use --clip to choose the distance; gates then use it too")


def _floors(model: ModelResult) -> dict[str, Decomposition]:
    """What stands beside the infinite losses of a model."""
    return {loss: found._stand_in for loss, found in model.decompositions.items() if found._stand_in is not None}


def _require_enough(sample: Sample) -> None:
    """As many rows as folds: the library's remedy, fewer folds, is none here."""
    from scoreprism._core.checks import refuse

    if sample.n_units < _FOLDS:
        what, remedy = ("rows", "Use more rows.")
        if sample.groups is not None:
            what, remedy = ("groups", "Use rows of more groups.")
        refuse(f"FILE must have at least {_FOLDS} {what}", f"{sample.n_units}", remedy)


def keep_section(report: Report, key: str, title: str, findings: Sequence[Finding] = ()) -> Report:
    """A report of one section, whose lead becomes the headline; other `findings` stand below it."""
    section = report[key]
    kept = replace(section, title="", lead=(), blocks=(*section.blocks, *map(Callout, findings)))
    return replace(report, title=title, headline=section.meaning, sections=(kept,))
