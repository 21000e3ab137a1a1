"""Parsing of an ensemble: outcomes, members and their aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import abbreviate, parse_law, refuse, require_rows, write_plain
from scoreprism._core.frames import columns_of, require_aligned
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, as_matrix, n_classes, narrow_law, unify
from scoreprism._findings.finding import Finding
from scoreprism._fitting.candidates import keep_from_certainty
from scoreprism._fitting.crossfit import CrossFit, make_crossfit
from scoreprism._sample.features import parse_features, score_columns
from scoreprism._sample.fit_rows import FitRows, warn_of_reversed_scores
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.sample import Sample
from scoreprism.ensembles._combiners import BetaTransformedPool, Combiner, LinearPool, LogPool
from scoreprism.ensembles._members import Members, is_ensemble, parse_members
from scoreprism.ensembles._pools import parse_exponents, parse_shares, pool_linearly, pool_logarithmically
from scoreprism.ensembles._stacking import Stacking
from scoreprism.exceptions import LabelError

#: Every combiner that is fitted to outcomes.
COMBINERS: dict[str, type[Combiner]] = {cls.name: cls for cls in (LinearPool, LogPool, BetaTransformedPool, Stacking)}
#: Aggregates by name: the mean of the members and other pools by a fixed rule, then combiners, fitted in folds.
AGGREGATES = ("mean", "weighted-average", "log-pool", *COMBINERS)


@dataclass(frozen=True)
class Ensemble:
    """Members, the predictions of a sample, and their aggregate: (n,) for two classes."""

    sample: Sample
    law: FloatArray  # the aggregate
    aggregate: str  # name of the aggregate
    shares: FloatArray | None = None  # (M,): weights of a linear pool; None for other aggregates
    findings: tuple[Finding, ...] = ()  # about the members

    @property
    def members(self) -> FloatArray:
        """Laws of the members, (M, n) or (M, n, K)."""
        return np.stack(list(self.sample.predictions.values()))

    @property
    def alone(self) -> Sample:
        """The aggregate as the only model of the rows, and nothing above it."""
        return replace(self.sample, predictions={self.aggregate: self.law}, X=None, levels=(), findings={})

    @property
    def block(self) -> FeatureBlock:
        """The members as features: logits, or log-probabilities, side by side."""
        table = np.column_stack([column for law in self.members for column in score_columns(law)])
        return FeatureBlock("C_S", table, parse_features(table, self.sample.n, "level 'C_S'"))


def parse_ensemble(
    y_true: ArrayLike | Sample,
    y_proba: Any,
    X: ArrayLike | None,
    aggregate: Any,
    rows: Mapping[str, Any],
    *,
    weights: ArrayLike | None,
    seed: int,
    cv: object = 5,
) -> Ensemble:
    """Read an ensemble, whose fitted members are applied to X, and combine it; `rows` are arguments of `Sample.of`."""
    _require_order(y_true, X)
    if isinstance(y_true, Sample):
        sample = Sample.of(y_true, y_proba, **{"X": X, **rows})
        members = parse_members(sample)
        fixed = _pool(members, aggregate, weights)
        law = None if fixed is None else fixed[0]
    else:
        parts = {f"member {name!r}": part for name, part in y_proba.items()} if isinstance(y_proba, Mapping) else {}
        beside = {"X": X, "sample_weight": rows.get("sample_weight"), "groups": rows.get("groups")}
        require_aligned({"y_true": y_true, "y_proba": y_proba, **beside, **parts, "aggregate": aggregate})
        members = parse_members(y_proba, X if _has_models(y_proba) else None, y_true)
        fixed = _pool(members, aggregate, weights)
        sample, law = _parse_rows(y_true, members, None if fixed is None else fixed[0], rows)
    laws = {name: narrow_law(one) for name, one in sample.predictions.items()}
    sample, findings = replace(sample, predictions=laws, backend=sample.backend or members.backend), members.findings
    if fixed is not None and law is not None:
        ensemble = Ensemble(sample, narrow_law(law), *fixed[1:], findings)
    else:
        name = aggregate if isinstance(aggregate, str) else type(aggregate).__name__
        if hasattr(aggregate, "classes_"):
            law = _apply_combiner(aggregate, sample, named=members.named)
        else:
            combiner = COMBINERS[aggregate]() if isinstance(aggregate, str) else aggregate
            law = _crossfit_combiner(combiner, sample, seed, cv)
            findings = (*findings, Finding("law_fitted", subject=name, facts={"aggregate": True}))
        ensemble = Ensemble(sample, law, name, None, findings)
    if sample.classes is not None and np.unique(sample.y).size > 1:
        warn_of_reversed_scores(ensemble.alone.fit_rows(), sample.classes)
    return ensemble


def _parse_rows(
    y_true: ArrayLike, members: Members, law: FloatArray | None, rows: Mapping[str, Any]
) -> tuple[Sample, FloatArray | None]:
    """The members beside the outcomes, and the aggregate in the same rows and the same order of classes."""
    labels = members.classes if members.laws.ndim == 3 else None
    pairs = zip(members.names, members.laws, strict=True)
    laws = {name: GivenLaw(f"member {name!r}", one, None, labels) for name, one in pairs}
    if law is None:
        return Sample.of(y_true, laws, **rows), None
    key = "aggregate"
    while key in laws:
        key += "_"
    laws[key] = GivenLaw("aggregate", law, None, labels if law.ndim == 2 else None)
    sample = Sample.of(y_true, laws, **rows)
    predictions = dict(sample.predictions)
    law = predictions.pop(key)
    return replace(sample, predictions=predictions), law


def _require_order(y_true: Any, X: Any) -> None:
    """Refuse arguments in the wrong order; `aggregate`, once the third, is keyword-only."""
    order = "The order is (y_true, y_proba, X, *, aggregate)."
    if isinstance(y_true, Mapping) or is_ensemble(y_true):
        refuse("outcomes must come first and members second", "members first", order)
    if isinstance(X, str) or callable(X) or hasattr(X, "predict_proba"):
        refuse(
            "`X` must hold features", f"{write_plain(X)[:80]}, a way to aggregate", f"Pass it as `aggregate`. {order}"
        )
    if X is not None and columns_of(X) is None and np.ndim(X) == 1:
        remedy = f"Pass X[:, None]; aggregated probabilities go to `aggregate`. {order}"
        refuse("`X` must be a table of features", "one dimension", remedy)


def _has_models(members: Any) -> bool:
    if is_ensemble(members):
        return True
    parts = members.values() if isinstance(members, Mapping) else members
    return isinstance(members, (Mapping, list, tuple)) and any(hasattr(part, "predict_proba") for part in parts)


def _pool(
    members: Members, aggregate: Any, weights: ArrayLike | None
) -> tuple[FloatArray, str, FloatArray | None] | None:
    """The aggregate, its name and the weights of a linear pool; None for a combiner that must be fitted."""
    if isinstance(aggregate, str):
        return _pool_by_name(members, aggregate, weights)
    if weights is not None:
        refuse(
            "`weights` must come with the name of a pool",
            f"aggregate={write_plain(aggregate)}"[:80],
            "Leave one of them out.",
        )
    if isinstance(aggregate, type) or (hasattr(aggregate, "fit") and not hasattr(aggregate, "predict_proba")):
        kind = aggregate.__name__ if isinstance(aggregate, type) else type(aggregate).__name__
        refuse("a combiner must be an object with fit and predict_proba", kind, "For example Stacking().")
    if hasattr(aggregate, "predict_proba"):
        return None
    if callable(aggregate):
        name = str(getattr(aggregate, "__name__", type(aggregate).__name__))
        return _parse_aggregate(members, aggregate(members.laws.copy()), "what aggregate returns"), name, None
    return _parse_aggregate(members, aggregate, "aggregate"), "the given aggregate", None


def _apply_combiner(combiner: Any, sample: Sample, *, named: bool) -> FloatArray:
    """The law of a fitted combiner: members by name where both have names, classes in the order of its fit."""
    k, laws = sample.k, np.stack(list(sample.predictions.values()))
    labels = list(range(k)) if sample.classes is None else sample.classes.tolist()
    known = np.asarray(combiner.classes_).tolist()
    if sorted(map(str, known)) != sorted(map(str, labels)):
        labels_of_both = f"{abbreviate(map(write_plain, known))} beside {abbreviate(map(write_plain, labels))}"
        refuse(
            "a fitted combiner must have the labels of `y_true`",
            labels_of_both,
            "Fit it on the same labels.",
            LabelError,
        )
    order = [[str(v) for v in labels].index(str(label)) for label in known]
    turned = laws[..., order] if k > 2 else laws if order == [0, 1] else 1.0 - laws
    scores: Any = _join_columns(turned)
    if isinstance(combiner, Combiner):
        scores = dict(zip(sample.predictions, turned, strict=True)) if named else list(turned)
    law = as_matrix(parse_law(combiner.predict_proba(scores), f"{type(combiner).__name__}.predict_proba"))
    require_rows(law.shape[0], sample.n, "what the combiner gives", "y_proba")
    return narrow_law(law[:, np.argsort(order)])


def _join_columns(laws: FloatArray) -> FloatArray:
    """Members as columns, (n, M) for two classes and (n, M·K) for more."""
    return laws.T if laws.ndim == 2 else np.moveaxis(laws, 0, 1).reshape(laws.shape[1], -1)


def _pool_by_name(
    members: Members, name: str, weights: ArrayLike | None
) -> tuple[FloatArray, str, FloatArray | None] | None:
    if name not in AGGREGATES:
        rule = f"aggregate must be one of {', '.join(AGGREGATES)}, probabilities, a function or a combiner"
        refuse(rule, repr(name), "For example 'mean'.")
    if name in ("mean", "weighted-average"):
        if name == "weighted-average" and weights is None:
            refuse("a weighted average must have weights", "none", "Pass `weights`=[…], one per member.")
        if weights is None:
            return members.laws.mean(axis=0), "the mean", np.full(len(members), 1.0 / len(members))
        shares = parse_shares(weights, members)
        return pool_linearly(members.laws, shares), "the weighted mean", shares
    if name == "log-pool":
        return pool_logarithmically(members.laws, parse_exponents(weights, members)), name, None
    if weights is not None:
        refuse(f"`weights` must come with a pool that takes them, not {name!r}", "weights", "Leave them out.")
    return None


def _parse_aggregate(members: Members, law: Any, what: str) -> FloatArray:
    """A law of the rows and classes of the members, in their layout."""
    parsed = parse_law(law, what)
    require_rows(parsed.shape[0], members.n, what, "the members")
    if n_classes(parsed) != members.k:
        refuse(
            f"{what} must have as many classes as the members",
            f"{n_classes(parsed)} and {members.k}",
            "Combine all classes.",
        )
    return unify([members.laws[0], parsed])[1]


def _crossfit_combiner(combiner: Any, sample: Sample, seed: int, cv: object) -> FloatArray:
    """The law of a combiner fitted in folds: every row is combined by a fit on other rows."""
    members = np.stack(list(sample.predictions.values()))
    data = sample.model(next(iter(sample.predictions))).fit_rows()
    first = int(np.random.default_rng(seed).integers(2**62))  # as `ChainFit.of` derives it from the seed
    plan = make_crossfit(cv, data, sample.groups, first)
    law: FloatArray = plan.gather(fit_combiner(combiner, members, data, plan)).law
    return law


def fit_combiner(combiner: Any, members: FloatArray, data: FitRows, plan: CrossFit) -> FloatArray:
    """The laws of all rows from the fits of a combiner, one per training part."""
    from sklearn.base import clone

    columns = _join_columns(members)
    laws = []
    for train in plan.trains:
        codes = data.codes[train]
        missing = np.setdiff1d(np.arange(data.k), codes)
        if missing.size:
            refuse(
                "a combiner must be fitted on rows of every class",
                f"none of class number {abbreviate(missing)} in a training part",
                "Merge rare classes, or pass an aggregate that need not be fitted.",
            )
        weight = {} if data.weight is None else {"sample_weight": data.weight[train]}
        fitted = clone(combiner).fit(columns[train], codes, **weight)
        law = as_matrix(parse_law(fitted.predict_proba(columns), f"{type(combiner).__name__}.predict_proba"))
        laws.append(keep_from_certainty(narrow_law(law), data, train))
    return np.stack(laws)
