"""make_report(): from predictions, or from sums over them, to a report."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_clip, parse_confidence, parse_share, refuse, write_plain
from scoreprism._core.progress import track
from scoreprism._core.simplex import ArrayLike, as_vector
from scoreprism._document.model import Origin, Section, versions
from scoreprism._findings.finding import MIN_GAIN, Finding, collect_findings, select
from scoreprism._findings.wording import call_model
from scoreprism._fitting.chain_fit import ChainFit, parse_losses, share_folds
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample, find_floors, warn_of_prediction
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.losses import ProperLoss
from scoreprism.report._calibration_section import make_calibration
from scoreprism.report._class_section import make_classes
from scoreprism.report._decision_section import make_decisions
from scoreprism.report._grouping_section import make_grouping
from scoreprism.report._judgement import write_headline
from scoreprism.report._method_section import make_method
from scoreprism.report._models_section import make_models
from scoreprism.report._recalibration_section import make_recalibration
from scoreprism.report._report import SECTIONS, ModelResult, Report
from scoreprism.report._segment_section import SegmentColumn, attach, find_columns, make_segments
from scoreprism.report._subject import Case, RowSubject, fit_subject
from scoreprism.report._sum_subject import fit_sums
from scoreprism.report._verdict_section import make_verdict
from scoreprism.scale import Sums

#: What makes each section; None where it needs rows and only sums are known. Segments, verdict and method follow.
_MAKERS: dict[str, Callable[[Case], Section | None]] = {
    "calibration": make_calibration,
    "classes": make_classes,
    "recalibration": make_recalibration,
    "grouping": make_grouping,
    "decisions": make_decisions,
    "models": make_models,
}
#: Sections that sums can fill; the others need rows.
SUMMED = ("verdict", "calibration", "segments", "method")


@described()
def make_report(
    y_true: Any,
    y_proba: Any = None,
    X: Any = None,
    *,
    loss: str | ProperLoss | Sequence[str | ProperLoss] | None = None,
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
    confidence_level: float = 0.95,
    min_gain: float = MIN_GAIN,
    random_state: int = 0,
    n_jobs: int | None = None,
    sections: Sequence[str] | None = None,
    title: str | None = None,
    origin: Origin | None = None,
    notes: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Report:
    """
    A report on one or several models: what recalibration, a better model, or only better data can fix.

    Parameters
    ----------
    y_true : array-like of shape (n,), Sample, Sums, or mapping of str to Sums or sequence of Sums
        Outcomes; everything that belongs to the rows, parsed already; or what `scoreprism.scale.aggregate` made, by
        the name of the model (several of one model are sums of the same rows by different columns).
    y_proba : array-like, fitted classifier, or mapping of str to these
        Predicted probabilities of rows the model was not trained on; models by name, the first is the one in the
        headline. Classifiers are applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features: with them the loss splits into three terms.
    loss : str, ProperLoss or sequence of these, optional
        Losses; sections on one loss are on the first. Log loss and Brier by default, or those that were summed.
    q : array-like of shape (n,) or (n, K), optional
        P(Y | X), where it is known.
    latent : array-like of shape (n,) or (n, K), optional
        P(Y | Z) of a latent state.
    segments : mapping of str to array-like, frame or array-like, optional
        Columns of labels; each segment is decomposed by itself.
    time : array-like of shape (n,), optional
        Times, or labels of periods that sort in their order.
    calibrators : sequence of str or Calibrator, optional
        Recalibration maps to try; those that fit the number of classes by default. The map that the report hands over
        is `SelectedCalibrator`, which keeps the order of scores, unless maps are named here without it: then it is the
        best of these.
    cv : int, splitter or iterable, default=5
        Folds, as in `scoreprism.decompose`.
    min_gain : float, default=0.01
        Share of the loss below which a gain is not worth a change.
    random_state : int, default=0
        Seed of everything random; it is printed in the report.
    n_jobs : int, optional
        Processes; the report does not depend on it.
    sections : sequence of str, optional
        Which of `SECTIONS`; all by default. Sums can fill "verdict", "calibration", "segments" and "method".
    title : str, optional
        Report title.
    origin : Origin, optional
        Where the data came from; by default they came from memory, and their hash is that of outcomes and scores.
    notes : sequence of str
        What was done to the data before, for the last section.
    findings : sequence of Finding
        What was found out about the data before; cautions are shown in the verdict.
    output : path, optional
        Where to write it: a name that ends in .html, .json, .md, .csv or .txt.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Report
        It shows itself in notebooks; `Report.save` writes it.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> report = make_report(y, X[:, 0], sections=["verdict"])
    >>> report.headline[:34]
    'Of the log loss of the model, 0.64'

    From sums, where the rows are too many to be held:

    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rows = pl.LazyFrame({"y": y, "p": X[:, 0]})
    >>> [section.key for section in make_report(scale.aggregate(rows, target="y", score="p")).sections]
    ['verdict', 'calibration', 'method']
    """
    if output is not None:
        from scoreprism._core.atomic_files import require_writable

        require_writable(output, overwrite=overwrite)
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)) or random_state < 0:
        remedy = "It is printed in the report, so that anybody can make it again."
        refuse("`random_state` of a report must be a whole number", write_plain(random_state), remedy)
    confidence, share, seed = parse_confidence(confidence_level), parse_share(min_gain, "min_gain"), int(random_state)
    given = [loss] if isinstance(loss, (str, ProperLoss)) else loss
    of_rows = {
        "q": q, "latent": latent, "segments": segments, "time": time, "sample_weight": sample_weight,
        "groups": groups, "pos_label": pos_label, "classes": classes,
    }  # fmt: skip
    sums = _parse_sums(y_true)
    if sums is not None:
        asked = [parse_choice(key, SUMMED, "section of a report from sums") for key in sections or SUMMED]
        _refuse_rows({"y_proba": y_proba, "X": X, **of_rows, "calibrators": calibrators, "clip": clip})
        losses = parse_losses(list(next(iter(sums.values()))[0].settings.losses) if given is None else given)
        fits = track(sums.items(), len(sums), "models")
        subjects = {name: fit_sums(name, own, losses, confidence, seed) for name, own in fits}
        case = Case(subjects, losses, confidence, seed)
        settings = case.first.sums.settings
        choices = {"clip": settings.clip, "cells": settings.cells}
    else:
        asked = list(SECTIONS) if sections is None else [parse_choice(key, SECTIONS, "section") for key in sections]
        losses, maps = parse_losses(("log", "brier") if given is None else given), tuple(calibrators or ())
        for name in maps:
            get_calibrator(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # issued again for each model
            sample = Sample.of(y_true, y_proba, X, **of_rows)
        clip = parse_clip(clip, sample.k)
        folds = list(cv) if isinstance(cv, Iterator) else cv
        case = fit_case(sample, losses, level=confidence, seed=seed, clip=clip, maps=maps, cv=folds, n_jobs=n_jobs)
        absent = sample.n_given - sample.n
        findings = (*findings, *([Finding("zero_weight", n=absent)] if absent else []))
        origin = origin or Origin("memory", _hash_rows(case), {})
        choices = {"clip": clip, "folds": cv if isinstance(cv, int) else type(cv).__name__}
    case = replace(case, notes=tuple(notes), findings=tuple(findings), min_gain=share)
    report = _build(case, asked, title, origin or Origin(), choices)
    if output is not None:
        report.save(output, overwrite=overwrite)
    return report


def fit_case(
    sample: Sample,
    losses: dict[str, ProperLoss],
    *,
    level: float = 0.95,
    seed: int = 0,
    clip: float | None = None,
    maps: tuple[str | Calibrator, ...] = (),
    **how: Any,
) -> Case:
    """Fit the laws of every model of a sample on the same folds; `how` goes to the fit."""
    fits: list[ChainFit] = []
    warned: list[tuple[Finding, ...]] = []
    for name in sample.predictions:
        with collect_findings() as own:
            model = sample.model(name)
            warn_of_prediction(model, "the score")
            fits.append(ChainFit.of(model, random_state=seed, **how))
        warned.append(tuple(own))
    fits = share_folds(fits)
    floors = find_floors([fit.sample for fit in fits], losses.values(), clip)
    subjects: dict[str, RowSubject] = {}
    for fit, before in track(zip(fits, warned, strict=True), len(fits), "models"):
        subjects[fit.sample.name] = fit_subject(
            fit, losses, clip=clip, floors=floors, level=level, seed=seed, maps=maps, before=before
        )
    folds = {key: how[key] for key in ("cv", "n_jobs") if key in how}
    return Case(subjects, losses, level, seed, sample=sample, clip=clip, floors=floors, **folds)


def _build(case: Case, asked: Sequence[str], title: str | None, origin: Origin, choices: Mapping[str, Any]) -> Report:
    """Make the sections that were asked for; the verdict after the others, as it takes up what they found."""
    wanted = [key for key in _MAKERS if key in asked]
    sections: dict[str, Section | None] = {}
    with collect_findings() as warned:
        for key in track(wanted, len(wanted), "report"):
            sections[key] = _MAKERS[key](case)
        columns = find_columns(case) if "segments" in asked else {}
        sections["segments"] = make_segments(case, columns)
        results = {
            name: _collect_results(case, model, asked, columns.get(name, ())) for name, model in case.models.items()
        }
    by_segment = () if sections["segments"] is None else sections["segments"].findings
    changed = [one for one in select(by_segment, "changed") if one.facts["periods"]]
    known = [one for model in case.models.values() for one in model.findings]
    fresh = [one for one in warned if one not in known]
    classes = sections.get("classes")
    by_class = () if classes is None else classes.lead
    case = replace(
        case, findings=(*case.findings, *fresh, *select(by_segment, "segment_miscalibrated"), *changed, *by_class)
    )
    settings = {
        "seed": case.seed,
        "confidence_level": case.level,
        "min_gain": case.min_gain,
        "losses": list(case.losses),
        **choices,
    }
    twins = [result._stand_in for model in case.models.values() for result in model.decompositions.values()]
    floors = [twin.clip for twin in twins if twin is not None]
    settings |= {"floor": floors[0]} if floors else {}
    if "verdict" in asked:
        sections["verdict"] = make_verdict(case)
    if "method" in asked:
        sections["method"] = make_method(case, origin, settings | {"losses": ", ".join(case.losses)})
    return Report(
        kind="report",
        title=title or f"Diagnosis of {', '.join(map(call_model, case.models))}",
        headline=write_headline(case),
        sections=tuple(section for section in map(sections.get, SECTIONS) if section is not None),
        models=results,
        origin=origin,
        settings=settings,
        versions=versions(),
    )


def _collect_results(case: Case, model: Any, asked: Sequence[str], columns: Sequence[SegmentColumn]) -> ModelResult:
    """The results of one model, as far as they were asked for."""
    decompositions = dict(model.decompositions)
    if not case.has_rows:
        decompositions[case.loss] = attach(decompositions[case.loss], columns)
    tests = {"calibration": model.calibration}
    if model.grouping is not None:
        tests["grouping"] = model.grouping
    return ModelResult(
        decompositions,
        tests,
        model.metrics if "calibration" in asked else None,
        model.map if case.has_rows and "recalibration" in asked else None,
        model.decision_loss if case.has_rows and "decisions" in asked and case.binary else None,
        case.conclusions[model.name],
    )


def _hash_rows(case: Case) -> str:
    """A hash of outcomes and scores."""
    digest = hashlib.sha256()
    for model in case.models.values():
        sample = model.whole.sample
        law = as_vector(sample.prediction) if sample.k == 2 else sample.prediction
        for part in (sample.y, law, sample.weight):
            if part is not None:
                digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


# ── from sums ───────────────────────────────────────────────────────────────────────────────────────


def _parse_sums(given: object) -> dict[str, tuple[Sums, ...]] | None:
    """Sums by the name of their model; None where rows were given."""
    if isinstance(given, Sums):
        return {given.settings.score: (given,)}
    if not isinstance(given, Mapping):
        return None
    found = {str(name): (one,) if isinstance(one, Sums) else tuple(one) for name, one in given.items()}
    for name, sums in found.items() or [("", ())]:
        if not sums or not all(isinstance(one, Sums) for one in sums):
            refuse("`y_true` must be outcomes, or Sums by name", f"{given.get(name)!r}"[:80], "See scale.aggregate.")
    return found


def _refuse_rows(arguments: Mapping[str, object]) -> None:
    """Refuse arguments of rows where sums were given."""
    wrong = [name for name, value in arguments.items() if value is not None]
    if wrong:
        refuse("a report from sums must not have arguments of rows", f"`{wrong[0]}`", "Pass it to scale.aggregate.")
