"""Section 4: where rows of equal scores have different chances, and which features say so."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.progress import tracked
from scoreprism._document.tables import marked
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.information import make_tasks
from scoreprism._kernels.holm import holm
from scoreprism._sample.features import Encoder
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.sample import Sample
from scoreprism.curves import GroupingCurve
from scoreprism.decomposition._advice import amount
from scoreprism.displays import GroupingDisplay
from scoreprism.exceptions import ScoreprismError, ScoreprismWarning
from scoreprism.report._evidence import alpha_of
from scoreprism.report._model import Block, Notice, Section, Table
from scoreprism.report._pieces import ends, enumerated, figure, pvalue, table
from scoreprism.report._regions import Region, feature_names, find_regions
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import RowCase, RowSubject, find_features

#: Features that are weighed one by one; of more, those that a tree finds first.
MOST_FEATURES = 25
#: Features and regions that are shown at least, even if nothing is shown of them.
_TOP, _REGIONS = 8, 5
#: Rows that features are weighed on, drawn at random from more.
_SAMPLE = 20_000


def grouping(case: RowCase) -> Section | None:
    """The fourth section."""
    model = case.first
    result = model.basis(case.loss)
    if len(model.chain.levels) < 3:
        return None
    blocks: list[Block] = []
    if case.binary and result.level_names[:3] == ("S", "C", "Q"):
        blocks.append(_diagram(case, model))
    gains: list[tuple[Any, ...]] = []
    regions: list[Region] = []
    if model.features is not None:
        gains, failed = feature_gains(case, model)
        blocks += [_features(case, model, gains, len(failed))] if gains else []
        blocks += [Notice("note", f"{name} was not weighed: {why}") for name, why in list(failed.items())[:_TOP]]
        regions = find_regions(model, model.features, case.seed) if case.binary else []
        blocks.append(_rules(case, model, regions) if regions else Notice("note", _no_regions(case)))
    return Section("grouping", SECTIONS["grouping"], _meaning(case, model, gains), tuple(blocks))


def _meaning(case: RowCase, model: RowSubject, gains: list[tuple[Any, ...]]) -> str:
    result = model.basis(case.loss)
    name = result.names[1]
    doubt = next((text for level, text in result._doubts if level in (1, 2)), None)
    if doubt:
        return f"Nothing is said of what the features add to {model.name}: {doubt}"
    least = result.lower_bound(name, case.level).value
    shown = [gain for gain in gains if gain[3] <= alpha_of(case.level)]
    add = "adds" if len(shown) == 1 else "add"
    most = f" Alone, {enumerated([gain[0] for gain in shown])} {add} to it." if shown else ""
    if least > 0.0:
        said = (
            f"Rows to which {model.name} gives the same score differ in ways the features tell: a "
            "model that used them fully "
            f"would save at least {amount(least, result.risk)} of the {case.loss} loss.{most}"
        )
        return marked(said, result._mark)
    test = model.grouping
    if test is not None and test.pvalue <= alpha_of(case.level):
        return (
            f"The features know more than {model.name} ({pvalue(test.pvalue)}); how much a model that "
            f"used them would save is not settled.{most}"
        )
    return (
        f"That the features know more than {model.name} is not shown: no data can rule it out, these do "
        f"not prove it.{most}"
    )


def feature_gains(case: RowCase, model: RowSubject) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """What each feature alone adds to the score, starting from C as it was fitted; of many rows, on some of them."""
    sample = model.whole.sample
    if model.score_law is None:
        size = min(_SAMPLE, model.n)
        sample = model.sample.take(np.sort(np.random.default_rng(case.seed).choice(model.n, size, replace=False)))
    features = find_features(sample)
    assert features is not None  # noqa: S101 - the section asks for them
    names = feature_names(features.table)
    chosen = range(len(names)) if len(names) <= MOST_FEATURES else _first(model)
    found, failed = [], {}
    for j in tracked(chosen, len(chosen), "features"):
        column = FeatureBlock("Q", features.columns[j], [features.columns[j]])
        try:
            found.append((names[j], *_alone(case, model, sample, column)))
        except ScoreprismError as error:
            failed[names[j]] = str(error)
    left = len(names) - len(found)  # those that were not chosen count too: the choice saw the outcomes
    adjusted = holm([*(gain[3] for gain in found), *[1.0] * left])[: len(found)]
    lines = [(name, gain, max(low, 0.0), p) for (name, gain, low, _), p in zip(found, adjusted, strict=True)]
    return sorted(lines, key=lambda line: (line[3], -line[1])), failed


def _alone(case: RowCase, model: RowSubject, sample: Sample, column: FeatureBlock) -> tuple[float, float, float]:
    """Gain of one feature, its lower bound and its p-value."""
    if np.unique(column.columns[0]).size < 2:
        refuse("a feature must have two values at least", "one", "It cannot add anything.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)
        score_law, fit = model.score_law, model.fit
        if score_law is not None:  # and so in its folds
            fit = replace(
                fit, levels=make_tasks(replace(fit.sample, levels=(column,)), fit.rows, own=True), mixture=None
            )
        else:  # splits of all rows do not fit some of them
            fit = ChainFit.of(replace(sample, levels=(column,)), random_state=model.seed, n_jobs=case.n_jobs)
            score_law = fit.fit_score()[0]
        clip = model.basis(case.loss).clip  # that of the floor, where the loss is infinite
        chain = fit.link(score_law, fit.fit_levels(score_law))
        found = chain.decompose_at(case.losses[case.loss], "debiased", clip)
    inference = found._inference("grouping")
    return found.terms["grouping"], found.lower_bound("grouping", case.level).value, inference.pvalue()


def _first(model: RowSubject) -> list[int]:
    """The features that trees of the residuals use most."""
    from sklearn.ensemble import ExtraTreesRegressor

    features = model.features
    assert features is not None  # noqa: S101 - the section asks for them
    codes = Encoder.fitted(features.columns)(features.columns).codes.T
    trees = ExtraTreesRegressor(100, max_depth=6, min_samples_leaf=20, random_state=model.seed)
    used = trees.fit(codes, as_residual(model)).feature_importances_
    return sorted(np.argsort(-used)[:MOST_FEATURES].tolist())


def as_residual(model: RowSubject) -> Any:
    """What the calibrated score leaves over: of several classes, of the likeliest one."""
    calibrated = model.calibrated
    if calibrated.ndim == 1:
        return model.y - calibrated
    top = calibrated.argmax(axis=1)
    return (model.y == top) - calibrated[np.arange(model.n), top]


def _features(case: RowCase, model: RowSubject, gains: list[tuple[Any, ...]], failed: int) -> Table:
    columns = [
        ("feature", "feature", "text"), ("gain", "gain over the score", "number"),
        ("bound", f"at least ({case.percent})", "number"), ("pvalue", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    total = len(feature_names(model.sample.X))
    some = (
        f" {len(gains) + failed} of {total} features were weighed, those that trees of the residuals use most."
        if total > MOST_FEATURES
        else ""
    )
    sample = f" Weighed on {_SAMPLE:,} rows drawn at random." if model.score_law is None else ""
    note = (
        "What each feature alone adds to the calibrated score; features share what they know, so gains "
        f"do not add up.{some}{sample}"
    )
    few = gains[: max(_TOP, sum(gain[3] <= alpha_of(case.level) for gain in gains))]
    less = f" {len(gains) - len(few)} more are not shown to add anything." if len(few) < len(gains) else ""
    mark = model.basis(case.loss)._mark
    title = f"What each feature adds to {model.name} ({case.loss} loss{f', {mark}' if mark else ''})"
    return table("features", title, columns, few, note + less)


def _no_regions(case: RowCase) -> str:
    if not case.binary:
        return "Regions in words are found for two classes."
    return (
        "No region of the features was found in which outcomes differ from the recalibrated score: too "
        "few rows, or nothing to find."
    )


def _rules(case: RowCase, model: RowSubject, regions: list[Region]) -> Table:
    columns = [
        ("region", "region", "text"), ("rows", "rows", "count"), ("calibrated", "score, recalibrated", "short"),
        ("observed", "observed", "short"), ("difference", "difference", "short"),
        ("interval", f"{case.percent} interval", "short"),
        ("pvalue", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    rows = []
    few = regions[: max(_REGIONS, sum(region.pvalue <= alpha_of(case.level) for region in regions))]
    for region in few:
        interval = ends(*region.interval(case.level))
        shown = (
            region.words,
            region.rows,
            region.calibrated,
            region.observed,
            region.difference,
            interval,
            region.pvalue,
        )
        rows.append(shown)
    note = "Regions were found by a small tree on one half of the rows, and are judged on the other half."
    sure = any(region.pvalue <= alpha_of(case.level) for region in regions)
    title = (
        f"Where {model.name} is wrong at equal scores" if sure else f"Where {model.name} may be wrong: none is shown"
    )
    return table("regions", title, columns, rows, note)


def _diagram(case: RowCase, model: RowSubject) -> Block:
    curve = GroupingCurve.from_chain(model.chain.up_to(2), level=case.level, name=model.name)
    columns = [
        ("score", "mean score", "short"), ("calibrated", "recalibrated", "short"), ("q05", "5 %", "short"),
        ("q25", "25 %", "short"),
        ("q50", "median", "short"), ("q75", "75 %", "short"), ("q95", "95 %", "short"),
        ("spread", "spread (sd)", "short"),
    ]  # fmt: skip
    rows = [
        (float(x), float(c), *(float(v) for v in q), float(spread))
        for x, c, q, spread in zip(curve.x, curve.calibrated, curve.quantiles, curve.spread, strict=True)
    ]
    data = table("grouping-data", "P(Y = 1 | X) among rows of similar scores", columns, rows)
    widest = int(np.argmax(curve.spread))
    described = (
        "Among rows of similar scores, quantiles of the estimated chance given all features; it "
        "spreads most, by a standard deviation of "
        f"{curve.spread[widest]:.3f}, around the score {curve.x[widest]:.2f}."
    )

    def draw(ax: Any) -> None:
        GroupingDisplay([curve]).plot(ax)

    return figure("grouping", f"Grouping diagram of {model.name}", described, draw, data, size=(4.3, 4.5))
