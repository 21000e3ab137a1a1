"""Decomposition, and the paired difference of two."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, parse_random_state, parse_share, refuse
from scoreprism._core.frames import make_frame
from scoreprism._core.labels import parse_groups
from scoreprism._core.progress import track
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, freeze
from scoreprism._document.model import Cell, Range
from scoreprism._document.result import Contributions, TermTable
from scoreprism._document.result_json import (
    FLOORED,
    MOVED,
    SCHEMA_VERSION,
    encode,
    fitting_together,
    read_summary,
    require_kinds,
)
from scoreprism._findings.finding import MIN_GAIN, Finding, Noted, select
from scoreprism._findings.wording import write_amount, write_count, write_fixed
from scoreprism._kernels.term_intervals import (
    FORMS,
    INTERVAL_METHODS,
    ROLES,
    Alternative,
    Bound,
    Ends,
    Interval,
    Moments,
    TermInference,
    bca,
    coefficients,
    quantile,
    steps,
)
from scoreprism.decomposition._conclusions import Summary, draw_conclusions
from scoreprism.exceptions import UnavailableError
from scoreprism.losses import LOSSES, OpaqueLoss, ProperLoss, get_loss

if TYPE_CHECKING:
    from scoreprism.decomposition._chain import Chain


class Known(NamedTuple):
    """Ends of what the data can say of a term; one that cannot be given is NaN."""

    low: float
    high: float


class RowLosses(NamedTuple):
    """
    Losses of the levels, and spreads (under plug-in also divergences): a line each, a column per row of data.

    The last line of the spreads may be the second-order rows of C. `what_if` holds what rows would have said of the
    reliability with other outcomes.
    """

    losses: FloatArray
    extras: FloatArray
    what_if: Any = None  # `WhatIf`, or the same by blocks


def _are_equal(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _combine(components: FloatArray, term: dict[int, float]) -> FloatArray:
    """A linear combination that never multiplies an infinity by zero."""
    total = np.zeros(components.shape[1])
    for index, coefficient in term.items():
        total += coefficient * components[index]
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Noted, TermTable):
    """
    A loss, split into the terms of a chain of information levels.

    Made by `decompose`, `Chain.decompose`, `FiniteModel.decompose`, `resolution_decomposition` and
    `corp_decomposition`.
    It stores the loss and the spread of every level by row (or how to evaluate them), from which terms, standard
    errors, intervals and bounds follow.

    Attributes
    ----------
    names : tuple of str
        Terms in order; under ``form="plugin"`` the last one is ``residual``.
    loss : ProperLoss
        The loss that was decomposed.
    form : str
        ``"debiased"``, ``"difference"`` or ``"plugin"``.
    risk : float
        Mean loss of the prediction; the terms add up to it (resolution is subtracted).
    level_names : tuple of str
        Names of the levels, the prediction first.
    n, n_classes : int
        Number of rows and of classes.
    chain : Chain or None
        The fitted levels; ``d.chain.decompose("brier")`` decomposes another loss without fitting again. None for a
        summary that was read from a file.
    clip : float or None
        Distance from 0 and 1 that probabilities were clipped to, if any.
    findings : tuple of Finding
        What a reader must know to use the numbers: how levels were fitted, cautions, doubts.
    floored : Decomposition or None
        Where the loss is infinite and no `clip` was given: the decomposition with ``clip=1/(2n)``, n the number of rows
        with weight. Its tables and advice say so. None for a finite loss, unless it was compared with an infinite one,
        and for a population, which has no n.
    muted : tuple of str
        Terms whose estimate is mostly noise of a fitted level: rely on their bounds only.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> y = [0, 1, 0, 1, 1, 0]
    >>> chain = Chain(y, [Level("S", [0.2, 0.9, 0.2, 0.9, 0.9, 0.9]), Level("C", [0, 0.75, 0, 0.75, 0.75, 0.75])])
    >>> result = chain.decompose("brier")
    >>> {name: round(value, 4) for name, value in result.terms.items()}
    {'reliability': 0.0283, 'refinement': 0.125}
    >>> round(result.risk, 4)
    0.1533
    """

    loss: ProperLoss
    form: str
    risk: float
    level_names: tuple[str, ...]
    n: int
    n_classes: int
    _roles: tuple[str, ...]
    _signs: tuple[int, ...]
    _moments: Moments
    clip: float | None = None
    findings: tuple[Finding, ...] = ()
    chain: Chain | None = None
    _row_losses: RowLosses | Callable[[], RowLosses] | None = None
    _population: bool = False
    _alternatives: tuple[Alternative, ...] | Callable[[], tuple[Alternative, ...]] = ()
    _resolution: Callable[[], Decomposition] | None = None
    floored: Decomposition | None = None
    muted: tuple[str, ...] = ()
    _ends: Ends | None = None
    _calibration: Callable[[], float | None] | None = None
    _moved: int | None = None  # rows moved by the default floor; None where the user set `clip`

    # ── terms ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def n_units(self) -> int:
        """Number of independent rows, or of groups, with weight; all rows for a summary without rows."""
        return self.n if self.chain is None or self._row_losses is None else self.chain.sample.n_units

    @property
    def sample_weight(self) -> FloatArray | None:
        """Weights of the rows that were passed, if there were any."""
        weight = self._weight
        return weight if weight is None or self.chain is None else self.chain.sample.by_given_row(freeze(weight), 0.0)

    @property
    def _weight(self) -> FloatArray | None:
        """Weights of the rows that have one."""
        return None if self.chain is None or self._row_losses is None else self.chain.sample.weight

    @property
    def _y(self) -> IntArray | None:
        return None if self.chain is None or self._row_losses is None else self.chain.sample.y

    @property
    def _groups(self) -> IntArray | None:
        return None if self.chain is None else self.chain.sample.groups

    @property
    def _mass(self) -> float:
        """Sum of the weights, or the number of rows."""
        return float(self.n if self._weight is None else self._weight.sum())

    @property
    def _levels(self) -> int:
        return len(self.level_names)

    @property
    def _finite(self) -> bool:
        """Whether the loss and all terms are finite; under plug-in a term can be infinite alone."""
        return math.isfinite(self.risk) and all(math.isfinite(value) for value in self.terms.values())

    @property
    def _stand_in(self) -> Decomposition | None:
        """What is shown beside this decomposition: the same at a floor, where it is infinite."""
        return None if self._finite else self.floored

    def _as_floored(self, moved: int) -> Decomposition:
        """Mark this decomposition as one at a floor, which moved some rows."""
        note = Finding("floored", n=moved, facts={"floor": self.clip or 0.0, "total": self.n})
        return replace(self, _moved=moved, findings=(note, *self.findings))

    @property
    def floor(self) -> float | None:
        """Distance from 0 and 1 where probabilities are kept away from them by default (``floored``); else None."""
        return None if self._moved is None else self.clip

    @property
    def _mark(self) -> str:
        """The note on numbers at a floor; empty for other numbers."""
        from scoreprism._findings.sentences import mark_floor

        return "" if self.floor is None else mark_floor(self.floor)

    @property
    def splits_the_rest(self) -> str:
        """The argument of `decompose` that would split the remaining loss into model and data."""
        return "X"

    def _combination(self, index: int) -> dict[int, float]:
        """A term as a linear function of the stored components."""
        sign = self._signs[index]
        return {i: sign * c for i, c in coefficients(self.form, index, self._levels).items()}

    def _rename_terms(self, names: tuple[str, ...], levels: tuple[str, ...]) -> Decomposition:
        """The same terms and levels by other names; the residual keeps its own."""
        known = (*names, "residual") if self.form == "plugin" else names
        return replace(
            self,
            names=known,
            level_names=levels,
            chain=None if self.chain is None else self.chain.rename(names, levels),
            floored=None if self.floored is None else self.floored._rename_terms(names, levels),
            muted=tuple(known[self.names.index(term)] for term in self.muted),
            findings=tuple(self._rename_in(one, known, levels) for one in self.findings),
        )

    def _rename_in(self, finding: Finding, names: tuple[str, ...], levels: tuple[str, ...]) -> Finding:
        """A finding with the new name of its term and of its level."""
        terms, level = dict(zip(self.names, names, strict=True)), finding.level
        ours = level is not None and level < self._levels and finding.subject == self.level_names[level]
        subject = levels[level] if ours and level is not None else finding.subject
        return replace(finding, term=terms.get(finding.term or "", finding.term), subject=subject)

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each term, by name."""
        return {name: self._moments.value(self._combination(i)) for i, name in enumerate(self.names)}

    @property
    def std_error(self) -> dict[str, float]:
        """Standard error of each term: 0 for a population, NaN where the loss is infinite or C was fitted in sample."""
        errors = [self._moments.std_error(self._combination(i)) for i in range(len(self.names))]
        roles = zip(self.names, self._roles, errors, strict=True)
        return {name: math.nan if role == "in-sample" else error for name, role, error in roles}

    @property
    def residual(self) -> float:
        """What the terms leave unexplained: zero, except under ``form="plugin"``, where it is the last term."""
        return self.terms["residual"] if self.form == "plugin" else 0.0

    @cached_property
    def resolution_form(self) -> Decomposition:
        """Uncertainty − resolution + reliability with the same C, for decompositions made by `decompose`."""
        if self._resolution is not None:
            return self._resolution()
        if self.chain is None or self.chain.fit is None:
            raise UnavailableError(
                "this decomposition has no resolution form, which decompose() makes. "
                "Use resolution_decomposition with calibrated probabilities."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the chain itself has issued these warnings
            return self.chain.up_to(1).with_marginal()._assemble(self.loss, self.form, self.clip)

    @property
    def rows(self) -> FloatArray:
        """
        Contribution of each row to each term, shape (n, terms); its (weighted) column means are the terms.

        Rows are in the order in which they were passed; rows of weight 0 hold 0.
        """
        return self._by_given_row(self._rows)

    @property
    def _rows(self) -> FloatArray:
        """The contributions of the rows that have weight."""
        losses, extras, _ = self._kept
        components = np.concatenate([steps(losses), extras])
        with np.errstate(invalid="ignore"):
            columns = [_combine(components, self._combination(i)) for i in range(len(self.names))]
        return np.stack(columns, axis=1)

    def _by_given_row(self, values: FloatArray) -> FloatArray:
        return values if self.chain is None else self.chain.sample.by_given_row(values, 0.0)

    @property
    def level_losses(self) -> FloatArray:
        """Loss of every level in every row, shape (n, levels)."""
        return self._by_given_row(self._kept.losses.T)

    @property
    def level_spreads(self) -> FloatArray:
        """Spread of every level over its fold models in every row, shape (n, levels); zero for given levels."""
        return self._by_given_row(self._kept.extras[: self._levels].T)

    @cached_property
    def _kept(self) -> RowLosses:
        """What is known of every row."""
        if self._row_losses is None:
            raise UnavailableError(
                "this decomposition is a summary (loaded from a file, or made by scoreprism.scale), which holds "
                "no rows. Decompose the rows themselves."
            )
        return self._row_losses if isinstance(self._row_losses, RowLosses) else self._row_losses()

    # ── inference ───────────────────────────────────────────────────────────────────────────────────

    def _name(self, term: str) -> str:
        """A term that a user named."""
        return parse_choice(term, self.names, "term")

    def _inference(self, name: str) -> TermInference:
        """Intervals and bounds of a term; its name was parsed before."""
        i = self.names.index(name)
        return TermInference(name, self._roles[i], i, self._signs[i], self._levels, self._moments, self._ends)

    def interval(
        self,
        term: str,
        confidence_level: float = 0.95,
        method: str = "auto",
        *,
        n_resamples: int = 999,
        random_state: object = 0,
    ) -> Interval:
        """
        Two-sided confidence interval of a term.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, default=0.95
            Confidence level.
        method : {"auto", "any-shape", "smooth", "bracket", "envelope", "clt", "bca"}, default="auto"
            ``"any-shape"`` is valid for any shape of C, including jumps, bumps and leaf tables, as long as C hardly
            changes between neighbouring scores (a few percent of the rows, or rows of the same score). ``"smooth"`` is
            narrower and is valid where the fitted maps can follow C. ``"bracket"`` widens the interval by twice the
            spread of the fits on the side where their noise pulls; it assumes what ``"smooth"`` does, and normal
            errors. ``"envelope"``, for the reliability, takes the largest upper end over all candidate maps. ``"clt"``
            is the estimate ± z standard errors, with the fits taken as known. ``"bca"`` refits on resampled rows (or
            groups), which stay in their folds. The last two do not allow for the bias of the estimate. ``"auto"`` is
            ``"any-shape"`` where it exists (for terms next to C and losses with a continuous curvature), else
            ``"bracket"``.
        n_resamples : int, default=999
            Resamples of ``"bca"``.
        random_state : int, Generator or None, default=0
            Seed of ``"bca"``.

        Returns
        -------
        Interval
            With ``low``, ``high``, ``confidence_level`` and ``method``.
        """
        confidence = parse_confidence(confidence_level)
        chosen = parse_choice(method, INTERVAL_METHODS, "method")
        name = self._name(term)
        self._inference(name).require_interval()
        if chosen == "bca":
            count = parse_count(n_resamples, "n_resamples", 20)
            return self._bca(name, confidence, count, parse_random_state(random_state))
        return self._interval(name, confidence, chosen)

    def _interval(self, name: str, confidence_level: float, method: str = "auto") -> Interval:
        """An interval that needs no resampling; name, level and method were parsed before."""
        inference = self._inference(name)
        if method == "any-shape" and not inference.any_shape:
            raise UnavailableError(self._no_any_shape(name))
        if method in ("any-shape", "smooth") or (method == "auto" and inference.any_shape):
            return inference.interval(confidence_level, any_shape=method != "smooth")
        if method in ("auto", "bracket"):
            return inference.bracket(confidence_level)
        if method == "envelope":
            return self._envelope(inference, confidence_level)
        margin = quantile(confidence_level, two_sided=True) * self.std_error[name]
        return Interval(self.terms[name] - margin, self.terms[name] + margin, confidence_level, "clt")

    def _shown_interval(self, name: str, confidence_level: float = 0.95) -> Interval:
        """The interval of a term, or NaN where there is none."""
        if self._inference(name).has_interval:
            return self._interval(name, confidence_level)
        return Interval(math.nan, math.nan, confidence_level, "none")

    def _no_any_shape(self, name: str) -> str:
        """Why there is no end that holds whatever the shape of C."""
        if not self.loss.strictly_proper:
            why = f"the {self.loss!s} loss has no continuous curvature that it could be built on"
        elif self._ends is None or self._ends.degenerate is None:
            why = (
                "it needs probabilities that decompose() fitted out of sample, neighbours left out together, "
                "and a loss whose curvature is known"
            )
        else:
            why = "only terms next to C have one"
        return f"{name!r} has no interval for any shape: {why}. Use interval(method='bracket')."

    @cached_property
    def _candidates(self) -> tuple[Alternative, ...]:
        """The reliability by each candidate map for C; refitted for losses not evaluated before."""
        return self._alternatives() if callable(self._alternatives) else self._alternatives

    def _envelope(self, inference: TermInference, confidence_level: float) -> Interval:
        """The bracket, reaching up as far as that of any candidate map."""
        if not self._candidates or inference.role != "reliability" or inference.sign < 0:
            raise UnavailableError(
                f"an envelope compares candidate maps for C; {inference.name!r} has none here. "
                "Use decompose(), and the term 'reliability'; for other terms interval(method='bracket')."
            )
        z = quantile(confidence_level, two_sided=True)
        own = inference.bracket(confidence_level)
        high = float(np.max([own.high, *(other.reach(z) for other in self._candidates)]))  # NaN stays NaN
        return Interval(own.low, high, confidence_level, "envelope")

    def _bca(self, name: str, confidence_level: float, n_resamples: int, rng: np.random.Generator) -> Interval:
        """Refits on resampled rows or clusters, each in the fold it always had."""
        fit = None if self.chain is None else self.chain.fit
        if fit is None or not fit.can_resample:
            raise UnavailableError(
                "a bootstrap refits C and Q on resampled rows; this decomposition has nothing to refit (its levels "
                "were given or fitted on a separate split, or it is a summary). Use interval(method='bracket')."
            )
        if not math.isfinite(self.terms[name]):
            return Interval(math.nan, math.nan, confidence_level, "bca")
        weight = np.ones(self.n) if self._weight is None else self._weight
        weighted = weight > 0  # rows that no split tests are not drawn
        units, i = np.full(self.n, 0), self.names.index(name)
        own = np.arange(self.n) if self._groups is None else self._groups
        units[weighted] = np.unique(own[weighted], return_inverse=True)[1]
        count = int(units.max()) + 1
        draws = (np.bincount(rng.integers(0, count, count), minlength=count) for _ in range(n_resamples))
        work = (fit.refit_term(i, drawn[units] * weighted.astype(float), self) for drawn in draws)
        replicates = np.array(list(track(work, n_resamples, f"bootstrap of {name}")))
        centred = weight * (self._rows[:, i] - self.terms[name])
        influence = np.bincount(units, centred, minlength=count).astype(float)
        interval = bca(self.terms[name], replicates, influence, confidence_level)
        if not ROLES[self._roles[i]].nonnegative:
            return interval
        return Interval(max(interval.low, 0.0), max(interval.high, 0.0), confidence_level, interval.method)

    def lower_bound(self, term: str, confidence_level: float = 0.95) -> Bound:
        """
        One-sided lower confidence bound of a term.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Bound
            With ``value`` and ``confidence_level``. Refused, with the reason, where no bound can exist.
        """
        return self._inference(self._name(term)).lower_bound(parse_confidence(confidence_level))

    def upper_bound(self, term: str, confidence_level: float = 0.95) -> Bound:
        """
        One-sided upper confidence bound of a term.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Bound
            With ``value`` and ``confidence_level``. Refused, with the reason, where no bound can exist.
        """
        return self._inference(self._name(term)).upper_bound(parse_confidence(confidence_level))

    @cached_property
    def calibration_pvalue(self) -> float | None:
        """P-value of the calibration test that advice uses; None where rows are grouped."""
        return None if self._calibration is None else self._calibration()

    def known(self, term: str, confidence_level: float = 0.95) -> Interval:
        """
        What the data say about a term: a two-sided interval where one exists, else a one-sided bound.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Interval
            With ``low`` and ``high``; NaN for an end that cannot be determined from data, and for both of a population.
        """
        name, confidence = self._name(term), parse_confidence(confidence_level)
        how = {"information": "lower bound", "remaining": "upper bound"}
        role = self._roles[self.names.index(name)]
        return Interval(*self._known(name, confidence), confidence, how.get(role, "interval"))

    def _known(self, name: str, confidence_level: float) -> Known:
        """What the data can say of a term; name and level were parsed before."""
        if (name, confidence_level) not in self._asked:
            self._asked[name, confidence_level] = self._find_known(name, confidence_level)
        return self._asked[name, confidence_level]

    @cached_property
    def _asked(self) -> dict[tuple[str, float], Known]:
        """What `_known` has found, by term and level."""
        return {}

    def _find_known(self, name: str, confidence_level: float) -> Known:
        role = self._roles[self.names.index(name)]
        if self._population or (not math.isfinite(self.risk) and not math.isfinite(self.terms[name])):
            return Known(math.nan, math.nan)
        if role == "information":
            return Known(max(self._inference(name).lower_bound(confidence_level).value, 0.0), math.nan)
        if role == "remaining":
            return Known(math.nan, self._inference(name).upper_bound(confidence_level).value)
        interval = self._shown_interval(name, confidence_level)
        return Known(interval.low, interval.high)

    def conclusions(
        self,
        confidence_level: float = 0.95,
        *,
        min_gain: float = MIN_GAIN,
        calibration_pvalue: float | None = None,
        grouping_pvalue: float | None = None,
    ) -> tuple[Finding, ...]:
        """
        Conclusions from bounds and tests: what to do, and what is known.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence level of bounds and tests.
        min_gain : float, default=0.01
            Share of the loss below which a gain is not worth a change: an action is proposed if the lower bound of the
            gain reaches it.
        calibration_pvalue, grouping_pvalue : float, optional
            P-values of calibration and grouping tests that were already run. A calibration test is run where it is
            needed; without a grouping test, bounds alone decide.

        Returns
        -------
        tuple of Finding
            The most important first; ``finding.text`` is its sentence.
        """
        confidence, share = parse_confidence(confidence_level), parse_share(min_gain, "min_gain")
        return self._draw_conclusions(confidence, share, calibration_pvalue, grouping_pvalue)

    def _draw_conclusions(
        self,
        confidence_level: float,
        min_gain: float = MIN_GAIN,
        calibration: float | None = None,
        grouping: float | None = None,
    ) -> tuple[Finding, ...]:
        """What to do; level and share were parsed before, and p-values are of tests that were run."""
        return draw_conclusions(
            self, confidence_level, min_gain=min_gain, calibration_pvalue=calibration, grouping_pvalue=grouping
        )

    def summary(self, confidence_level: float = 0.95, *, min_gain: float = MIN_GAIN) -> Summary:
        """
        The table to read: estimates, intervals or bounds, shares, what reduces each term, and advice.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence level of intervals and bounds.
        min_gain : float, default=0.01
            Share of the loss below which a gain is not worth a change.

        Returns
        -------
        Summary
            Printed as a table; ``summary.findings`` holds the conclusions, ``summary.advice`` their sentences.
        """
        return self._make_summary(parse_confidence(confidence_level), parse_share(min_gain, "min_gain"))

    def _make_summary(self, confidence_level: float, min_gain: float = MIN_GAIN) -> Summary:
        """The table people read; level and share were parsed before."""
        return Summary(
            self.names, self._backend, self, confidence_level, self._draw_conclusions(confidence_level, min_gain)
        )

    # ── slices and comparisons ──────────────────────────────────────────────────────────────────────

    def contributions(self, segments: ArrayLike) -> Contributions:
        """
        What each segment contributes to every term of the whole.

        These are shares of the overall terms. For a decomposition of each segment, with C and Q fitted inside it, use
        `decompose_by`. A contribution to reliability can be negative.

        Parameters
        ----------
        segments : array-like of shape (n,)
            Segment of each row.

        Returns
        -------
        Contributions
            Shares of the segments, which add up to the terms.
        """
        given_rows = None if self.chain is None else self.chain.sample.kept
        n = self.n if given_rows is None or self.chain is None else self.chain.sample.n_given
        parsed = parse_groups(segments, n, "segments")
        if parsed is None:
            refuse("`segments` must give the segment of each row", "None", "Pass one label per row.")
        labels, codes = parsed if given_rows is None else (parsed[0], parsed[1][given_rows])
        weight = np.ones(self.n) if self._weight is None else self._weight
        share = np.bincount(codes, weight, minlength=labels.size) / weight.sum()
        with np.errstate(invalid="ignore"):
            weighted = np.where(weight > 0, self._rows.T * weight, 0.0) / weight.sum()
        values: FloatArray = np.stack(
            [np.bincount(codes, line, minlength=labels.size).astype(float) for line in weighted], axis=1
        )
        return Contributions(self.names, self._backend, tuple(labels.tolist()), share, values)

    def minus(self, other: Decomposition) -> PairedDifference:
        """
        Paired difference of two decompositions of the same rows, self − other, term by term.

        Parameters
        ----------
        other : Decomposition
            The same loss, form and terms on the same rows, for another prediction.

        Returns
        -------
        PairedDifference
            Differences with paired standard errors.
        """
        if not isinstance(other, Decomposition):
            refuse("`other` must be a Decomposition", type(other).__name__, "Decompose the other prediction first.")
        (losses, extras, what_if), (other_losses, other_extras, other_what_if) = self._kept, other._kept
        for what in ("loss", "form", "names", "n", "clip"):
            if getattr(self, what) != getattr(other, what):  # custom losses are equal only to themselves
                refuse(
                    f"both decompositions must have the same {what}",
                    f"{getattr(self, what)!s} and {getattr(other, what)!s}",
                    "Use the same one for both.",
                )
        for what, called in (("_y", "outcomes"), ("_weight", "weights"), ("_groups", "groups")):
            if not _are_equal(getattr(self, what), getattr(other, what)):
                refuse(
                    "both decompositions must be of the same rows",
                    f"different {called}",
                    "Decompose both on one data set.",
                )
        both = min(len(extras), len(other_extras))  # second-order rows, the last, may be missing from one of them
        with np.errstate(invalid="ignore"):
            differences = losses - other_losses, extras[:both] - other_extras[:both]
        moments = Moments.of(*differences, self._weight, self._groups, population=self._population)
        ends = None
        if self._ends and other._ends and what_if and other_what_if and self.chain:
            rows = steps(differences[0])[0]
            least = _bound_degenerate(self._ends, other._ends)
            together, masses = what_if.minus(other_what_if), self.chain.sample.masses
            ends = Ends.of(rows, together, masses, least, clustered=self._groups is not None)
        twins = self.floored, other.floored
        floored = twins[0].minus(twins[1]) if twins[0] is not None and twins[1] is not None else None
        return PairedDifference(self.names, self._backend, self, other, moments, floored, ends)

    # ── delivery ────────────────────────────────────────────────────────────────────────────────────

    def _columns(self) -> dict[str, list[Any]]:
        terms = self.terms
        shares = [value / self.risk if self.risk and math.isfinite(self.risk) else math.nan for value in terms.values()]
        columns: dict[str, list[Any]] = {"term": list(self.names), "estimate": list(terms.values())}
        if not self._population:
            columns["std_error"] = list(self.std_error.values())
            intervals = [self._shown_interval(name) for name in self.names]
            columns["low"] = [interval.low for interval in intervals]
            columns["high"] = [interval.high for interval in intervals]
        columns["share"] = shares
        return columns

    def _shown_columns(self) -> dict[str, list[Any]]:
        """The table; as in the summary, what is known takes the place of muted estimates."""
        columns = self._columns()
        for place, name in enumerate(self.names):
            if name in self.muted:
                known = self._known(name, 0.95)
                nothing = dict.fromkeys(("estimate", "std_error", "share"), math.nan)
                for key, value in {**nothing, "low": known.low, "high": known.high}.items():
                    columns[key][place] = value
        return columns

    def _shown_term(self, name: str, confidence_level: float = 0.95) -> Cell:
        """An estimate; where it is muted, what is known of it."""
        return Range(*self._known(name, confidence_level)) if name in self.muted else self.terms[name]

    def _title(self) -> str:
        how = "exact, on a finite population" if self._population else f"{write_count(self.n)} rows"
        moved = "" if self._moved is None else f", of which {write_count(self._moved)} moved"
        about = f"{self.loss.formula(self.n_classes)}; form {self.form}; {how}{moved}"
        mark = f", {self._mark}" if self._mark else ""
        risk = write_fixed(self.risk, self._decimals() or 5) if math.isfinite(self.risk) else "∞"
        return f"{self.loss!s} loss {risk} = {self._sum()}{mark}\n[{about}]"

    def _twin(self) -> TermTable | None:
        return self._stand_in

    def to_frame(self, backend: str | None = None) -> Any:
        """
        The table of terms as a dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            One row per term. Where the loss is infinite, columns ``floored_…`` hold the values with probabilities kept
            at least ``floor`` (a column) from 0 and 1.
        """
        columns, twin = self._columns(), self._stand_in
        if twin is not None:
            more = {f"floored_{name}": values for name, values in twin._columns().items() if name != "term"}
            columns = {**columns, **more, "floor": [twin.clip] * len(self.names)}
        return make_frame(columns, backend or self._backend)

    def _sum(self) -> str:
        parts = [("− " if sign < 0 else "+ ") + name for sign, name in zip(self._signs, self.names, strict=True)]
        return " ".join(parts).removeprefix("+ ")

    def _findings(self) -> Sequence[Finding]:
        clipped = [] if self.clip is None or self.floor is not None else [Finding("clipped", value=self.clip)]
        twin = self._stand_in
        return [*clipped, *self.findings, *([] if twin is None else select(twin.findings, "floored"))]

    def to_dict(self) -> dict[str, Any]:
        """
        The summary, without rows, as plain Python objects.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "loss": _describe_loss(self.loss),
            "form": self.form,
            "risk": self.risk,
            "residual": self.residual,
            "terms": self._by_term(),
            "names": list(self.names),
            "roles": list(self._roles),
            "signs": list(self._signs),
            "levels": list(self.level_names),
            "n": self.n,
            "n_classes": self.n_classes,
            "clip": self.clip,
            "findings": [one.to_dict() for one in self.findings],
            "population": self._population,
            "alternatives": [vars(other) for other in self._candidates],
            "mean": self._moments.mean.tolist(),
            "covariance": self._moments.covariance.tolist(),
            "ends": None if self._ends is None else vars(self._ends).copy(),
            "muted": list(self.muted),
            "calibration_pvalue": self._needed_pvalue(),
            **({} if self.floored is None else {FLOORED: self.floored.to_dict()}),
            **({} if self._moved is None else {MOVED: self._moved}),
        }

    def _needed_pvalue(self) -> float | None:
        """The p-value, where advice needs it: it is not free."""
        if self._calibration is None or self._roles[0] != "reliability" or not self._finite:
            return None
        shown = self._inference(self.names[0]).lower_bound(0.95).value > 0.0
        return None if shown else self.calibration_pvalue

    @classmethod
    def from_json(cls, text: str | bytes) -> Decomposition:
        """
        Read a summary back: everything but the rows.

        Parameters
        ----------
        text : str or bytes
            What `to_json` wrote.

        Returns
        -------
        Decomposition
            With terms, standard errors, intervals and bounds, but no rows.
        """
        data = read_summary(text)
        with fitting_together():
            return _from_summary(cls, data)


def _bound_degenerate(first: Ends, second: Ends) -> float | None:
    """The least that the degenerate parts of two second-order terms leave in their difference."""
    if first.degenerate is None or second.degenerate is None:
        return None
    return (math.sqrt(first.degenerate) - math.sqrt(second.degenerate)) ** 2


def _describe_loss(loss: ProperLoss) -> dict[str, Any]:
    """A loss of the table by name and parameters; any other by its label only."""
    known = LOSSES.get(loss.name) is type(loss)
    return {
        "name": loss.name if known else "custom",
        "label": str(loss),
        "parameters": loss.parameters if known else {},
    }


#: Types of the fields of a summary; a number that is not finite is a float by now.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("names", "levels", "roles", "signs", "findings", "mean", "covariance", "alternatives"), (list,)),
    "muted": (list,),
    "calibration_pvalue": (float, int, type(None)),
    **dict.fromkeys(("n", "n_classes"), (int,)),
    "form": (str,),
    "loss": (dict,),
    "risk": (float, int),
    "clip": (float, int, type(None)),
    "population": (bool,),
}


def _from_summary(cls: type[Decomposition], data: dict[str, Any]) -> Decomposition:
    loss = data["loss"]
    require_kinds(data, _KINDS)
    require_kinds(loss, {"name": (str,), "label": (str,), "parameters": (dict,)})
    moments = Moments(np.array(data["mean"], dtype=float), np.array(data["covariance"], dtype=float))
    ends = _read_ends(data["ends"])
    parts = (3 if data["form"] == "plugin" else 2) * len(data["levels"])
    parts += ends is not None and ends.degenerate is not None
    fit = moments.mean.shape == (parts,) and moments.covariance.shape == (parts, parts)
    fit &= len(data["names"]) == len(data["roles"]) == len(data["signs"]) and set(data["roles"]) <= set(ROLES)
    fit &= all(isinstance(text, str) for key in ("names", "levels", "muted") for text in data[key])
    fit &= set(data["signs"]) <= {1, -1} and data["n"] > 0 and data["n_classes"] > 1
    if not fit:
        raise ValueError(f"{len(data['names'])} names, {len(data['levels'])} levels, {moments.mean.size} means")
    return cls(
        names=tuple(data["names"]),
        _backend=None,
        loss=get_loss(loss["name"], **loss["parameters"])
        if loss["name"] in LOSSES
        else OpaqueLoss(loss["label"], None),
        form=parse_choice(data["form"], FORMS, "form"),
        risk=float(data["risk"]),
        level_names=tuple(data["levels"]),
        n=int(data["n"]),
        n_classes=int(data["n_classes"]),
        _roles=tuple(data["roles"]),
        _signs=tuple(int(sign) for sign in data["signs"]),
        _moments=moments,
        clip=None if data["clip"] is None else float(data["clip"]),
        findings=tuple(Finding.from_dict(one) for one in data["findings"]),
        _population=bool(data["population"]),
        _alternatives=tuple(_read_alternative(other) for other in data["alternatives"]),
        _ends=ends,
        muted=tuple(data["muted"]),
        _calibration=None if data["calibration_pvalue"] is None else partial(float, data["calibration_pvalue"]),
        floored=_read_floored(cls, data[FLOORED]) if FLOORED in data else None,
        _moved=int(data[MOVED]) if MOVED in data else None,
    )


def _read_floored(cls: type[Decomposition], data: Any) -> Decomposition:
    """The same at a floor, which has none itself."""
    if not isinstance(data, dict) or FLOORED in data or MOVED not in data or data.get("clip") is None:
        raise ValueError("a decomposition at a floor without its floor")
    return cls.from_json(json.dumps(encode(data)))


def _read_ends(data: Any) -> Ends | None:
    """What the ends of intervals need, in a summary."""
    if data is None:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("degenerate"), (float, int, type(None))):
        raise TypeError("ends of another kind")
    numbers = ("model_error", "skewness", "effective_rows")
    require_kinds(data, dict.fromkeys(numbers, (float, int)))
    return Ends(**data)


def _read_alternative(data: dict[str, Any]) -> Alternative:
    """A candidate of a summary."""
    numbers = ("loss", "difference", "spread", "std_error")
    require_kinds(data, {"name": (str,), **dict.fromkeys(numbers, (float, int))})
    return Alternative(**data)


@dataclass(frozen=True, eq=False, repr=False)
class PairedDifference(TermTable):
    """
    Difference of two decompositions of the same rows.

    Made by `Decomposition.minus`. Positive means that the first one has more of the term.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    first, second : Decomposition
        The decompositions.
    floored : PairedDifference or None
        The difference of ``first.floored`` and ``second.floored``, where both exist: two infinite losses have no
        difference.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> y, c = [0, 1, 0, 1], [0.1, 0.7, 0.3, 0.9]
    >>> bad = Chain(y, [Level("S", [0.5, 0.5, 0.5, 0.5]), Level("C", c)]).decompose("brier")
    >>> good = Chain(y, [Level("S", [0.2, 0.7, 0.3, 0.8]), Level("C", c)]).decompose("brier")
    >>> round(bad.minus(good).terms["reliability"], 3)
    0.185
    """

    first: Decomposition
    second: Decomposition
    _moments: Moments
    floored: PairedDifference | None = None
    _ends: Ends | None = None

    @property
    def terms(self) -> dict[str, float]:
        """Difference of each term."""
        return {name: self._moments.value(self.first._combination(i)) for i, name in enumerate(self.names)}

    @property
    def std_error(self) -> dict[str, float]:
        """Paired standard error of each difference; NaN where C was fitted in sample."""
        errors = {name: self._moments.std_error(self.first._combination(i)) for i, name in enumerate(self.names)}
        return {name: math.nan if math.isnan(self.first.std_error[name]) else error for name, error in errors.items()}

    @property
    def risk(self) -> float:
        """Difference of the mean losses."""
        return self.first.risk - self.second.risk

    @property
    def risk_std_error(self) -> float:
        """Paired standard error of the difference of the mean losses."""
        return self._moments.std_error(dict.fromkeys(range(len(self.first.level_names)), 1.0))

    @property
    def rows(self) -> FloatArray:
        """Difference of the rows, shape (n, terms)."""
        with np.errstate(invalid="ignore"):
            return self.first.rows - self.second.rows

    def interval(self, term: str, confidence_level: float = 0.95, method: str = "auto") -> Interval:
        """
        Confidence interval of the difference of a term, from the paired rows.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, default=0.95
            Confidence level.
        method : {"auto", "any-shape", "smooth", "clt"}, default="auto"
            As for `Decomposition.interval`: ``"any-shape"`` allows for the bias of both fits of C, ``"smooth"`` for
            their noise; ``"clt"``, estimate ± z paired standard errors, takes the fits as known.
            ``"auto"`` is ``"any-shape"`` for the difference of two reliabilities, ``"smooth"`` for other terms.

        Returns
        -------
        Interval
            Of the difference, first − second.
        """
        name = parse_choice(term, self.names, "term")
        confidence = parse_confidence(confidence_level)
        chosen = parse_choice(method, ("auto", "any-shape", "smooth", "clt"), "method")
        self.first._inference(name).require_interval()
        return self._interval(name, confidence, chosen)

    def _interval(self, name: str, confidence_level: float, method: str = "auto") -> Interval:
        """The interval; name, level and method were parsed before."""
        z = quantile(confidence_level, two_sided=True)
        if method == "clt":
            margin = z * self.std_error[name]
            return Interval(self.terms[name] - margin, self.terms[name] + margin, confidence_level, "clt, paired")
        first, second = self.first._inference(name), self.second._inference(name)
        both = replace(first, moments=self._moments, ends=self._ends)
        if method == "any-shape" and not both.any_shape:
            raise UnavailableError(self.first._no_any_shape(name))
        any_shape = both.any_shape and method != "smooth"
        low, high = both.difference_ends(first, second, z, any_shape=any_shape)
        return Interval(low, high, confidence_level, f"{'any shape' if any_shape else 'smooth'}, paired")

    def _shown_interval(self, name: str, confidence_level: float = 0.95) -> Interval:
        """The interval of a difference, or NaN where there is none."""
        if self.first._inference(name).has_interval:
            return self._interval(name, confidence_level)
        return Interval(math.nan, math.nan, confidence_level, "none")

    def to_dict(self) -> dict[str, Any]:
        """
        The differences as plain Python objects.

        Returns
        -------
        dict
            Term by term.
        """
        return self._by_term()

    def _twin(self) -> TermTable | None:
        return self.floored

    def _columns(self) -> dict[str, list[Any]]:
        intervals = [self._shown_interval(name) for name in self.names]
        return {
            "term": list(self.names),
            "difference": list(self.terms.values()),
            "std_error": list(self.std_error.values()),
            "low": [interval.low for interval in intervals],
            "high": [interval.high for interval in intervals],
        }

    def _title(self) -> str:
        mark = f", {self.first._mark}" if self.first._mark else ""
        size = write_fixed(self.risk, 5, "+") if math.isfinite(self.risk) else write_amount(self.risk)
        difference = f"{self.first.loss!s} loss, difference {size}"
        return f"{difference} on the same {write_count(self.first.n)} rows{mark}"
