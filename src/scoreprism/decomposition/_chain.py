"""Chains of information levels, σ(S) ⊆ σ(X) ⊆ σ(Z) or any other, and how their rows are filled (paper, sections 2, 5).

A chain holds a law for each level. Every theorem of the paper is the same telescoping sum over such laws: the loss of
the prediction is what each level gains on the one before, and what the last one leaves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import namespace, to_host
from scoreprism._core.checks import parse_choice, parse_clip, refuse, require_rows
from scoreprism._core.lazy_laws import ClassScores, LazyLaw, read_block
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, clip_law, freeze, n_classes, unify
from scoreprism._findings.finding import Finding, announce
from scoreprism._kernels.term_intervals import FEW_UNITS, FORMS, Ends, Moments, TermInference, WhatIf, steps
from scoreprism._sample.level import Level, spread
from scoreprism._sample.sample import Sample, parse_laws
from scoreprism._spelling import spell
from scoreprism.decomposition._result import Decomposition, RowLosses
from scoreprism.exceptions import InfiniteLossError, ScoreprismWarning
from scoreprism.losses import ProperLoss, get_loss

#: Level names that mean the objective chance Π = P(Y | Z) of a latent state (theorem "four-term").
LATENT_NAMES = frozenset({"Π", "π", "Pi", "pi", "PI", "latent", "Z", "chance"})

#: Names that tables need for themselves.
_RESERVED = frozenset({"residual", "segment", "weight", "term"})


class Term(NamedTuple):
    """What lies between two levels of a chain, or above the last."""

    name: str
    role: str  # one of `ROLES`
    sign: int = 1  # −1 for a term that is subtracted


def name_terms(levels: Sequence[str], latent: frozenset[str] = LATENT_NAMES) -> tuple[Term, ...]:
    """
    The terms of a chain, by the names of its levels: the one rule for given laws and fitted ones.

    The first step is reliability. A single step from C to Q is grouping, one from there to a latent state
    heterogeneity; any other step is called by its ends. `latent` holds the names that mean a latent state.
    """
    roles = ("reliability", *(["information"] * (len(levels) - 2)), "remaining")
    is_latent = levels[-1] in latent
    last = "noise" if is_latent else "irreducible"
    between: tuple[str, ...] = tuple(f"{a} → {b}" for a, b in pairwise(levels[1:]))
    if len(levels) == 2:
        last = "refinement"
    elif list(levels[2:]) == ["Q"]:
        between = ("grouping",)
    elif len(levels) == 4 and levels[2] == "Q" and is_latent:
        between = ("grouping", "heterogeneity")
    names = ("reliability", *between, last)
    return tuple(Term(name, role) for name, role in zip(names, roles, strict=True))


class Fit(Protocol):
    """How the laws of a chain were fitted; it can fit them again."""

    def complete(self, result: Decomposition) -> Decomposition:
        """The decomposition with what only the fit knows: guards, candidates, the test of calibration."""

    @property
    def can_resample(self) -> bool:
        """Whether laws can be fitted to resampled rows."""

    def refit_term(self, index: int, counts: FloatArray, result: Decomposition) -> float:
        """A term of a decomposition, with the laws fitted to every row counted `counts` times."""


class Chain:
    r"""
    Conditional probabilities of the outcome at levels of information, from coarse to fine, with the outcomes.

    For :math:`\mathcal A \subseteq \mathcal B` and a prediction :math:`T` known at :math:`\mathcal A`,

    .. math::
        E\,\ell(T,Y) = E\,d(T,Q_{\mathcal A}) + E\,d(Q_{\mathcal A},Q_{\mathcal B}) + E\,\mathcal E(Q_{\mathcal B}),

    and so on for longer chains: the paper's one-level, chain, four-term and filtration theorems are this one
    telescoping sum.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: any two (or K) sortable labels.
    levels : sequence of Level
        From coarse to fine; ``levels[0]`` is the prediction.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Groups of dependent rows: standard errors are cluster-robust.
    names : sequence of str, optional
        Names of the terms, as many as levels; by default they are derived from the levels.
    pos_label : label, optional
        Positive class: one-dimensional probabilities are P(Y = pos_label). Not needed for 0/1, −1/1 and booleans.
    classes : array-like of shape (K,), optional
        Labels in column order. By default the columns of a frame that are named after the labels, the categories of
        an ordered categorical, or else the sorted labels.
    population : bool, default=False
        Whether the rows are the whole population and the weights its probabilities, so that there is no sampling
        error.

    Attributes
    ----------
    sample : Sample
        The rows.
    levels : tuple of Level
        From coarse to fine, in one layout and one order of classes.
    terms : tuple
        Name, role and sign of each term.

    Examples
    --------
    >>> y = [0, 1, 0, 1, 1, 0]
    >>> s = [0.2, 0.9, 0.2, 0.9, 0.9, 0.9]
    >>> c = [0.1, 0.7, 0.1, 0.7, 0.7, 0.7]
    >>> q = [0.1, 0.9, 0.1, 0.6, 0.9, 0.4]
    >>> chain = Chain(y, [Level("S", s), Level("C", c), Level("Q", q)])
    >>> chain.decompose("brier").names
    ('reliability', 'grouping', 'irreducible')
    """

    def __init__(
        self,
        y_true: ArrayLike,
        levels: Sequence[Level],
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        population: bool = False,
    ) -> None:
        parsed_levels = _parse_levels(levels)
        terms = _parse_names(names, parsed_levels)
        sample, parsed = parse_laws(
            y_true,
            [level.given for level in parsed_levels],
            sample_weight=sample_weight,
            groups=groups,
            pos_label=pos_label,
            classes=classes,
            backend=next((level.backend for level in parsed_levels if level.backend), None),
        )
        laws = [level.change(name=old.name) for level, old in zip(parsed, parsed_levels, strict=True)]
        self.sample, self.levels, self.terms = sample, bring_together(laws), terms
        self.population = population
        self.findings: tuple[Finding, ...] = ()
        self.fit: Fit | None = None

    @classmethod
    def of(
        cls,
        sample: Sample,
        levels: Sequence[Level],
        terms: tuple[Term, ...] | None = None,
        *,
        population: bool = False,
        findings: tuple[Finding, ...] = (),
        fit: Fit | None = None,
    ) -> Chain:
        """
        Make a chain from levels that are already parsed or fitted.

        Parameters
        ----------
        sample : Sample
            The rows.
        levels : sequence of Level
            From coarse to fine, the prediction first.
        terms : tuple of Term, optional
            By default derived from the levels.
        population : bool, default=False
            Whether the rows are the whole population.
        findings : tuple of Finding
            What a reader must know about the levels.
        fit : optional
            How the levels were fitted.

        Returns
        -------
        Chain
            The chain.
        """
        chain = object.__new__(cls)
        if terms is None:
            # a level of features may be called Z: only Π means a latent state here
            terms = name_terms([level.name for level in levels], frozenset({"Π"}))
        chain.sample, chain.levels, chain.terms = sample, bring_together(levels), terms
        chain.population, chain.findings, chain.fit = population, findings, fit
        return chain

    def _with(self, **changes: Any) -> Chain:
        chain = object.__new__(type(self))
        chain.__dict__.update(self.__dict__ | changes)
        return chain

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the terms."""
        return tuple(term.name for term in self.terms)

    @property
    def classes(self) -> NDArray[Any] | None:
        """The label of each class code."""
        return self.sample.classes

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels."""
        return tuple(level.name for level in self.levels)

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.levels[0].raw)

    def __repr__(self) -> str:
        return f"Chain({' → '.join(self.level_names)}, {self.sample.n_held} rows)"

    def decompose(
        self, loss: str | ProperLoss = "log", form: str = "debiased", *, clip: float | None = None
    ) -> Decomposition:
        """
        Split the loss of the prediction into the terms of the chain.

        Nothing is fitted again: after ``d = decompose(…)``, ``d.chain.decompose("brier")`` takes a tenth of the time.
        Only ``interval(method="envelope")`` and ``to_json`` of a further loss refit the candidate maps for C, once.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            A name in `LOSSES`, or a loss.
        form : {"debiased", "difference", "plugin"}, default="debiased"
            How terms are estimated. ``"debiased"``: differences of losses, corrected for the noise of the fits.
            ``"difference"``: without the correction. Both add up exactly to the observed loss. ``"plugin"``:
            divergences between the levels, as the paper writes them; never negative, biased upwards by the noise of
            the fits, with a residual that is shown as a term.
        clip : float, optional
            Keep all probabilities at least this far from 0; none are clipped by default.

        Returns
        -------
        Decomposition
            Terms, rows, standard errors, intervals.
        """
        chosen = get_loss(loss)
        chosen.require_classes(self.sample.prediction)
        return self.decompose_at(chosen, parse_choice(form, FORMS, "form"), parse_clip(clip, self.k))

    def decompose_at(
        self, loss: ProperLoss, form: str, clip: float | None, floor: float | None = None
    ) -> Decomposition:
        """
        Decompose with arguments that are already parsed, and with a floor where the loss is infinite.

        Parameters
        ----------
        loss : ProperLoss
            The loss, defined for the classes of this chain.
        form : str
            One of `FORMS`.
        clip : float or None
            Clipping distance.
        floor : float, optional
            Distance from 0 and 1 of the decomposition in ``floored``; 1/(2n) by default, where the loss is infinite.

        Returns
        -------
        Decomposition
            With ``floored``, where there is a floor.
        """
        again = partial(self._assemble, loss, form)
        result = again(clip)
        if result.clip is not None or self.population or (floor is None and result._finite):
            return result
        return _add_floor(result, self.sample, again, self.sample.floor if floor is None else floor)

    def _assemble(self, loss: ProperLoss, form: str, clip: float | None) -> Decomposition:
        """The terms at one clipping distance."""
        used = self.clip_at(clip)
        losses, extras = used._losses(loss), used._spreads(loss)
        infinite_rows = [] if np.isfinite(losses).all() else used._find_infinite_rows(losses, loss, form)
        if form == "plugin":
            extras = np.concatenate([extras, used._divergences(loss)])
        ends = what_if = None
        # an infinite loss of the prediction takes nothing from the terms above C
        if self.terms[0].role == "reliability" and not self.population and np.isfinite(losses[1:]).all():
            ends, what_if, extras = _ends(used, loss, losses, extras)
        moments = used.moments(losses, extras, loss)
        rows = None if self.sample.cells is not None else RowLosses(freeze(losses), freeze(extras), what_if)
        result = replace(
            self._conclude(loss, form, clip, moments, self.sample.mean(losses[0]), rows, infinite_rows), _ends=ends
        )
        return result if self.fit is None else self.fit.complete(result)

    def _find_infinite_rows(self, losses: FloatArray, loss: ProperLoss, form: str) -> list[Finding]:
        """Find the rows with an infinite loss; refuse to subtract two of them."""
        sample, infinite = self.sample, np.isinf(losses)
        if sample.weight is not None:
            infinite &= sample.weight > 0
        counted = [bool(line.any()) for line in infinite]
        if not any(counted):
            return []
        for t in range(1, len(self.levels)):
            if counted[t] and form != "plugin":
                raise InfiniteLossError(
                    f"level {self.levels[t].name!r} must have a finite {loss!s} loss in every row; "
                    f"it is infinite in {sample.describe(infinite[t])}, where it gives probability 0 "
                    "to what happened. " + spell(("Pass `clip`=1e-6 (or another distance from 0)", "`form`='plugin'"))
                )
        count, total, rows = sample.locate(np.logical_or.reduce(infinite))
        facts = {"loss": str(loss), "total": total, "rows": rows}
        return [announce(Finding("infinite_loss", n=count, facts=facts))]

    def _conclude(
        self,
        loss: ProperLoss,
        form: str,
        clip: float | None,
        moments: Moments,
        risk: float,
        rows: RowLosses | Callable[[], RowLosses] | None,
        findings: Sequence[Finding],
    ) -> Decomposition:
        """The decomposition, once its moments are known."""
        terms = (*self.terms, Term("residual", "residual")) if form == "plugin" else self.terms
        sample = self.sample
        return Decomposition(
            names=tuple(term.name for term in terms),
            _backend=sample.backend,
            loss=loss,
            form=form,
            risk=risk,
            level_names=self.level_names,
            n=sample.n if sample.cells is None else sample.n_held,
            n_classes=self.k,
            _roles=tuple(term.role for term in terms),
            _signs=tuple(term.sign for term in terms),
            _moments=moments,
            clip=clip,
            findings=(*self.findings, *findings, *_find_cautions(self, form), *_find_contradictions(moments, self)),
            chain=self,
            _row_losses=rows,
            _population=self.population,
        )

    def level_losses(self, loss: ProperLoss) -> FloatArray:
        """
        Loss of every level in every line; the mean over partitions where a level was fitted in several.

        Parameters
        ----------
        loss : ProperLoss
            The loss.

        Returns
        -------
        array of shape (levels, n)
            Losses.
        """
        loss.require_classes(self.levels[0].raw)
        return self._losses(loss)

    def _losses(self, loss: ProperLoss) -> FloatArray:
        """The same of a loss that is known to be for these classes."""
        y, cells = self.sample.y, self.sample.cells
        known = {} if cells is None else cells.known(loss).mean
        return np.stack([known[one.name] if one.name in known else one._losses(loss, y) for one in self.levels])

    def level_spreads(self, loss: ProperLoss) -> FloatArray:
        """
        Spread of every level over its fold models; zero for the prediction and for given levels.

        Parameters
        ----------
        loss : ProperLoss
            The loss.

        Returns
        -------
        array of shape (levels, n)
            Spreads.
        """
        loss.require_classes(self.levels[0].raw)
        return self._spreads(loss)

    def _spreads(self, loss: ProperLoss) -> FloatArray:
        """The same of a loss that is known to be for these classes."""
        spreads = np.zeros((len(self.levels), self.sample.n))
        for t, level in enumerate(self.levels):
            if level.fits is not None:
                spreads[t] = level.fits.spreads(loss)
            elif level.folds is not None and t > 0:
                spreads[t] = spread(loss, level.folds, level.factor)
        return spreads

    def divergences(self, loss: ProperLoss) -> FloatArray:
        """
        d(P_t, P_{t+1}) for every step, and ℰ(P_m) for the last level.

        Parameters
        ----------
        loss : ProperLoss
            The loss.

        Returns
        -------
        array of shape (levels, n)
            A subtracted term is minus the divergence from the finer to the coarser level.
        """
        loss.require_classes(self.levels[0].raw)
        return self._divergences(loss)

    def _divergences(self, loss: ProperLoss) -> FloatArray:
        """The same of a loss that is known to be for these classes."""
        lines = [
            _evaluate_divergence(loss, coarse, fine) if term.sign > 0 else -_evaluate_divergence(loss, fine, coarse)
            for term, (coarse, fine) in zip(self.terms, pairwise(self.levels), strict=False)
        ]
        last = self.levels[-1]
        return np.stack([*lines, loss.evaluate_entropy(last.raw) if last.fits is None else last.fits.entropies(loss)])

    def moments(self, losses: FloatArray, extras: FloatArray, loss: ProperLoss) -> Moments:
        """
        Mean and covariance of the steps between levels and of the extras.

        Parameters
        ----------
        losses : array of shape (levels, n)
            Loss of every level in every line.
        extras : array of shape (m, n)
            Spreads and other values by line.
        loss : ProperLoss
            The loss.

        Returns
        -------
        Moments
            Of steps and extras.
        """
        if self.sample.cells is None:
            return Moments.of(losses, extras, self.sample.weight, self.sample.groups, population=self.population)
        return _moments_of_cells(self, losses, extras, loss)

    # ── parts of it ─────────────────────────────────────────────────────────────────────────────────

    def clip_at(self, distance: float | None) -> Chain:
        """
        Clip the probabilities of all levels.

        Parameters
        ----------
        distance : float or None
            Smallest probability allowed; None leaves the levels unchanged.

        Returns
        -------
        Chain
            With clipped probabilities.
        """
        if distance is None:
            return self
        sample, cells = self.sample, self.sample.cells
        if cells is not None:
            sample = replace(sample, cells=cells.clip_at(distance))
        return self._with(sample=sample, levels=tuple(level.clip_at(distance) for level in self.levels))

    def take(self, rows: NDArray[Any]) -> Chain:
        """
        Select rows, with the probabilities they have in the whole chain.

        Parameters
        ----------
        rows : array
            Row numbers, or a mask.

        Returns
        -------
        Chain
            With these rows only; it cannot be refitted.
        """
        self.sample.require_rows("take")
        return self._take_checked(np.flatnonzero(rows) if rows.dtype == bool else rows)

    def _take_checked(self, some: IntArray) -> Chain:
        """Some of the rows by their numbers, where there are single rows."""
        return self._with(
            sample=self.sample._take_checked(some), levels=tuple(level.take(some) for level in self.levels), fit=None
        )

    def rename(self, names: Sequence[str], levels: Sequence[str]) -> Chain:
        """
        Rename terms and levels.

        Parameters
        ----------
        names : sequence of str
            Of the terms, as many as levels.
        levels : sequence of str
            Of the levels.

        Returns
        -------
        Chain
            The same levels by their new names.
        """
        return self._with(
            terms=tuple(term._replace(name=name) for term, name in zip(self.terms, names, strict=True)),
            levels=tuple(level.change(name=name) for level, name in zip(self.levels, levels, strict=True)),
        )

    def up_to(self, level: int) -> Chain:
        """
        Keep the first levels only.

        Parameters
        ----------
        level : int
            Position of the last level to keep.

        Returns
        -------
        Chain
            With terms that end there.
        """
        levels = self.levels[: level + 1]
        return self._with(levels=levels, terms=name_terms([one.name for one in levels]), fit=None)

    def with_marginal(self) -> Chain:
        """
        Append the marginal Q̄ of the outcome as the last level: uncertainty − resolution + reliability.

        Returns
        -------
        Chain
            Without findings; it cannot be refitted.
        """
        sample, wide = self.sample, self.levels[0].raw.ndim == 2
        mass = np.bincount(sample.y, sample.weight, self.k)
        marginal = mass / mass.sum()
        constant = np.tile(marginal, (sample.n, 1)) if wide else np.full(sample.n, marginal[1])
        levels = (*self.levels, Level.of("Q̄", constant))
        return self._with(levels=levels, terms=_RESOLUTION, findings=(), fit=None)


#: The terms of S → C → Q̄: the resolution is subtracted.
_RESOLUTION = (
    Term("reliability", "reliability"),
    Term("resolution", "resolution", -1),
    Term("uncertainty", "uncertainty"),
)


def bring_together(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Levels in one layout: two columns for all as soon as one has them."""
    laws = unify([level.raw for level in levels])
    ndim = laws[0].ndim
    unified = []
    for level, law in zip(levels, laws, strict=True):
        folds = level.folds
        if folds is not None and folds.ndim == 2 and ndim == 2:
            folds = np.stack([1.0 - folds, folds], axis=2)
        unified.append(level if law is level.raw and folds is level.folds else level.change(raw=law, folds=folds))
    return tuple(unified)


def _parse_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    remedy = "For example [Level('S', s), Level('C', c)]."
    if isinstance(levels, (str, Level)) or not isinstance(levels, Sequence):
        refuse("`levels` must be a sequence of Level", type(levels).__name__, remedy)
    for level in levels:
        if not isinstance(level, Level):
            refuse("`levels` must be a sequence of Level", f"a {type(level).__name__} among them", remedy)
    if len(levels) < 2:
        refuse("`levels` must hold the prediction and at least one further level", f"{len(levels)}", remedy)
    first = levels[0]
    for level in levels[1:]:
        require_rows(level.raw.shape[0], first.raw.shape[0], f"level {level.name!r}", f"level {first.name!r}")
        if n_classes(level.raw) != n_classes(first.raw):
            refuse(
                "all levels must have the same number of classes",
                f"{n_classes(first.raw)} in {first.name!r} and {n_classes(level.raw)} in {level.name!r}",
                "Use the same outcome for all levels.",
            )
    if len({level.name for level in levels}) < len(levels):
        refuse("`levels` must have different names", ", ".join(level.name for level in levels), "Rename one of them.")
    return tuple(levels)


def _parse_names(names: Sequence[str] | None, levels: Sequence[Level]) -> tuple[Term, ...]:
    terms = name_terms([level.name for level in levels])
    if names is None:
        return terms
    rule = f"names must be {len(levels)} different strings, none of them among {', '.join(sorted(_RESERVED))}"
    remedy = "One name per term, as many as levels."
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(v, str) for v in names):
        refuse(rule, f"{names!r}", remedy)
    if len(names) != len(levels) or len(set(names)) != len(names) or _RESERVED & set(names):
        refuse(rule, f"{names!r}", remedy)
    return tuple(term._replace(name=name) for term, name in zip(terms, names, strict=True))


# ── how rows are filled ─────────────────────────────────────────────────────────────────────────────


def _evaluate_divergence(loss: ProperLoss, of: Level, by: Level) -> FloatArray:
    """d(of, by), the mean over the partitions that either was fitted in."""
    if by.fits is not None:
        return np.asarray(by.fits.divergences(loss, of.raw, of.fits))
    if of.fits is not None:
        return np.asarray(of.fits.divergences_from(loss, by.raw))
    return loss.evaluate_divergence(of.raw, by.raw)


def _ends(chain: Chain, loss: ProperLoss, losses: FloatArray, extras: FloatArray) -> tuple[Ends, AnyWhatIf, FloatArray]:
    """What the ends of intervals of the reliability need beside moments; and components with the second-order rows."""
    sample, score, law_of_score = chain.sample, chain.levels[0].raw, chain.levels[1].raw
    fit = chain.levels[1].fits
    second = None if fit is None else fit.second(loss, sample.y, sample.weight, sample.groups)
    if second is not None:
        extras = np.concatenate([extras, second.rows[None]])
    law = law_of_score if fit is None else fit.mean_law
    if isinstance(law, LazyLaw):
        what_if: AnyWhatIf = LazyWhatIf(loss, score, law, fit)
    else:
        share = np.stack([1.0 - law, law]) if law.ndim == 1 else law.T
        gains = np.empty((chain.k, sample.n))
        for outcome in range(chain.k):
            codes = np.full(sample.n, outcome, dtype=np.intp)
            with np.errstate(invalid="ignore"):
                after = loss.evaluate(law_of_score, codes) if fit is None else fit.what_if(loss, outcome)
                gains[outcome] = loss.evaluate(score, codes) - after
        what_if = WhatIf(gains, share)
    degenerate = None if second is None else second.degenerate
    clustered = sample.groups is not None
    return Ends.of(losses[0] - losses[1], what_if, sample.masses, degenerate, clustered=clustered), what_if, extras


@dataclass(frozen=True, eq=False)
class LazyWhatIf:
    """What rows would have said of the reliability with other outcomes, by laws that are computed when needed."""

    loss: ProperLoss
    score: Any
    law: LazyLaw  # the mean of C
    fit: Any
    less: LazyWhatIf | None = None  # the same of another score of the same rows, which is subtracted

    def blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        """Gains and probabilities of each outcome, (rows, K), where the scores live."""
        for rows in self.law.blocks():
            yield rows, *self.read(rows)

    def read(self, rows: slice) -> tuple[Any, Any]:
        """The same of some rows."""
        gains, share = self.loss.evaluate_each(read_block(self.score, rows)), self.law.block(rows)
        gains = gains - self.fit.each(self.loss, rows)
        if self.less is None:
            return gains, share
        other_gains, other_share = self.less.read(rows)
        if type(other_gains) is not type(gains):  # the other score is an array of another library
            gains, share, other_gains, other_share = map(to_host, (gains, share, other_gains, other_share))
        return gains - other_gains, 0.5 * (share + other_share)

    def moments(self, weight: FloatArray) -> list[FloatArray]:
        """As `WhatIf.moments`, from moments about 0 of each row."""
        about = np.zeros((5, weight.size))
        for rows, gains, share in self.blocks():
            xp = namespace(gains)
            known = xp.isfinite(gains)
            gain, part = xp.where(known, gains, xp.zeros_like(gains)), xp.where(known, share, xp.zeros_like(share))
            powers = []
            for _ in about:
                powers.append(xp.sum(part, axis=1))
                part = part * gain
            about[:, rows] = to_host(xp.stack(powers))
        mass, first, second, third, fourth = about
        mean = float(first @ weight) / float(weight.sum())
        return [
            second - 2.0 * mean * first + mean**2 * mass,
            third - 3.0 * mean * second + 3.0 * mean**2 * first - mean**3 * mass,
            fourth - 4.0 * mean * third + 6.0 * mean**2 * second - 4.0 * mean**3 * first + mean**4 * mass,
        ]

    def minus(self, other: AnyWhatIf) -> AnyWhatIf:
        """The same of a difference of two reliabilities on the same rows, outcomes drawn from the mean of both laws."""
        return replace(self, less=other) if isinstance(other, LazyWhatIf) else self.collect().minus(other)

    def collect(self) -> WhatIf:
        """The same as arrays."""
        gains, share = np.empty(self.law.shape[::-1]), np.empty(self.law.shape[::-1])
        for rows, own_gains, own_share in self.blocks():
            gains[:, rows], share[:, rows] = to_host(own_gains).T, to_host(own_share).T
        return WhatIf(gains, share)


AnyWhatIf = WhatIf | LazyWhatIf


def _moments_of_cells(chain: Chain, losses: FloatArray, extras: FloatArray, loss: ProperLoss) -> Moments:
    """Σw²(r − r̄)(r' − r̄')/(Σw)², from what lies between lines and what lies within them."""
    cells, weight = chain.sample.cells, chain.sample.weight
    assert cells is not None  # noqa: S101 - callers check it
    assert weight is not None  # noqa: S101 - lines always have one
    weighted = weight > 0
    share = weight[weighted] / weight.sum()
    part = np.concatenate([steps(losses), extras])[:, weighted]
    mean_squares = cells.known(loss).mean2
    by_square = np.stack([mean_squares.get(name, line) for name, line in zip(chain.level_names, losses, strict=True)])
    with np.errstate(invalid="ignore"):
        mean = (part * share).sum(axis=1)
        apart = np.concatenate([steps(by_square), extras])[:, weighted] - mean[:, None]
        covariance = (apart * cells.squares[weighted]) @ apart.T
    covariance += cells.within(loss, chain.level_names, covariance.shape[0])
    return Moments(mean, covariance / float(weight.sum()) ** 2 if cells.n_units > 1 else covariance * np.nan)


# ── losses that are infinite ────────────────────────────────────────────────────────────────────────


def _add_floor(
    result: Decomposition, sample: Sample, again: Callable[[float], Decomposition], distance: float
) -> Decomposition:
    """A decomposition with the same at a floor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)  # the main decomposition has issued these warnings
        twin = again(distance)
    law = sample.scores
    if isinstance(law, ClassScores):
        moves = law.least < np.log(distance)
        moves |= law.zero
    else:
        moves = (clip_law(law, distance) != law).reshape(sample.n, -1).any(axis=1)
    moved = round(sample.total(moves))
    return replace(result, floored=twin._as_floored(moved))


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def _find_cautions(chain: Chain, form: str) -> list[Finding]:
    """What a reader must know about the intervals of these rows."""
    if chain.population:
        return []
    cautions, units = [], chain.sample.n_units
    if units < FEW_UNITS:
        unit = "row" if chain.sample.groups is None else "group"
        cautions.append(Finding("few_units", n=units, facts={"unit": unit, "enough": FEW_UNITS}))
    if form == "plugin":
        cautions.append(Finding("plugin_bias"))
    return cautions


def _find_contradictions(moments: Moments, chain: Chain) -> list[Finding]:
    """A 'calibrated' law that predicts worse than the prediction itself, beyond chance and its own noise."""
    first, names = chain.terms[0], chain.level_names
    if first.role != "reliability":
        return []
    high = TermInference(first.name, first.role, 0, 1, len(names), moments).reach(0.95)
    if not high < 0.0:
        return []
    return [Finding("not_calibrated_version", term=first.name, subject=names[1], facts={"prediction": names[0]})]
