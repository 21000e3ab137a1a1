"""summarize(): from predictions to a report."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice
from scoreprism._core.progress import tracked
from scoreprism._core.simplex import ArrayLike
from scoreprism.calibrators import Calibrator
from scoreprism.losses import ProperLoss
from scoreprism.report._advice import headline
from scoreprism.report._calibration import calibration
from scoreprism.report._case import Case, parse_case
from scoreprism.report._decisions import decisions
from scoreprism.report._fit import overheard
from scoreprism.report._grouping import grouping
from scoreprism.report._method import method
from scoreprism.report._model import Origin, Section
from scoreprism.report._models import models
from scoreprism.report._recalibration import recalibration
from scoreprism.report._report import SECTIONS, ModelResult, Report
from scoreprism.report._segments import segments as by_segment
from scoreprism.report._verdict import verdict
from scoreprism.report._versions import versions

#: What makes each section; the last one, on method and data, is made from the report itself.
_MAKERS: dict[str, Callable[[Case], Section | None]] = {
    "verdict": verdict,
    "calibration": calibration,
    "recalibration": recalibration,
    "grouping": grouping,
    "decisions": decisions,
    "segments": by_segment,
    "models": models,
}


def summarize(
    y_true: ArrayLike,
    y_proba: Any,
    X: Any = None,
    *,
    loss: str | ProperLoss | Sequence[str | ProperLoss] = ("log", "brier"),
    q: ArrayLike | None = None,
    latent: ArrayLike | None = None,
    segments: Any = None,
    time: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    calibrators: Sequence[str | Calibrator] | None = None,
    cv: object = 5,
    clip: float | None = None,
    level: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
    sections: Sequence[str] | None = None,
    title: str | None = None,
    origin: Origin | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """
    Find out everything a report says.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like, fitted classifier, or mapping of str to these
        Predicted probabilities of rows the model was not trained on; models by name, the first is the one in the
        headline. Classifiers are applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features: with them the loss splits into three terms.
    loss : str, ProperLoss or sequence of these, default=("log", "brier")
        Losses; sections that speak of one speak of the first.
    q : array-like of shape (n,) or (n, K), optional
        The law P(Y | X), where it is known.
    latent : array-like of shape (n,) or (n, K), optional
        The law P(Y | Z) of a latent state.
    segments : mapping of str to array-like, frame or array-like, optional
        Columns of labels; each group is decomposed by laws of its own.
    time : array-like of shape (n,), optional
        Times, or labels of periods that sort in their order.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    calibrators : sequence of str or Calibrator, optional
        Recalibration maps to try; those that fit the number of classes by default. The map that the report hands over
        is `SelectedCalibrator`, which keeps the order of scores, unless maps are named here without it: then it is the
        best of these.
    cv : int, splitter or iterable, default=5
        Folds, as in `scoreprism.decompose`.
    clip : float, optional
        Keep all laws at least this far from 0.
    level : float, default=0.95
        Confidence level.
    random_state : int, default=0
        Seed of everything random; it is printed in the report.
    n_jobs : int, optional
        Processes; the report does not depend on it.
    sections : sequence of str, optional
        Which of `SECTIONS`; all by default.
    title : str, optional
        What stands above the report.
    origin : Origin, optional
        Where the data came from; by default they came from memory, and their hash is that of outcomes and scores.
    notes : sequence of str
        What was done to the data before, for the last section.

    Returns
    -------
    Report
        To be shown, saved, or asked.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> report = summarize(y, X[:, 0], sections=["verdict"])
    >>> [section.title for section in report.sections]
    ['Verdict']
    """
    asked = [parse_choice(key, SECTIONS, "section") for key in (SECTIONS if sections is None else sections)]
    options = {"q": q, "latent": latent, "cv": list(cv) if isinstance(cv, Iterator) else cv}
    options |= {
        "sample_weight": sample_weight,
        "groups": groups,
        "pos_label": pos_label,
        "classes": classes,
        "n_jobs": n_jobs,
    }
    case = parse_case(
        y_true, y_proba, X, loss=loss, segments=segments, time=time, level=level, random_state=random_state,
        clip=clip, calibrators=calibrators, notes=tuple(notes), options=options,
    )  # fmt: skip
    source = origin or Origin("memory", _digest(case), {})
    settings = {"seed": case.seed, "level": case.level, "losses": list(case.losses), "clip": clip, "folds": _folds(cv)}
    settings |= {"floor": next(iter(case.floors.values()))} if case.floors else {}
    made, results, case = _make(case, asked)
    if "method" in asked:
        made["method"] = method(case, source, settings | {"losses": ", ".join(case.losses)})
    return Report(
        title=title or f"Diagnosis of {', '.join(case.models)}",
        headline=headline(case),
        sections=tuple(made[key] for key in SECTIONS if key in made),
        models=results,
        origin=source,
        settings=settings,
        versions=versions(),
    )


def _make(case: Case, asked: Sequence[str]) -> tuple[dict[str, Section], dict[str, ModelResult], Case]:
    """The sections that were asked for; the verdict last, because it hears of everything that was warned of."""
    wanted = [key for key in _MAKERS if key in asked and key != "verdict"]
    made: dict[str, Section] = {}
    with overheard() as said:
        for key in tracked(wanted, len(wanted), "report"):
            section = _MAKERS[key](case)
            if section is not None:
                made[key] = section
        results = {name: _result(case, name, asked) for name in case.models}
    heard = {text for model in case.models.values() for text in model.warnings}
    case = replace(case, warnings=tuple(text for text in said if text not in heard))
    if "verdict" in asked:
        made["verdict"] = verdict(case)
    return made, results, case


def _folds(cv: object) -> object:
    return cv if isinstance(cv, int) else type(cv).__name__


def _result(case: Case, name: str, asked: Sequence[str]) -> ModelResult:
    """The results themselves, as far as they were asked for."""
    model = case.models[name]
    tests = {"calibration": model.calibration}
    if model.grouping is not None:
        tests["grouping"] = model.grouping
    return ModelResult(
        model.decompositions,
        tests,
        model.metrics if "calibration" in asked else None,
        model.map if "recalibration" in asked else None,
        model.decision_loss if "decisions" in asked and case.binary else None,
    )


def _digest(case: Case) -> str:
    """A hash of outcomes and scores."""
    found = hashlib.sha256()
    for model in case.models.values():
        for part in (model.y, model.law, model.weight):
            if part is not None:
                found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def make_report(
    y_true: ArrayLike,
    y_proba: Any,
    X: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Report:
    """
    A report on one or several models: what recalibration, a better model, or only better data can fix.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like, fitted classifier, or mapping of str to these
        Predicted probabilities of rows the model was not trained on, or models that are applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features.
    output : path, optional
        Where to write it: a name that ends in .html, .json, .md, .csv or .txt.
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    **options : object
        Further arguments of `scoreprism.report.summarize`: ``loss``, ``segments``, ``time``, ``sample_weight`` …

    Returns
    -------
    Report
        It shows itself in notebooks; `Report.save` writes it.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> report = make_report(y, X[:, 0], sections=["verdict"])
    >>> report.headline[:30]
    'Of the log loss of model, 0.64'
    """
    if output is not None:
        from scoreprism._core.atomic_files import require_writable

        require_writable(output, overwrite=overwrite)
    report = summarize(y_true, y_proba, X, **options)
    if output is not None:
        report.save(output, overwrite=overwrite)
    return report
