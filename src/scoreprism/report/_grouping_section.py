"""Section 4: where rows of equal scores have different chances, and which features say so."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.progress import track
from scoreprism._document.model import Block, Range, Section, Table, call_out, make_table
from scoreprism._findings.finding import Finding, doubts
from scoreprism._findings.wording import plural, write_amount, write_percent
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.information import make_tasks
from scoreprism._kernels.holm import holm
from scoreprism._sample.features import Encoder
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.sample import Sample
from scoreprism.curves import GroupingCurve
from scoreprism.displays import GroupingDisplay
from scoreprism.exceptions import ScoreprismError, ScoreprismWarning
from scoreprism.report._pieces import choose_rate_kind, draw_with, figure, write_title
from scoreprism.report._regions import Region, find_regions, is_unnamed, name_features
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import Case, RowSubject, find_features

#: Features that are weighed one by one; of more, those that a tree finds first.
MOST_FEATURES = 25
#: Features that failed, at most, and regions, at least, that are shown.
_TOP, _REGIONS = 8, 5
#: Models that are shown in full; of the second and third so many features are tested, in one partition of the rows.
_FULL, _OTHERS = 3, 6
#: Rows that features are weighed on, drawn at random from more.
_SAMPLE = 20_000


def make_grouping(case: Case) -> Section | None:
    """The fourth section: every model whose rows are known; the first ones in full, the rest in a table."""
    if not case.has_rows or len(case.first.chain.levels) < 3:
        return None
    lead: list[Finding] = []
    blocks: list[Block] = [_tabulate_models(case)] if len(case.models) > 1 else []
    findings: list[Finding] = []
    for number, model in enumerate(case.models.values(), start=1):
        if number > _FULL:
            lead += _find_lead(case, model, [])
            continue
        result, adds = model.basis(case.loss), list[str]()
        if case.binary and result.level_names[:3] == ("S", "C", "Q"):
            blocks.append(_make_diagram(case, model, number))
        if model.features is not None:
            adds, tables, more = _look_at_features(case, model, model.features, number)
            blocks += tables
            findings += more
        lead += _find_lead(case, model, adds)
    return Section("grouping", SECTIONS["grouping"], tuple(lead), (*blocks, *call_out(findings)))


def _look_at_features(
    case: Case, model: RowSubject, features: FeatureBlock, number: int
) -> tuple[list[str], list[Table], list[Finding]]:
    """Which features add to one model, the tables of features and of regions, and findings on what was not found."""
    if is_unnamed(features):
        facts = {"columns": len(features.columns)}
        return [], [], [Finding("no_region", facts=facts)] if number == 1 else []
    tables: list[Table] = []
    gains, failed = _find_gains(case, model, first=number == 1)
    adds = [gain[0] for gain in gains if gain[3] <= case.alpha]
    tables += [_tabulate_features(case, model, gains, len(failed), number)] if adds else []
    findings = [Finding("no_feature_adds", model=model.name, n=len(gains))] if gains and not adds else []
    for name, why in list(failed.items())[:_TOP]:
        findings.append(Finding("unavailable", model=model.name, subject=name, facts={"reason": why}))
    regions = find_regions(model, features, case.seed) if case.binary else []
    if any(region.pvalue <= case.alpha for region in regions):
        tables.append(_tabulate_regions(case, model, regions, number))
    else:
        facts = {} if case.binary else {"classes": model.k}
        findings.append(Finding("no_region", model=model.name, facts=facts))
    return adds, tables, findings


def _find_lead(case: Case, model: RowSubject, adds: list[str]) -> list[Finding]:
    """What the conclusions say of the first step of information, and which features add alone."""
    term = model.basis(case.loss).names[1]
    found = [one for one in case.conclusions[model.name] if one.term == term]
    found = [one.about(model.name) for one in found] if len(case.models) > 1 else found
    if adds:
        found.append(Finding("feature_adds", model=model.name, facts={"features": adds}))
    return found


def _tabulate_models(case: Case) -> Table:
    """What the features add to each model, at least, and whether a test shows it."""
    rows = []
    for name, model in case.models.items():
        result = model.basis(case.loss)
        term = result.names[1]
        doubted = bool(doubts(result.findings).keys() & {1, 2}) or not np.isfinite(result.risk)
        least = None if doubted else max(result._inference(term).lower_bound(case.level).value, 0.0)
        share = least / result.risk if least and result.risk > 0.0 else None
        rows.append((name, Range(least), share, case.pvalues["grouping"].get(name)))
    columns = [
        ("model", "model", "text"), ("bound", f"gain ({write_percent(case.level)})", "loss"),
        ("share", "share of the loss", "share"), ("pvalue", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    title = write_title(f"What a better model of these features would gain ({case.loss} loss)", case.mark)
    return make_table("grouping-models", title, columns, rows)


def _find_gains(case: Case, model: RowSubject, *, first: bool = True) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """
    What each feature alone adds to the score, starting from C as it was fitted; of many rows, on some of them.

    Of models after the first, fewer features in one partition of the rows: the bounds hold, folds matter more.
    """
    sample = model.whole.sample
    if model.score_law is None:
        size = min(_SAMPLE, model.n)
        sample = model.sample.take(np.sort(np.random.default_rng(case.seed).choice(model.n, size, replace=False)))
    features = find_features(sample)
    assert features is not None  # noqa: S101 - the section asks for them
    names = name_features(features.table)
    most = MOST_FEATURES if first else _OTHERS
    chosen = range(len(names)) if len(names) <= most else _choose_features(model, most)
    found, failed = [], {}
    for j in track(chosen, len(chosen), "features"):
        column = FeatureBlock("Q", features.columns[j], [features.columns[j]])
        try:
            found.append((names[j], *_judge_alone(case, model, sample, column, None if first else 1)))
        except ScoreprismError as error:
            failed[names[j]] = str(error)
    left = len(names) - len(found)  # those that were not chosen count too: the choice saw the outcomes
    adjusted = holm([*(gain[3] for gain in found), *[1.0] * left])[: len(found)]
    lines = [(name, gain, max(low, 0.0), p) for (name, gain, low, _), p in zip(found, adjusted, strict=True)]
    return sorted(lines, key=lambda line: (line[3], -line[1])), failed


def _judge_alone(
    case: Case, model: RowSubject, sample: Sample, column: FeatureBlock, repeats: int | None
) -> tuple[float, float, float]:
    """Gain of one feature, its lower bound and its p-value; in so many partitions, or as many as the model's own."""
    if np.unique(column.columns[0]).size < 2:
        refuse("a feature must have two values at least", "one", "It cannot add anything.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)
        score_law, fit = model.score_law, model.fit
        if score_law is not None:  # and so in its folds
            tasks = make_tasks(replace(fit.sample, levels=(column,)), fit.rows, own=True)
            fit = replace(fit, levels=tasks, mixture=None, repeats=repeats or fit.repeats)
            score_law = replace(score_law, below=score_law.below[:repeats])
        else:  # splits of all rows do not fit some of them
            fit = ChainFit.of(
                replace(sample, levels=(column,)), random_state=model.seed, n_jobs=case.n_jobs, repeats=repeats
            )
            score_law = fit.fit_score()[0]
        clip = model.basis(case.loss).clip  # that of the floor, where the loss is infinite
        chain = fit.link(score_law, fit.fit_levels(score_law))
        found = chain.decompose_at(case.losses[case.loss], "debiased", clip)
    inference = found._inference("grouping")
    return found.terms["grouping"], inference.lower_bound(case.level).value, inference.pvalue()


def _choose_features(model: RowSubject, most: int) -> list[int]:
    """The features that trees of the residuals use most."""
    from sklearn.ensemble import ExtraTreesRegressor

    features = model.features
    assert features is not None  # noqa: S101 - the section asks for them
    codes = Encoder.fit(features.columns)(features.columns).codes.T
    trees = ExtraTreesRegressor(100, max_depth=6, min_samples_leaf=20, random_state=model.seed)
    used = trees.fit(codes, _find_residual(model)).feature_importances_
    return sorted(np.argsort(-used)[:most].tolist())


def _find_residual(model: RowSubject) -> Any:
    """What the calibrated score leaves over: of several classes, of the likeliest one."""
    calibrated = model.calibrated
    if calibrated.ndim == 1:
        return model.sample.y - calibrated
    top = calibrated.argmax(axis=1)
    return (model.sample.y == top) - calibrated[np.arange(model.n), top]


def _tabulate_features(case: Case, model: RowSubject, gains: list[tuple[Any, ...]], failed: int, number: int) -> Table:
    columns = [
        ("feature", "feature", "text"), ("gain", "gain over the score", "amount"),
        ("bound", f"at least ({write_percent(case.level)})", "amount"), ("pvalue", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    total = len(name_features(model.sample.X))
    tested = len(gains) + failed
    few = [gain for gain in gains if gain[3] <= case.alpha]
    notes = ["What each feature alone adds to the calibrated score. Features overlap, so gains do not add up."]
    if tested < total:
        notes.append(f"{tested} of {total} features were tested: those that trees of the residuals use most.")
    if len(few) < len(gains):
        notes.append(f"{plural(len(gains) - len(few), 'other')} did not add significantly.")
    if model.score_law is None:
        notes.append(f"Tested on {_SAMPLE:,} rows drawn at random.")
    if number > 1:
        notes.append("Cross-fitted in one partition of the rows (three for the first model).")
    title = write_title(f"What each feature adds to {model.called} ({case.loss} loss)", model.basis(case.loss)._mark)
    return make_table(f"features-{number}", title, columns, few, " ".join(notes))


def _tabulate_regions(case: Case, model: RowSubject, regions: list[Region], number: int) -> Table:
    columns = [
        ("region", "region", "text"), ("rows", "rows", "count"), ("calibrated", "score, recalibrated", "short"),
        ("observed", "observed", "short"), ("difference", "difference", "short"),
        ("interval", f"{write_percent(case.level)} interval", "short"),
        ("pvalue", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    few = regions[: max(_REGIONS, sum(region.pvalue <= case.alpha for region in regions))]
    rows = [
        (r.words, r.rows, r.calibrated, r.observed, r.difference, Range(*r.interval(case.level)), r.pvalue) for r in few
    ]
    note = "Regions are found by a small tree on one half of the rows and judged on the other half."
    return make_table(f"regions-{number}", f"Where {model.called} is off, even once recalibrated", columns, rows, note)


def _make_diagram(case: Case, model: RowSubject, number: int) -> Block:
    curve = GroupingCurve.from_chain(model.chain.up_to(2), confidence_level=case.level, name=model.name)
    kind = choose_rate_kind(float(np.median(curve.x)))
    columns = [
        ("score", "mean score", kind), ("calibrated", "recalibrated", kind), ("q05", "5 %", kind),
        ("q25", "25 %", kind), ("q50", "median", kind), ("q75", "75 %", kind), ("q95", "95 %", kind),
        ("spread", "spread (sd)", kind),
    ]  # fmt: skip
    rows = [
        (float(x), float(c), *(float(v) for v in q), float(spread))
        for x, c, q, spread in zip(curve.x, curve.calibrated, curve.quantiles, curve.spread, strict=True)
    ]
    note = "The spread is corrected for the noise of the fit: it is 0 where noise explains all of it."
    data = make_table(f"grouping-data-{number}", "P(Y = 1 | X) among rows of similar scores", columns, rows, note)
    widest = int(np.argmax(curve.spread))
    described = (
        "How much the estimated chances given all features differ among rows of similar scores: most around the "
        f"score {write_amount(curve.x[widest], 2)} (standard deviation {write_amount(curve.spread[widest], 2)})."
    )
    draw = draw_with(GroupingDisplay([curve]))
    return figure(f"grouping-{number}", f"Grouping diagram of {model.called}", described, draw, data, size=(4.3, 4.5))
