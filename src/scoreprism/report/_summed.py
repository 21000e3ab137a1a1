"""summarize_sums(): from partials to a report, without rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scoreprism._core.checks import parse_choice, parse_confidence, refuse
from scoreprism._core.progress import tracked
from scoreprism._fitting.chain_fit import parse_losses
from scoreprism.losses import ProperLoss
from scoreprism.report._advice import headline
from scoreprism.report._fit import overheard
from scoreprism.report._model import Origin, Section
from scoreprism.report._report import SECTIONS, ModelResult, Report
from scoreprism.report._summed_sections import calibration, method, segments
from scoreprism.report._sums import SummedCase, SummedModel, judged_sums
from scoreprism.report._verdict import verdict
from scoreprism.report._versions import versions
from scoreprism.scale import Partial

#: Sections that sums can fill; the others need rows.
SUMMED = ("verdict", "calibration", "segments", "method")


def summarize_sums(
    partials: Partial | Mapping[str, Partial | Sequence[Partial]],
    *,
    loss: str | ProperLoss | Sequence[str | ProperLoss] | None = None,
    level: float = 0.95,
    random_state: int = 0,
    sections: Sequence[str] | None = None,
    title: str | None = None,
    origin: Origin | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """
    Find out everything a report says that sums can say.

    Parameters
    ----------
    partials : Partial, or mapping of str to Partial or sequence of Partial
        What `scoreprism.scale.summarize` made, by the name of the model; several of one model are sums of the same
        rows by different columns.
    loss : str, ProperLoss or sequence of these, optional
        Losses; those that were summed by default.
    level : float, default=0.95
        Confidence level.
    random_state : int, default=0
        Seed of drawn folds.
    sections : sequence of str, optional
        Which of "verdict", "calibration", "segments" and "method"; all by default.
    title : str, optional
        What stands above the report.
    origin : Origin, optional
        Where the sums came from.
    notes : sequence of str
        What was done to the data before.

    Returns
    -------
    Report
        To be shown, saved, or asked.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> rows = pl.LazyFrame({"y": (rng.random(5000) < p**2).astype(int), "p": p})
    >>> report = summarize_sums(scale.summarize(rows, target="y", score="p"))
    >>> [section.key for section in report.sections]
    ['verdict', 'calibration', 'method']
    """
    asked = [parse_choice(key, SUMMED, "section of a report from sums") for key in sections or SUMMED]
    given = _models(partials)
    several = list(loss) if isinstance(loss, (list, tuple)) else [loss]
    losses = parse_losses(list(next(iter(given.values()))[0].settings.losses) if loss is None else several)  # type: ignore[arg-type]
    confidence = parse_confidence(level)
    models: dict[str, SummedModel] = {}
    for name, sums in tracked(given.items(), len(given), "models"):
        models[name] = judged_sums(name, sums, losses, confidence, random_state)
    case = SummedCase(models, losses, confidence, random_state, tuple(notes))
    source = origin or Origin("memory", "", {})
    settings = {"seed": random_state, "level": confidence, "losses": list(losses)}
    settings |= {"clip": case.first.partial.settings.clip, "cells": case.first.partial.settings.cells}
    twins = [found._stand_in for model in models.values() for found in model.decompositions.values()]
    floors = [twin.clip for twin in twins if twin is not None]
    settings |= {"floor": floors[0]} if floors else {}
    made, case = _make(case, asked)
    if "method" in asked:
        made["method"] = method(case, source, settings | {"losses": ", ".join(losses)})
    return Report(
        title=title or f"Diagnosis of {', '.join(models)}",
        headline=headline(case),
        sections=tuple(made[key] for key in SECTIONS if key in made),
        models={name: _result(model) for name, model in case.models.items()},
        origin=source,
        settings=settings,
        versions=versions(),
    )


def _models(partials: object) -> dict[str, tuple[Partial, ...]]:
    """Sums by the name of their model."""
    if isinstance(partials, Partial):
        return {partials.settings.score: (partials,)}
    if not isinstance(partials, Mapping) or not partials:
        refuse(
            "`partials` must be a Partial, or a mapping of names to these", f"{partials!r}"[:80], "See scale.summarize."
        )
    found = {}
    for name, given in partials.items():
        sums = (given,) if isinstance(given, Partial) else tuple(given)
        if not sums or not all(isinstance(one, Partial) for one in sums):
            refuse(f"the sums of {name!r} must be partials", f"{given!r}"[:80], "See scale.summarize.")
        found[str(name)] = sums
    return found


def _make(case: SummedCase, asked: Sequence[str]) -> tuple[dict[str, Section], SummedCase]:
    """The sections that were asked for; the verdict last, because it hears of everything that was warned of."""
    made: dict[str, Section] = {}
    with overheard() as said:
        if "calibration" in asked:
            made["calibration"] = calibration(case)
        section, every = segments(case) if "segments" in asked else (None, {})
        if section is not None:
            made["segments"] = section
    heard = {text for model in case.models.values() for text in model.warnings}
    case = replace(case, warnings=tuple(text for text in said if text not in heard))
    if "verdict" in asked:
        made["verdict"] = verdict(case)
    return made, _kept(case, every)


def _kept(case: SummedCase, every: Mapping[str, object]) -> SummedCase:
    """The case whose first decomposition holds its periods, and its segments where they are of one column."""
    model, time = case.first, case.first.partials[-1].settings.time
    groups = [found for column, found in every.items() if column != time]
    more = {"periods": every.get(str(time)), "segments": groups[0] if len(groups) == 1 else None}
    loss = case.loss
    main = replace(model.decompositions[loss], **more)  # type: ignore[arg-type]
    kept = replace(model, decompositions=model.decompositions | {loss: main})
    return replace(case, models=case.models | {model.name: kept})


def _result(model: SummedModel) -> ModelResult:
    return ModelResult(dict(model.decompositions), {"calibration": model.calibration}, model.metrics, None)
