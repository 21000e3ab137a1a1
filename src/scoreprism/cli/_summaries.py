"""From a file to a report: reads, says what must be said, calls `summarize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scoreprism.cli._options import Asked
from scoreprism.cli._output import Voice

if TYPE_CHECKING:
    from scoreprism.cli._predictions import Predictions
    from scoreprism.decomposition import Decomposition
    from scoreprism.report import Report
    from scoreprism.report._report import ModelResult


#: Parts that rows are split into, so that each is judged by a fit that has not seen it.
_FOLDS = 5


def summarized(asked: Asked, voice: Voice, kind: str, choose: Callable[[Predictions], Any], **options: Any) -> Report:
    """The report on a file; everything but the result is said on stderr."""
    from scoreprism.report import summarize

    given = asked.given
    losses = asked.losses()
    with voice.listening():
        data = asked.read()
        _require_enough(data)
        sections = choose(data)
        for note in data.notes:
            voice.say(f"note: {note}")
        voice.say(f"seed: {given['seed']}")
        found = summarize(
            data.y, data.scores, data.X, loss=losses, q=data.reference, latent=data.latent,
            segments=data.segments or None, time=data.time, sample_weight=data.weight, groups=data.cluster,
            pos_label=data.pos_label,
            clip=given["clip"], level=given["level"], random_state=given["seed"], n_jobs=given["jobs"],
            sections=sections, title=given.get("title"), origin=data.origin, notes=data.notes, **options,
        )  # fmt: skip
    if kind != "recalibration":  # which shows no terms
        say_floors(found, voice)
    return replace(warned(found, data.doubts), kind=kind)


def warned(report: Report, texts: Sequence[str]) -> Report:
    """A report whose first section begins with warnings."""
    from scoreprism.report import Notice

    first, *rest = report.sections
    notices = tuple(Notice("warning", text) for text in texts)
    return replace(report, sections=(replace(first, blocks=(*notices, *first.blocks)), *rest))


def say_floors(report: Report, voice: Voice) -> None:
    """Say where terms are those of a floor that nobody asked for, and how to ask for another."""
    infinite = {
        (loss, twin._mark): [one for one, other in report.models.items() if loss in _floors(other)]
        for model in report.models.values()
        for loss, twin in _floors(model).items()
    }
    for (loss, mark), names in infinite.items():
        what = f"the {loss} loss of {', '.join(names)} is infinite; its terms are shown {mark}"
        voice.say(f"note: {what}. --clip chooses the distance, and gates then use it")


def _floors(model: ModelResult) -> dict[str, Decomposition]:
    """What stands beside the infinite losses of a model."""
    return {loss: found._stand_in for loss, found in model.decompositions.items() if found._stand_in is not None}


def _require_enough(data: Predictions) -> None:
    """As many rows as folds: the library's remedy, fewer folds, is none here."""
    import numpy as np

    from scoreprism._core.checks import refuse

    rows = np.arange(len(data.y)) if data.weight is None else np.flatnonzero(data.weight > 0)  # type: ignore[arg-type]
    n = len(rows) if data.cluster is None else len(np.unique(data.cluster[rows]))
    if n < _FOLDS:
        what, remedy = (
            ("rows", "Use more rows.") if data.cluster is None else ("clusters", "Use rows of more clusters.")
        )
        refuse(f"FILE must have at least {_FOLDS} {what}", f"{n}", remedy)


def told(report: Report, key: str, title: str) -> Report:
    """A report of one section, whose meaning becomes the headline."""
    section = report[key]
    return replace(report, title=title, headline=section.meaning, sections=(replace(section, meaning=""),))
