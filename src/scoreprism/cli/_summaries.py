"""From a file to a report: reads, says what must be said, calls `summarize`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scoreprism.cli._options import Asked
from scoreprism.cli._output import Voice

if TYPE_CHECKING:
    from scoreprism.cli._predictions import Predictions
    from scoreprism.report import Report


def summarized(asked: Asked, voice: Voice, kind: str, choose: Callable[[Predictions], Any], **options: Any) -> Report:
    """
    The report on a file; everything but the result is said on stderr.

    Parameters
    ----------
    asked : Asked
        What the command was asked for.
    voice : Voice
        Says notes and warnings.
    kind : str
        What the report is.
    choose : callable
        From predictions to the sections that are wanted; refuses predictions that will not do.
    **options : object
        Further options of `summarize`.

    Returns
    -------
    Report
        With the results of each model.
    """
    from scoreprism.report import summarize

    given = asked.given
    losses = asked.losses()
    with voice.listening():
        data = asked.read()
        sections = choose(data)
        for note in data.notes:
            voice.say(f"note: {note}")
        voice.say(f"seed: {given['seed']}")
        found = summarize(
            data.y, data.scores, data.X, loss=losses, q=data.reference, latent=data.latent,
            segments=data.segments or None, time=data.time, sample_weight=data.weight, pos_label=data.pos_label,
            clip=given["clip"], level=given["level"], random_state=given["seed"], n_jobs=given["jobs"],
            sections=sections, title=given.get("title"), origin=data.origin, notes=data.notes, **options,
        )  # fmt: skip
    return replace(found, kind=kind)


def told(report: Report, key: str, title: str) -> Report:
    """
    A report of one section, whose meaning becomes the headline.

    Parameters
    ----------
    report : Report
        Any.
    key : str
        Name of the section.
    title : str
        What stands above it.

    Returns
    -------
    Report
        The same results.
    """
    section = report[key]
    return replace(report, title=title, headline=section.meaning, sections=(replace(section, meaning=""),))
