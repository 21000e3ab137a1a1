"""aggregation_decomposition: what combining the members of an ensemble into one number costs (paper, section 5.1)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import outside, parse_choice, parse_clip, parse_confidence, parse_random_state, refuse
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._core.wording import visible
from scoreprism._document.result_json import encode
from scoreprism._document.tables import Drawable, TermTable
from scoreprism._fitting.candidates import Calibrated, Line, Problem, calibrate, fit_levels
from scoreprism._fitting.chain_fit import Request, chain_of, decomposed_by, fits_above, parse
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._intervals import FORMS
from scoreprism.decomposition._rows import assemble
from scoreprism.ensembles._actions import Actions, actions_of
from scoreprism.ensembles._advice import advised
from scoreprism.ensembles._aggregate import Ensemble, combined, parse_ensemble
from scoreprism.ensembles._gap import AveragingGap, gap_of
from scoreprism.ensembles._stacking import Stacking
from scoreprism.ensembles._sufficiency import score_test
from scoreprism.estimation import Comparison
from scoreprism.exceptions import InputError, SeparationWarning
from scoreprism.inference import TestResult, calibration_test
from scoreprism.losses import ProperLoss, get_loss

#: The levels of an ensemble: the aggregate, its recalibration, what the members know, what the features know.
LEVELS = ("S_ens", "C_ens", "C_S", "Q")


@dataclass(frozen=True, eq=False, repr=False)
class AggregationDecomposition(Drawable, TermTable):
    """
    The loss of an aggregate along σ(S_ens) ⊆ σ(S¹, …, Sᴹ) ⊆ σ(X), with its members beside it.

    Made by `aggregation_decomposition`.

    Attributes
    ----------
    names : tuple of str
        ``reliability`` of the aggregate; ``projection``, what compressing the members into one number costs,
        E d(C_ens, C_S); with features ``grouping`` of the members, E d(C_S, Q), and ``irreducible``, otherwise
        ``refinement``.
    decomposition : Decomposition
        Of the aggregate.
    members : Comparison
        Of each member by the same laws C_S and Q: its ``projection`` is what using it alone would cost.
    actions : Actions
        What leaving, recalibrating, stacking, keeping the vector give out of sample.
    gap : AveragingGap or None
        Calibration gap that the disagreement predicts, and the observed one; None if the aggregate is no average.
    aggregate : str
        What the aggregate is.
    level : float
        Confidence level of bounds and advice.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import aggregation_decomposition
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.uniform(0.1, 0.9, (2, 1000))
    >>> y = rng.random(1000) < (a + b) / 2
    >>> found = aggregation_decomposition(y, {"a": a, "b": b}, loss="brier", random_state=0)
    >>> found.names, list(found.members)
    (('reliability', 'projection', 'refinement'), ['a', 'b'])
    """

    decomposition: Decomposition
    members: Comparison
    actions: Actions
    gap: AveragingGap | None
    aggregate: str
    level: float
    _ensemble: Ensemble
    _seed: int

    @property
    def terms(self) -> dict[str, float]:
        """Terms of the aggregate."""
        return self.decomposition.terms

    @property
    def comparison(self) -> Comparison:
        """The aggregate and its members, side by side."""
        together = {self.aggregate: self.decomposition} | self.members.decompositions
        return Comparison(self.names, self._backend, together)

    @cached_property
    def calibration(self) -> TestResult | None:
        """Is the aggregate calibrated? The default `calibration_test`; None for clusters, which it cannot redraw."""
        ensemble = self._ensemble
        if ensemble.groups is not None:
            return None
        return calibration_test(ensemble.y, ensemble.law, sample_weight=ensemble.weight, random_state=self._seed)

    @cached_property
    def sufficiency(self) -> TestResult | None:
        """Is the aggregate sufficient for its members? The score test of `sufficiency_test`; None for too few rows."""
        try:
            return score_test(self._ensemble)
        except InputError:
            return None

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do: recalibrate the aggregate, stack instead, keep the vector, or leave it. From lower bounds."""
        return tuple(advised(self))

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Ready for JSON.
        """
        found: dict[str, Any] = {
            "aggregate": self.aggregate,
            "decomposition": self.decomposition.to_dict(),
            "members": self.members.to_dict(),
            "actions": self.actions.to_dict(),
            "gap": None if self.gap is None else self.gap.to_dict(),
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "sufficiency": None if self.sufficiency is None else self.sufficiency.to_dict(),
            "advice": list(self.advice),
        }
        return encode(found)  # type: ignore[no-any-return]

    def _columns(self) -> dict[str, list[Any]]:
        both = self.comparison.decompositions
        columns: dict[str, list[Any]] = {"model": list(both), "loss": [d.risk for d in both.values()]}
        for name in self.names:
            columns[name] = [d.terms[name] for d in both.values()]
        return columns

    def _title(self) -> str:
        return f"{self.decomposition.loss!s} loss of {self.aggregate} and its {len(self.members)} members"

    def _footer(self) -> list[str]:
        lines = [] if self.gap is None else [repr(self.gap)]
        tests = {"calibrated": self.calibration, "sufficient for its members": self.sufficiency}
        known = [f"{what} p = {test.pvalue:.3g}" for what, test in tests.items() if test is not None]
        lines += [f"Tests: {'; '.join(known)}"] if known else []
        return [*lines, *(f"→ {line}" for line in self.advice), *self.decomposition.notes]

    def __repr__(self) -> str:
        tables = (self.decomposition.summary(self.level), self.actions, self)
        return "\n".join([*(table._text() for table in tables), *map(visible, self._footer())])

    def _repr_html_(self) -> str:
        tables = (self.decomposition.summary(self.level), self.actions)
        return "".join([*(table._figure() for table in tables), self._figure(self._footer())])


def aggregation_decomposition(
    y_true: ArrayLike,
    scores: Any,
    aggregate: Any = "mean",
    X: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    loss: str | ProperLoss = "log",
    calibrator: object = "auto",
    reference: object = "auto",
    q: ArrayLike | None = None,
    cv: object = 5,
    form: str = "debiased",
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> AggregationDecomposition:
    r"""
    Split the loss of an ensemble's aggregate: what recalibrating it, and what keeping its members apart would gain.

    Along :math:`\sigma(S^{ens}) \subseteq \sigma(S^1,\dots,S^M) \subseteq \sigma(X)`,

    .. math::
        E\,\ell(S^{ens},Y) = E\,d(S^{ens},C_{ens}) + E\,d(C_{ens},C_{\mathbf S}) + E\,d(C_{\mathbf S},Q)
        + E\,\mathcal E(Q):

    reliability of the aggregate, projection loss, grouping of the members, irreducible loss. The laws are fitted out
    of sample and in the same folds, as by `decompose`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes of rows that no member was trained on.
    scores : mapping, frame, sequence or array
        Members: name → probabilities of shape (n,) or (n, K), or fitted classifiers, applied to `X`; a frame with a
        column P(Y=1) for each; a list of probabilities; an array of shape (n, M) for two classes, or (n, M, K); a
        fitted forest or soft vote of scikit-learn, applied to `X`.
    aggregate : str, array-like, callable or combiner, default="mean"
        A name in `AGGREGATES`; the aggregated probabilities themselves; a function of the laws, an array of shape
        (M, n) or (M, n, K); a fitted combiner; or one that is fitted in the folds ("stacking", ``LogPool()``, any
        classifier).
    X : array-like or frame of shape (n, p), optional
        Features. With them the grouping of the members is told from irreducible loss.
    weights : array-like of shape (M,) or mapping, optional
        Weights of the members in "mean" and "log-pool".
    loss : str or ProperLoss, default="log"
        The loss.
    calibrator : str, Calibrator or classifier, default="auto"
        How C_ens is fitted.
    reference : str, StackedReference or classifier, default="auto"
        How C_S and Q are fitted.
    q : array-like of shape (n,) or (n, K), optional
        The law P(Y | X), where it is known.
    cv : int, splitter or iterable, default=5
        Folds.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How rows are filled.
    level : float, default=0.95
        Confidence level of bounds, intervals and advice.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep all laws at least this far from 0.
    random_state : int, Generator or None, default=0
        Seed of the folds.
    n_jobs : int, optional
        Processes that fit the reference.

    Returns
    -------
    AggregationDecomposition
        Terms, members, actions, tests, advice.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import aggregation_decomposition
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.uniform(0.1, 0.9, (2, 2000))
    >>> y = rng.random(2000) < a                                            # b is noise
    >>> found = aggregation_decomposition(y, {"a": a, "b": b}, loss="brier", random_state=0)
    >>> bool(found.decomposition.lower_bound("projection").value > 0), bool(found.sufficiency.pvalue < 0.001)
    (True, True)
    >>> print(found.advice[1][:14])
    Stack instead:
    """
    chosen = get_loss(loss)
    parse_choice(form, FORMS, "form")
    confidence = parse_confidence(level)
    seed = int(parse_random_state(random_state).integers(2**62))
    folds = list(cv) if hasattr(cv, "__next__") else cv  # type: ignore[call-overload]
    ensemble = parse_ensemble(
        y_true, scores, aggregate, weights=weights, X=X, sample_weight=sample_weight, groups=groups,
        pos_label=pos_label, classes=classes, seed=seed, cv=folds,
    )  # fmt: skip
    parse_clip(clip, ensemble.k)
    problem = _problem(ensemble, X, q, calibrator, reference, folds, seed, n_jobs)
    losses = {str(chosen): chosen}
    choice = calibrate(problem, losses, clip)
    lines = fit_levels(problem, choice.winner)
    found = decomposed_by(problem, choice, lines, losses, form, clip)[str(chosen)]
    backend = ensemble.sheet.backend
    whole = _renamed(replace(found, _backend=backend, notes=(*found.notes, *ensemble.notes)))
    above = chain_of(problem, choice.winner, lines, ())[0].fits[2:]
    members = _members(problem, ensemble, lines, above, chosen, form, clip)
    return AggregationDecomposition(
        whole.names, backend, whole, Comparison(whole.names, backend, members),
        _actions(problem, ensemble, choice.winner, lines, chosen, clip, confidence),
        None if ensemble.shares is None else gap_of(ensemble), ensemble.aggregate, confidence, ensemble, seed,
    )  # fmt: skip


def _problem(
    ensemble: Ensemble,
    X: ArrayLike | None,
    q: ArrayLike | None,
    calibrator: object,
    reference: object,
    cv: object,
    seed: int,
    n_jobs: int | None,
) -> Problem:
    """What `decompose` would fit for the aggregate, with the members as a level."""
    labels = ensemble.sheet.classes
    law = GivenLaw("the aggregate", ensemble.law, None, None)
    if q is not None and X is not None:
        refuse("pass `X`, to have Q fitted, or `q`, where it is known", "both", "Leave one of them out.")
    return parse(
        Request(
            ensemble.y if labels is None else np.asarray(labels)[ensemble.y], law, X, calibrator, reference, q=q,
            levels={"C_S": ensemble.table}, cv=cv, sample_weight=ensemble.weight, groups=ensemble.groups,
            pos_label=None if labels is None or ensemble.k > 2 else labels[1],
            classes=None if labels is None or ensemble.k == 2 else labels, random_state=seed, n_jobs=n_jobs,
        )
    )  # fmt: skip


def _renamed(found: Decomposition) -> Decomposition:
    """The terms and levels of an ensemble by their names."""
    last = ("refinement",) if len(found.level_names) == 3 else ("grouping", "irreducible")
    residual = ("residual",) if found.form == "plugin" else ()
    names = ("reliability", "projection", *last, *residual)
    floored = None if found.floored is None else _renamed(found.floored)
    muted = tuple(names[found.names.index(term)] for term in found.muted)
    return replace(found, names=names, level_names=LEVELS[: len(found.level_names)], floored=floored, muted=muted)


def _members(
    problem: Problem,
    ensemble: Ensemble,
    lines: Sequence[Line],
    above: Sequence[Any],
    loss: ProperLoss,
    form: str,
    clip: float | None,
) -> dict[str, Decomposition]:
    """Every member; what several of them warn of is said once."""
    found: dict[str, Decomposition] = {}
    said: dict[type[Warning], list[str]] = {}
    for name, law in zip(ensemble.names, ensemble.members, strict=True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found[name] = _member(problem, law, lines, above, loss, form, clip)
        for one in caught:
            said.setdefault(one.category, []).append(f"{name}: {one.message}")
    for kind, texts in said.items():
        others = f" (and so of {len(texts) - 1} other members)" if len(texts) > 1 else ""
        warnings.warn(f"{texts[0]}{others}", kind, stacklevel=outside())
    return found


def _member(
    problem: Problem,
    law: FloatArray,
    lines: Sequence[Line],
    above: Sequence[Any],
    loss: ProperLoss,
    form: str,
    clip: float | None,
) -> Decomposition:
    """A member by the same laws C_S and Q, to the last row, and a map of its own in the same folds."""
    own = replace(problem, data=replace(problem.data, score=law), sheet=replace(problem.sheet, laws=[law]))
    sheet, plan = chain_of(own, calibrate(own, {}).winner, lines, ())
    sheet = replace(sheet, fits=(*sheet.fits[:2], *above))
    return _renamed(assemble(sheet, plan, loss, form, clip))


def _actions(
    problem: Problem,
    ensemble: Ensemble,
    winner: Calibrated,
    lines: Sequence[Line],
    loss: ProperLoss,
    clip: float | None,
    level: float,
) -> Actions:
    """The losses of everything that could be done; stacking where every training part has all classes."""
    sheet, plan = chain_of(problem, winner, lines, ())
    leave, recalibrate, vector, *_ = sheet.clipped(clip).evaluated(loss, plan.levels)[0]
    losses = {"leave": leave, "recalibrate": recalibrate}
    plans = [problem.plan]
    if problem.partitions is not None:
        plans = [problem.partitions.plan(p) for p in range(problem.repeats)]
    if all(np.unique(problem.data.codes[rows]).size == ensemble.k for plan in plans for rows in plan.trains):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)  # then it is fitted to smoothed targets, which is fine
            first, *more = (plan.gather(combined(Stacking(), ensemble.members, problem.data, plan)) for plan in plans)
        fits = fits_above(problem, winner, replace(first, again=tuple(more)))
        assert fits is not None  # noqa: S101 - the score of an ensemble is always calibrated
        losses["stack"] = fits.clipped(clip).losses(loss, problem.sheet.y)
    losses["keep the vector"] = vector
    return actions_of(losses, problem.sheet, level)
