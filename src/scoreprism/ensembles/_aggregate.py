"""An ensemble as everything here sees it: outcomes, members, and the one law they are combined into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import listed, plain, refuse, require_rows
from scoreprism._core.frames import require_aligned
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, as_vector, n_classes, unify
from scoreprism._fitting.candidates import floored
from scoreprism._fitting.chain_fit import fitting_weights
from scoreprism._fitting.crossfit import CrossFit, make_crossfit
from scoreprism._sample.features import score_columns
from scoreprism._sample.fit_rows import Data
from scoreprism.decomposition._rows import Sheet
from scoreprism.ensembles._combiner import Combiner
from scoreprism.ensembles._learned import BetaTransformedPool, LinearPool, LogPool
from scoreprism.ensembles._members import Members, is_ensemble, parse_members
from scoreprism.ensembles._pools import average, linear, log_pool, parse_shares
from scoreprism.ensembles._stacking import Stacking
from scoreprism.exceptions import LabelError

#: Every combiner that is fitted to outcomes.
COMBINERS: dict[str, type[Combiner]] = {cls.name: cls for cls in (LinearPool, LogPool, BetaTransformedPool, Stacking)}
#: Aggregates by name: the mean of the members and other pools by a fixed rule, then combiners, fitted in folds.
AGGREGATES = ("mean", "weighted-average", "log-pool", *COMBINERS)


@dataclass(frozen=True)
class Ensemble:
    """Outcomes, members and their aggregate, all over the same order of classes."""

    names: tuple[str, ...]  # members
    members: FloatArray  # (M, n): their laws
    law: FloatArray  # (n,): the aggregate
    aggregate: str  # what it is called
    shares: FloatArray | None  # (M,): weights of a linear pool; None for other aggregates
    sheet: Sheet  # outcomes, weights, clusters; its laws are the aggregate and the members
    notes: tuple[str, ...] = ()  # what there is to say
    doubts: tuple[str, ...] = ()  # those of the notes that forbid to act on any term

    @property
    def y(self) -> IntArray:
        """Outcome codes."""
        return self.sheet.y

    @property
    def weight(self) -> FloatArray | None:
        """Weights of the rows."""
        return self.sheet.weight

    @property
    def groups(self) -> IntArray | None:
        """Clusters of the rows."""
        return self.sheet.groups

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.law)

    @property
    def table(self) -> FloatArray:
        """The members as features: logits, or log-probabilities, side by side."""
        return np.column_stack([column for law in self.members for column in score_columns(law)])


def parse_ensemble(
    y_true: ArrayLike,
    scores: Any,
    aggregate: Any,
    *,
    weights: ArrayLike | None,
    X: ArrayLike | None,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    pos_label: object,
    classes: ArrayLike | None,
    seed: int,
    cv: object = 5,
) -> Ensemble:
    """Read an ensemble, and combine its members."""
    parts = dict(scores) if isinstance(scores, Mapping) else {}
    by_row = {"y_true": y_true, "scores": scores, "X": X, "sample_weight": sample_weight, "groups": groups}
    require_aligned(by_row | {f"scores[{name!r}]": part for name, part in parts.items()} | {"aggregate": aggregate})
    members = parse_members(scores, X if _has_models(scores) else None, y_true)
    named = members.classes if members.laws.ndim == 3 else None
    given = [
        GivenLaw(f"scores[{name!r}]", law, None, named) for name, law in zip(members.names, members.laws, strict=True)
    ]
    fixed = _fixed(members, aggregate, weights)
    if fixed is not None:
        given.append(GivenLaw("aggregate", fixed[0], None, named if fixed[0].ndim == 2 else None))
    sheet = Sheet.of(
        y_true, given, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes,
        backend=members.backend,
    )  # fmt: skip
    laws = [_flat(law) for law in sheet.laws]
    together = np.stack(laws[: len(members)])
    if fixed is not None:
        return Ensemble(members.names, together, laws[-1], fixed[1], fixed[2], sheet, members.notes, members.doubts)
    name = _combiner_name(aggregate)
    if hasattr(aggregate, "classes_"):
        law = _applied(aggregate, members, together, sheet)
        return Ensemble(members.names, together, law, name, None, sheet, members.notes, members.doubts)
    law = crossfitted(_combiner(aggregate), together, sheet, seed, cv)
    note = f"{name} was fitted in the folds that judge it: each row is combined by a fit that has not seen it"
    return Ensemble(members.names, together, law, name, None, sheet, (*members.notes, note), members.doubts)


def _has_models(scores: Any) -> bool:
    if is_ensemble(scores):
        return True
    parts = scores.values() if isinstance(scores, Mapping) else scores
    return isinstance(scores, (Mapping, list, tuple)) and any(hasattr(part, "predict_proba") for part in parts)


def _flat(law: FloatArray) -> FloatArray:
    """Two classes as one vector."""
    return np.ascontiguousarray(as_vector(law)) if n_classes(law) == 2 else law


def _fixed(
    members: Members, aggregate: Any, weights: ArrayLike | None
) -> tuple[FloatArray, str, FloatArray | None] | None:
    """The aggregate, its name and the weights of a linear pool; None for a combiner that must be fitted."""
    if isinstance(aggregate, str):
        return _pooled(members, aggregate, weights)
    if weights is not None:
        refuse(
            "`weights` must come with the name of a pool",
            f"aggregate={plain(aggregate)}"[:80],
            "Leave one of them out.",
        )
    if isinstance(aggregate, type) or (hasattr(aggregate, "fit") and not hasattr(aggregate, "predict_proba")):
        found = aggregate.__name__ if isinstance(aggregate, type) else type(aggregate).__name__
        refuse("a combiner must be an object with fit and predict_proba", found, "For example Stacking().")
    if hasattr(aggregate, "predict_proba"):
        return None
    if callable(aggregate):
        return _like(members, aggregate(members.laws.copy()), "what aggregate returns"), _called(aggregate), None
    return _like(members, aggregate, "aggregate"), "the given aggregate", None


def _applied(combiner: Any, members: Members, laws: FloatArray, sheet: Sheet) -> FloatArray:
    """The law of a fitted combiner: members by name where both have names, classes in the order of its fit."""
    k = n_classes(laws[0])
    labels = list(range(k)) if sheet.classes is None else np.asarray(sheet.classes).tolist()
    known = np.asarray(combiner.classes_).tolist()
    if sorted(map(str, known)) != sorted(map(str, labels)):
        found = f"{listed(map(plain, known))} beside {listed(map(plain, labels))}"
        refuse(
            "a fitted combiner must speak of the labels of `y_true`", found, "Fit it on the same labels.", LabelError
        )
    order = [[str(v) for v in labels].index(str(label)) for label in known]
    turned = laws[..., order] if k > 2 else laws if order == [0, 1] else 1.0 - laws
    if isinstance(combiner, Combiner):
        given: Any = dict(zip(members.names, turned, strict=True)) if members.named else list(turned)
    else:
        given = side_by_side(turned)
    law = as_matrix(parse_law(combiner.predict_proba(given), f"{type(combiner).__name__}.predict_proba"))
    require_rows(law.shape[0], members.n, "what the combiner gives", "scores")
    return _flat(law[:, np.argsort(order)])


def side_by_side(laws: FloatArray) -> FloatArray:
    """Members as columns, (n, M) for two classes and (n, M·K) for more."""
    return laws.T if laws.ndim == 2 else np.moveaxis(laws, 0, 1).reshape(laws.shape[1], -1)


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _pooled(members: Members, name: str, weights: ArrayLike | None) -> tuple[FloatArray, str, FloatArray | None] | None:
    if name not in AGGREGATES:
        rule = f"aggregate must be one of {', '.join(AGGREGATES)}, scores, a function or a combiner"
        refuse(rule, repr(name), "For example 'mean'.")
    if name in ("mean", "weighted-average"):
        if name == "weighted-average" and weights is None:
            refuse("a weighted average must have weights", "none", "Pass `weights`=[…], one per member.")
        if weights is None:
            return average(_raw(members)), "the mean", np.full(len(members), 1.0 / len(members))
        shares = parse_shares(weights, members)
        return linear(members.laws, shares), "the weighted mean", shares
    if name == "log-pool":
        return log_pool(_raw(members), weights), name, None
    if weights is not None:
        refuse(f"`weights` must come with a pool that takes them, not {name!r}", "weights", "Leave them out.")
    return None


def _raw(members: Members) -> dict[str, FloatArray]:
    return dict(zip(members.names, members.laws, strict=True))


def _like(members: Members, law: Any, what: str) -> FloatArray:
    """A law of the rows and classes of the members, in their layout."""
    parsed = parse_law(law, what)
    require_rows(parsed.shape[0], members.n, what, "scores")
    if n_classes(parsed) != members.k:
        refuse(
            f"{what} must have as many classes as scores",
            f"{n_classes(parsed)} and {members.k}",
            "Combine all classes.",
        )
    return unify([members.laws[0], parsed])[1]


def _combiner(aggregate: Any) -> Any:
    if isinstance(aggregate, str):
        return COMBINERS[aggregate]()
    from sklearn.base import clone

    return clone(aggregate)


def _combiner_name(aggregate: Any) -> str:
    return aggregate if isinstance(aggregate, str) else type(aggregate).__name__


def crossfitted(combiner: Any, members: FloatArray, sheet: Sheet, seed: int, cv: object) -> FloatArray:
    """A combiner fitted in folds: every row is combined by a fit that has not seen it."""
    k = n_classes(members[0])
    data = Data(members[0], sheet.y, fitting_weights(sheet.weight), k, "probability")
    first = int(np.random.default_rng(seed).integers(2**62))  # what `decompose` makes of the seed
    plan = make_crossfit(cv, data, sheet.groups, first)
    return plan.gather(combined(combiner, members, data, plan)).law


def combined(combiner: Any, members: FloatArray, data: Data, plan: CrossFit) -> FloatArray:
    """What the fits of a combiner say of all rows."""
    from sklearn.base import clone

    columns = side_by_side(members)
    laws = []
    for train in plan.trains:
        codes = data.codes[train]
        missing = np.setdiff1d(np.arange(data.k), codes)
        if missing.size:
            refuse(
                "a combiner must be fitted on rows of every class",
                f"none of class number {listed(missing)} in a training part",
                "Merge rare classes, or pass an aggregate that need not be fitted.",
            )
        weight = {} if data.weight is None else {"sample_weight": data.weight[train]}
        fitted = clone(combiner).fit(columns[train], codes, **weight)
        law = as_matrix(parse_law(fitted.predict_proba(columns), f"{type(combiner).__name__}.predict_proba"))
        laws.append(floored(_flat(law), data, train))
    return np.stack(laws)
