"""aggregation_decomposition: what combining the members of an ensemble into one number costs (paper, section 5.1)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_clip, parse_confidence, parse_random_state, parse_share
from scoreprism._core.simplex import ArrayLike
from scoreprism._document.model import Block
from scoreprism._document.result import TermTable
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import (
    MIN_GAIN,
    Finding,
    announce,
    collect_findings,
    doubts,
    of_severity,
    select,
    settle,
)
from scoreprism._findings.wording import write_pvalue
from scoreprism._fitting.candidates import FittedScore
from scoreprism._fitting.chain_fit import ChainFit, decompose_each
from scoreprism._fitting.information import fits_above
from scoreprism._kernels.term_intervals import FORMS, Interval, Moments, quantile
from scoreprism._parameters import described
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain, Comparison, Decomposition
from scoreprism.ensembles._averaging_gap import AveragingGap, measure_gap
from scoreprism.ensembles._ensemble import Ensemble, fit_combiner, parse_ensemble
from scoreprism.ensembles._stacking import Stacking
from scoreprism.ensembles._sufficiency_test import run_score_test
from scoreprism.exceptions import InputError, SeparationWarning
from scoreprism.inference import TestResult, calibration_test
from scoreprism.losses import ProperLoss, get_loss

#: The levels of an ensemble: the aggregate, its recalibration, P(Y | members), P(Y | features).
LEVELS = ("S_ens", "C_ens", "C_S", "Q")
#: What can be done with members and their aggregate, from leaving it as it is to using every member.
ACTIONS = {
    "leave": "the aggregate as it is",
    "recalibrate": "the aggregate, recalibrated: C_ens",
    "stack": "a logistic regression on the members",
    "keep the vector": "any function of the members: C_S",
}


@dataclass(frozen=True, eq=False, repr=False)
class Actions(TermTable):
    """
    Losses of the possible actions on an ensemble, out of sample and on the same rows.

    Made by `aggregation_decomposition`.

    Attributes
    ----------
    names : tuple of str
        Actions, as in `ACTIONS`.
    confidence_level : float
        Confidence level of the table.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import aggregation_decomposition
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.uniform(0.1, 0.9, (2, 1000))
    >>> y = rng.random(1000) < a
    >>> result = aggregation_decomposition(y, {"a": a, "b": b}, loss="brier", random_state=0)
    >>> result.actions.names
    ('leave', 'recalibrate', 'stack', 'keep the vector')
    >>> bool(result.actions.gain("stack", over="recalibrate").low > 0)
    True
    """

    confidence_level: float
    _moments: Moments

    @property
    def terms(self) -> dict[str, float]:
        """Mean loss of each action."""
        last = len(self.names)
        return {name: self._moments.value(dict.fromkeys(range(i, last), 1.0)) for i, name in enumerate(self.names)}

    def _step(self, action: str, over: str) -> dict[int, float]:
        a, b = (self.names.index(parse_choice(name, self.names, "action")) for name in (action, over))
        sign = 1.0 if b < a else -1.0
        return dict.fromkeys(range(min(a, b), max(a, b)), sign)

    def gain(self, action: str, over: str = "leave", confidence_level: float | None = None) -> Interval:
        """
        Confidence interval of the gain of one action over another.

        Parameters
        ----------
        action, over : str
            Names of actions.
        confidence_level : float, optional
            Confidence level; that of the table by default.

        Returns
        -------
        Interval
            Of the difference of their mean losses, over − action.
        """
        confidence = self.confidence_level if confidence_level is None else parse_confidence(confidence_level)
        step = self._step(action, over)
        value, margin = self._moments.value(step), quantile(confidence, two_sided=True) * self._moments.std_error(step)
        return Interval(value - margin, value + margin, confidence, "clt")

    def least(self, action: str, over: str, confidence_level: float) -> float:
        """
        Lower confidence bound of the gain of one action over another.

        Parameters
        ----------
        action, over : str
            Names of actions.
        confidence_level : float
            Confidence level.

        Returns
        -------
        float
            One-sided bound.
        """
        step = self._step(action, over)
        return self._moments.value(step) - quantile(confidence_level, two_sided=False) * self._moments.std_error(step)

    def _columns(self) -> dict[str, list[Any]]:
        gains = [self.gain(name) for name in self.names]
        mean = [self._moments.value(self._step(name, "leave")) for name in self.names]
        return {
            "action": list(self.names),
            "what": [ACTIONS[name] for name in self.names],
            "loss": list(self.terms.values()),
            "gain": mean,
            "low": [gain.low for gain in gains],
            "high": [gain.high for gain in gains],
        }

    def _title(self) -> str:
        return f"What could be done, out of sample; gains over leaving it, {100 * self.confidence_level:g} % intervals"

    def to_dict(self) -> dict[str, Any]:
        """
        The table as plain Python objects.

        Returns
        -------
        dict
            Action → loss, gain, low, high.
        """
        columns = {key: self._columns()[key] for key in ("loss", "gain", "low", "high")}
        lines = zip(*columns.values(), strict=True)
        by_action = {name: dict(zip(columns, line, strict=True)) for name, line in zip(self.names, lines, strict=True)}
        encoded: dict[str, Any] = encode(by_action)
        return encoded


@dataclass(frozen=True, eq=False, repr=False)
class AggregationDecomposition(TermTable):
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
        Of each member with the same C_S and Q: its ``projection`` is the cost of using it alone.
    actions : Actions
        Losses out of sample of leaving, recalibrating, stacking and keeping the vector.
    gap : AveragingGap or None
        Predicted and observed calibration gap; None if the aggregate is not an average.
    aggregate : str
        Name of the aggregate.
    confidence_level : float
        Confidence level of bounds and advice.
    min_gain : float
        Share of the loss below which a gain is not worth a change.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import aggregation_decomposition
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.uniform(0.1, 0.9, (2, 1000))
    >>> y = rng.random(1000) < (a + b) / 2
    >>> result = aggregation_decomposition(y, {"a": a, "b": b}, loss="brier", random_state=0)
    >>> result.names, list(result.members)
    (('reliability', 'projection', 'refinement'), ['a', 'b'])
    """

    decomposition: Decomposition
    members: Comparison
    actions: Actions
    gap: AveragingGap | None
    aggregate: str
    confidence_level: float
    min_gain: float
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
        """The default `calibration_test` of the aggregate; None with groups, which it cannot redraw."""
        if self._ensemble.sample.groups is not None:
            return None
        return calibration_test(self._ensemble.alone, random_state=self._seed)

    @cached_property
    def sufficiency(self) -> TestResult | None:
        """The score test of `sufficiency_test`; None for too few rows."""
        try:
            return run_score_test(self._ensemble)
        except InputError:
            return None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to do, from lower bounds: recalibrate the aggregate, stack, keep all members, or leave it."""
        return settle(_conclude(self))

    @property
    def advice(self) -> tuple[str, ...]:
        """The findings as sentences."""
        return tuple(one.text for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Ready for JSON.
        """
        content: dict[str, Any] = {
            "aggregate": self.aggregate,
            "decomposition": self.decomposition.to_dict(),
            "members": self.members.to_dict(),
            "actions": self.actions.to_dict(),
            "gap": None if self.gap is None else self.gap.to_dict(),
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "sufficiency": None if self.sufficiency is None else self.sufficiency.to_dict(),
            "advice": list(self.advice),
            "findings": [one.to_dict() for one in self.findings],
        }
        return encode(content)  # type: ignore[no-any-return]

    def _columns(self) -> dict[str, list[Any]]:
        both = self.comparison.decompositions
        columns: dict[str, list[Any]] = {"model": list(both), "loss": [d.risk for d in both.values()]}
        for name in self.names:
            columns[name] = [d.terms[name] for d in both.values()]
        return columns

    def _shown_columns(self) -> dict[str, list[Any]]:
        decompositions = self.comparison.decompositions.values()
        return self._columns() | {name: [d._shown_term(name) for d in decompositions] for name in self.names}

    def _title(self) -> str:
        return f"{self.decomposition.loss!s} loss of {self.aggregate} and its {len(self.members)} members"

    def _footer(self) -> list[str]:
        lines = [] if self.gap is None else [repr(self.gap)]
        tests = {"calibrated": self.calibration, "sufficient for its members": self.sufficiency}
        known = [f"{what} {write_pvalue(test.pvalue)}" for what, test in tests.items() if test is not None]
        return [*lines, *([f"Tests: {'; '.join(known)}."] if known else [])]

    def _findings(self) -> Sequence[Finding]:
        return settle((*self.findings, *self.decomposition.findings))

    def _blocks(self) -> list[Block]:
        return [self.decomposition.summary(self.confidence_level)._table(), self.actions._table(), *super()._blocks()]


@described()
def aggregation_decomposition(
    y_true: ArrayLike | Sample,
    y_proba: Any = None,
    X: ArrayLike | None = None,
    *,
    aggregate: Any = "mean",
    weights: ArrayLike | None = None,
    loss: str | ProperLoss = "log",
    calibrator: object = "auto",
    reference: object = "auto",
    q: ArrayLike | None = None,
    cv: object = 5,
    form: str = "debiased",
    confidence_level: float = 0.95,
    min_gain: float = MIN_GAIN,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> AggregationDecomposition:
    r"""
    Decompose the loss of an ensemble's aggregate into what recalibrating it or keeping its members would gain, and the
    rest.

    Along :math:`\sigma(S^{ens}) \subseteq \sigma(S^1,\dots,S^M) \subseteq \sigma(X)`,

    .. math::
        E\,\ell(S^{ens},Y) = E\,d(S^{ens},C_{ens}) + E\,d(C_{ens},C_{\mathbf S}) + E\,d(C_{\mathbf S},Q)
        + E\,\mathcal E(Q):

    reliability of the aggregate, projection loss, grouping of the members, irreducible loss. C_ens, C_S and Q are
    fitted out of sample in the same folds, as in `decompose`.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes of rows that no member was trained on; or everything at once, its models the members.
    y_proba : mapping, frame, sequence or array
        Members: name → probabilities of shape (n,) or (n, K), or fitted classifiers, applied to `X`; a frame with a
        column P(Y=1) for each; a list of probabilities; an array of shape (n, M) for two classes, or (n, M, K); a
        fitted forest or soft vote of scikit-learn, applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features; they separate the grouping of the members from irreducible loss.
    aggregate : str, array-like, callable or combiner, default="mean"
        A name in `AGGREGATES`; the aggregated probabilities themselves; a function of the members, an array of shape
        (M, n) or (M, n, K); a fitted combiner; or one that is fitted in the folds ("stacking", ``LogPool()``, any
        classifier).
    weights : array-like of shape (M,) or mapping, optional
        Weights of the members in "mean" and "log-pool".
    calibrator : str, Calibrator or classifier, default="auto"
        How C_ens is fitted.
    reference : str, StackedReference or classifier, default="auto"
        How C_S and Q are fitted.
    q : array-like of shape (n,) or (n, K), optional
        P(Y | X), where it is known.
    cv : int, splitter or iterable, default=5
        Folds.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How rows are filled.
    min_gain : float, default=0.01
        Share of the loss below which a gain is not worth a change.
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
    >>> result = aggregation_decomposition(y, {"a": a, "b": b}, loss="brier", random_state=0)
    >>> bool(result.decomposition.lower_bound("projection").value > 0), bool(result.sufficiency.pvalue < 0.001)
    (True, True)
    >>> print(result.advice[1][:18])
    Stack the members:
    """
    chosen, form = get_loss(loss), parse_choice(form, FORMS, "form")
    confidence, worth = parse_confidence(confidence_level), parse_share(min_gain, "min_gain")
    seed = int(parse_random_state(random_state).integers(2**62))
    folds = list(cv) if hasattr(cv, "__next__") else cv  # type: ignore[call-overload]
    rows = {"sample_weight": sample_weight, "groups": groups, "pos_label": pos_label, "classes": classes}
    above = {"X": X, "q": q}
    ensemble = parse_ensemble(y_true, y_proba, X, aggregate, rows | above, weights=weights, seed=seed, cv=folds)
    distance = parse_clip(clip, ensemble.sample.k)
    levels = (ensemble.block, *(level for level in ensemble.sample.levels if level.name == "Q"))
    ensemble = replace(ensemble, sample=replace(ensemble.sample, X=None, levels=()))  # the result keeps no features
    fit = ChainFit.of(
        replace(ensemble.alone, levels=levels), calibrator=calibrator, reference=reference, cv=folds,
        random_state=seed, n_jobs=n_jobs,
    )  # fmt: skip
    score_law, fit = fit.fit_score([chosen], distance)
    fitted = fit.fit_levels(score_law)
    chain = fit.link(score_law, fitted)
    decomposition = decompose_each(chain, {str(chosen): chosen}, form, distance)[str(chosen)]
    whole = _name_terms(replace(decomposition, findings=(*decomposition.findings, *ensemble.findings)))
    members = _decompose_members(fit, ensemble, fitted, chosen, form, distance)
    backend = ensemble.sample.backend
    return AggregationDecomposition(
        whole.names, backend, whole, Comparison(whole.names, backend, members),
        _measure_actions(fit, ensemble, score_law, chain, chosen, distance, confidence),
        None if ensemble.shares is None else measure_gap(ensemble),
        ensemble.aggregate, confidence, worth, ensemble, seed,
    )  # fmt: skip


def _name_terms(decomposition: Decomposition) -> Decomposition:
    """Rename the terms and levels to those of an ensemble."""
    last = ("refinement",) if len(decomposition.level_names) == 3 else ("grouping", "irreducible")
    return decomposition._rename_terms(("reliability", "projection", *last), LEVELS[: len(decomposition.level_names)])


def _decompose_members(
    fit: ChainFit,
    ensemble: Ensemble,
    above: Sequence[Level],
    loss: ProperLoss,
    form: str,
    clip: float | None,
) -> dict[str, Decomposition]:
    """Every member; a warning that several members raise is issued once."""
    decompositions: dict[str, Decomposition] = {}
    by_kind: dict[str, Finding] = {}
    for name, law in ensemble.sample.predictions.items():
        with collect_findings() as own_findings:
            # the same laws C_S and Q, and the member's own map in the same folds
            sample = replace(fit.sample, predictions={fit.sample.name: law})
            own = replace(fit, rows=replace(fit.rows, score=law), sample=sample, mixture=None)
            decompositions[name] = _name_terms(own.link(own.fit_score()[0], above).decompose_at(loss, form, clip))
        for one in own_findings:
            first = by_kind.get(one.kind, one.about(name))
            by_kind[one.kind] = first.with_facts(members=first.facts.get("members", 0) + 1)
    for first in by_kind.values():
        announce(first)
    return decompositions


def _measure_actions(
    fit: ChainFit,
    ensemble: Ensemble,
    score_law: FittedScore,
    chain: Chain,
    loss: ProperLoss,
    clip: float | None,
    confidence_level: float,
) -> Actions:
    """The losses of all actions; of stacking only where every training part has all classes."""
    sample = fit.sample
    leave, recalibrate, vector, *_ = chain.clip_at(clip)._losses(loss)
    losses = {"leave": leave, "recalibrate": recalibrate}
    if all(np.unique(fit.rows.codes[rows]).size == sample.k for plan in fit.plans for rows in plan.trains):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)  # the fit to smoothed targets is good enough here
            parts = [plan.gather(fit_combiner(Stacking(), ensemble.members, fit.rows, plan)) for plan in fit.plans]
        fits = fits_above(fit, score_law, parts)
        assert fits is not None  # noqa: S101 - the score of an ensemble is always calibrated
        losses["stack"] = fits.clip_at(clip).losses(loss, sample.y)
    losses["keep the vector"] = vector
    moments = Moments.of(np.stack(list(losses.values())), np.empty((0, sample.n)), sample.weight, sample.groups)
    return Actions(tuple(losses), sample.backend, confidence_level, moments)


# ── conclusions ─────────────────────────────────────────────────────────────────────────────────────


def _conclude(result: AggregationDecomposition) -> Iterator[Finding]:
    """Conclude what to do with an ensemble, from lower bounds and tests."""
    whole, ensemble = result.decomposition, result._ensemble
    suspicions = of_severity(ensemble.findings, "doubt")
    if not np.isfinite(whole.risk):
        yield from select(whole.findings, "infinite_loss")
        return
    if suspicions:
        yield from (Finding("do_not_act", because=one) for one in suspicions)
        return
    about: dict[str, Any] = {
        "value": whole.risk,
        "confidence_level": result.confidence_level,
        "subject": result.aggregate,
    }
    of_whole = whole._draw_conclusions(result.confidence_level, result.min_gain)
    yield from (one.about(result.aggregate) for one in of_whole if one.term == "reliability")
    stacking = list(_conclude_action(result, "stack", "recalibrate", about)) if "stack" in result.actions.names else []
    yield from stacking
    doubted = doubts(whole.findings)
    if 2 in doubted:
        yield Finding("term_doubtful", term="projection", because=doubted[2])
        return
    projection = whole._inference("projection").lower_bound(result.confidence_level).value
    if projection > 0.0:
        yield from _conclude_projection(result, projection, about, stacked=bool(stacking))
    elif result.sufficiency is not None and result.sufficiency.pvalue < 1.0 - result.confidence_level:
        yield Finding("members_insufficient", pvalue=result.sufficiency.pvalue, **about)
    else:
        yield Finding("members_add_nothing", **about)
    yield from (one for one in of_whole if one.term == "grouping" and one.severity == "action")


def _conclude_action(
    result: AggregationDecomposition, action: str, over: str, about: dict[str, Any]
) -> Iterator[Finding]:
    """Recommend an action if the lower bound of its gain is worth it; if only positive, its size is open."""
    least = result.actions.least(action, over, result.confidence_level)
    if least <= 0.0:
        return
    kind = {"stack": "stack", "keep the vector": "keep_members"}[action]
    if least >= result.min_gain * result.decomposition.risk:
        yield Finding(kind, low=least, **about)
        return
    facts = {"action": kind, "min_gain": result.min_gain}
    yield Finding("members_size_open", low=least, high=result.actions.gain(action, over).high, **about, facts=facts)


def _conclude_projection(
    result: AggregationDecomposition, least: float, about: dict[str, Any], *, stacked: bool
) -> Iterator[Finding]:
    """Conclude how to use members that know more than their aggregate."""
    over, what = ("stack", "stacking") if stacked else ("recalibrate", f"recalibrating {result.aggregate}")
    beyond = list(_conclude_action(result, "keep the vector", over, {**about, "subject": what}))
    yield from beyond
    if not beyond and not stacked:
        yield Finding("members_know_more", low=least, **about)
