"""How rows are filled: the loss and the spread of every level, and the divergences of the plug-in form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_weights
from scoreprism._core.checks import listed, outside, parse_choice, parse_clip
from scoreprism._core.frames import backend_of
from scoreprism._core.labels import GivenLaw, Outcomes, parse_groups, parse_outcomes
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, clip_law, frozen, n_classes, unify
from scoreprism._document.tables import floor_mark
from scoreprism._spelling import spell
from scoreprism.decomposition._intervals import FORMS, Ends, Moments, TermInference, WhatIf
from scoreprism.decomposition._result import Decomposition, Kept
from scoreprism.exceptions import InfiniteLossError, InfiniteLossWarning, ScoreprismWarning
from scoreprism.losses import ProperLoss, get_loss


class Second(NamedTuple):
    """Rows b, whose mean B is how far Ĉ is from C; and the part D of the variance of B that is there even if Ĉ = C."""

    rows: FloatArray
    degenerate: float


class Fits(Protocol):
    """A law fitted in several partitions of the rows into folds, as a sheet evaluates it."""

    def clipped(self, distance: float | None) -> Any:
        """The same, kept away from 0 and 1."""

    def rows(self, some: IntArray) -> Any:
        """The same for some of the rows."""

    def losses(self, loss: ProperLoss, y: IntArray) -> FloatArray:
        """Mean loss over the partitions, in every row."""

    def spreads(self, loss: ProperLoss) -> FloatArray:
        """Mean spread over the partitions, in every row."""


class FitsOfScore(Fits, Protocol):
    """The law C, of which more is known."""

    @property
    def mean_law(self) -> FloatArray:
        """Mean of the laws that did not see a row."""

    def what_if(self, loss: ProperLoss, outcome: int) -> FloatArray:
        """Mean loss, had the outcome been this one."""

    def second(
        self, loss: ProperLoss, y: IntArray, weight: FloatArray | None, groups: IntArray | None
    ) -> Second | None:
        """Second-order rows, or None for a loss without a continuous weight."""


@dataclass(frozen=True)
class Sheet:
    """Parsed material of a decomposition."""

    y: IntArray  # (n,): outcome codes
    laws: list[FloatArray]  # laws from coarse to fine, in one layout; the first is the prediction
    folds: list[FloatArray | None]  # laws of the fold models of each level, None for a law that was given
    weight: FloatArray | None = None  # (n,): weights
    groups: IntArray | None = None  # (n,): clusters
    backend: str | None = None  # dataframe library the data came in
    population: bool = False  # whether the rows are the whole population
    classes: NDArray[Any] | None = None  # (K,): the label of each code
    # what the spread of each level is multiplied with; empty for ones. A law fitted on all of its rows, with F delete-
    # block refits for folds, has (F − 1)/F
    factors: tuple[float, ...] = ()
    # levels that were fitted in several partitions; `laws` and `folds` then show the first. Empty if there are none
    fits: tuple[Any, ...] = ()

    @classmethod
    def of(
        cls,
        y_true: ArrayLike,
        laws: Sequence[GivenLaw],
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        backend: str | None = None,
        population: bool = False,
    ) -> Sheet:
        """Parse what belongs to the rows, and bring all laws into one layout and one order of classes."""
        outcomes = parse_outcomes(y_true, laws, pos_label=pos_label, classes=classes)
        read = [law.values if order is None else law.values[:, order] for law, order in _paired(laws, outcomes)]
        shaped = unify(read)
        n = shaped[0].shape[0]
        clusters = parse_groups(groups, n)
        return cls(
            outcomes.codes,
            shaped,
            [fold_laws(law.folds, order, shaped[0].ndim) for law, order in _paired(laws, outcomes)],
            parse_weights(sample_weight, n),
            None if clusters is None else clusters[1],
            backend_of(y_true) or backend,
            population,
            outcomes.classes,
        )

    @property
    def n(self) -> int:
        """Number of lines."""
        return int(self.y.shape[0])

    @property
    def cases(self) -> int:
        """Number of rows of data: as many as lines, unless lines are sums (`scoreprism.scale`)."""
        return self.n

    @property
    def units(self) -> int:
        """Number of independent rows or clusters that have weight."""
        held = slice(None) if self.weight is None else self.weight > 0
        return int(self.y[held].size if self.groups is None else np.unique(self.groups[held]).size)

    @property
    def held(self) -> int:
        """Number of rows of data that have weight, dependent or not."""
        return int(self.n if self.weight is None else np.count_nonzero(self.weight > 0))

    @property
    def masses(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Σω, Σω², Σω³ and Σω⁴ of the rows of each line; the largest ω of rows is 1, so that none overflows."""
        weight = np.ones(self.n) if self.weight is None else self.weight / self.weight.max()
        return weight, weight**2, weight**3, weight**4

    def moved(self, distance: float) -> int:
        """How many rows of data have a score that lies closer to 0 or 1."""
        return round(self.total((clip_law(self.laws[0], distance) != self.laws[0]).reshape(self.n, -1).any(axis=1)))

    @property
    def summed(self) -> bool:
        """Whether a line stands for many rows, whose losses are known by their sums."""
        return False

    def total(self, values: FloatArray) -> float:
        """Sum over the rows of data that have weight."""
        return float(values.sum() if self.weight is None else values[self.weight > 0].sum())

    def counted(self, lines: NDArray[np.bool_]) -> str:
        """How many rows of data some lines are, and which."""
        rows = np.flatnonzero(lines)
        return f"{rows.size} of {self.n} rows ({listed(rows)})"

    def evaluated(self, loss: ProperLoss, names: Sequence[str]) -> Kept:
        """The loss and the spread of every level in every line."""
        return evaluate(self, loss)

    def moments(self, kept: Kept, loss: ProperLoss, names: Sequence[str]) -> Moments:
        """Mean and covariance of the components."""
        return Moments.of(kept.losses, kept.extras, self.weight, self.groups, population=self.population)

    def clipped(self, distance: float | None) -> Sheet:
        """The same with every law kept away from the boundary."""
        if distance is None:
            return self
        laws = [clip_law(law, distance) for law in self.laws]
        folds = [None if f is None else np.stack([clip_law(law, distance) for law in f]) for f in self.folds]
        fits = tuple(None if one is None else one.clipped(distance) for one in self.fits)
        return replace(self, laws=laws, folds=folds, fits=fits)

    @property
    def fit_of_score(self) -> FitsOfScore | None:
        """How the law above the prediction was fitted, if in partitions or splits."""
        return self.fits[1] if len(self.fits) > 1 else None

    def rows(self, some: IntArray) -> Sheet:
        """Some of the rows, with the laws they have in the whole."""
        return replace(
            self,
            y=self.y[some],
            laws=[law[some] for law in self.laws],
            folds=[None if f is None else f[:, some] for f in self.folds],
            weight=None if self.weight is None else self.weight[some],
            groups=None if self.groups is None else self.groups[some],
            fits=tuple(None if one is None else one.rows(some) for one in self.fits),
        )


def _paired(laws: Sequence[GivenLaw], outcomes: Outcomes) -> Iterator[tuple[GivenLaw, list[int] | None]]:
    return zip(laws, outcomes.orders, strict=True)


def fold_laws(folds: FloatArray | None, order: list[int] | None, ndim: int) -> FloatArray | None:
    """Fold laws in the layout and the order of the laws."""
    if folds is None:
        return None
    if folds.ndim == 2 and ndim == 2:
        return np.stack([1.0 - folds, folds], axis=2)
    return folds if order is None else folds[..., order]


@dataclass(frozen=True)
class Plan:
    """How a sheet becomes terms."""

    levels: tuple[str, ...]  # names of the levels
    names: tuple[str, ...]  # names of the terms
    roles: tuple[str, ...]  # role of each term, in `ROLES`
    signs: tuple[int, ...] = ()  # −1 for a term that is subtracted; empty if there is none
    notes: tuple[str, ...] = ()  # what a reader must know


@dataclass(frozen=True)
class Question:
    """What is asked of a sheet, parsed."""

    loss: ProperLoss  # the loss
    form: str  # one of `FORMS`
    clip: float | None  # clipping distance

    @classmethod
    def of(cls, loss: str | ProperLoss, form: str, clip: float | None, k: int) -> Question:
        """Parse the options of a decomposition."""
        return cls(get_loss(loss), parse_choice(form, FORMS, "form"), parse_clip(clip, k))


def evaluate(sheet: Sheet, loss: ProperLoss) -> Kept:
    """The loss and the spread of every level in every row."""
    return Kept(level_losses(sheet, loss), _spreads(loss, sheet))


def level_losses(sheet: Sheet, loss: ProperLoss) -> FloatArray:
    """The loss of every level in every row."""
    fits = sheet.fits or (None,) * len(sheet.laws)
    lines = [
        loss.evaluate(law, sheet.y) if fit is None else fit.losses(loss, sheet.y)
        for law, fit in zip(sheet.laws, fits, strict=True)
    ]
    return np.stack(lines)


def assemble(sheet: Sheet, plan: Plan, loss: str | ProperLoss, form: str, clip: float | None) -> Decomposition:
    """Evaluate the loss and the spread of every level in every row."""
    asked = Question.of(loss, form, clip, n_classes(sheet.laws[0]))
    used = sheet.clipped(asked.clip)
    losses, extras, _ = used.evaluated(asked.loss, plan.levels)
    notes = infinite_rows(losses, used, plan, asked)
    if asked.form == "plugin":
        signs = plan.signs or (1,) * len(plan.names)
        extras = np.concatenate([extras, divergences(asked.loss, used, signs)])
    ends = None
    if plan.roles[0] == "reliability" and not used.population and np.isfinite(losses).all():
        ends, extras = _ends(used, asked.loss, losses, extras)
    kept = Kept(frozen(losses), frozen(extras), None if ends is None else ends.what_if)
    moments = used.moments(Kept(losses, extras), asked.loss, plan.levels)
    rows = None if used.summed else partial(Kept, *kept)
    found = conclude(used, plan, asked, moments, mean_loss(losses[0], used.weight), rows, notes)
    return found if ends is None else replace(found, _ends=ends.ends)


class _Found(NamedTuple):
    ends: Ends
    what_if: WhatIf


def _ends(sheet: Sheet, loss: ProperLoss, losses: FloatArray, extras: FloatArray) -> tuple[_Found, FloatArray]:
    """What the ends of intervals of the reliability need beside moments; and components with the second-order rows."""
    fit = sheet.fit_of_score
    second = None if fit is None else fit.second(loss, sheet.y, sheet.weight, sheet.groups)
    if second is not None:
        extras = np.concatenate([extras, second.rows[None]])
    law = sheet.laws[1] if fit is None else fit.mean_law
    k = n_classes(sheet.laws[0])
    share = np.stack([1.0 - law, law]) if law.ndim == 1 else law.T
    gains = np.empty((k, sheet.n))
    for outcome in range(k):
        codes = np.full(sheet.n, outcome, dtype=np.intp)
        with np.errstate(invalid="ignore"):
            after = loss.evaluate(sheet.laws[1], codes) if fit is None else fit.what_if(loss, outcome)
            gains[outcome] = loss.evaluate(sheet.laws[0], codes) - after
    what_if = WhatIf(gains, share)
    degenerate = None if second is None else second.degenerate
    ends = Ends.of(losses[0] - losses[1], what_if, sheet.masses, degenerate, clustered=sheet.groups is not None)
    return _Found(ends, what_if), extras


def floor_of(sheet: Sheet) -> float:
    """
    How far scores are kept from 0 and 1 where a loss is shown beside one that is infinite: 1/(2n).

    Rows that have weight are counted, not their weights: models that are compared on the same rows have the same floor.
    """
    return min(0.5 / max(sheet.held, 1), 1.0 / n_classes(sheet.laws[0]))


def with_floor(
    found: Decomposition, sheet: Sheet, again: Callable[[float], Decomposition], floor: float | None = None
) -> Decomposition:
    """A decomposition with the same at a floor, where it is infinite."""
    if found.clip is not None or sheet.population or (floor is None and found._finite):
        return found
    distance = floor_of(sheet) if floor is None else floor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)  # it was said of the decomposition that was asked for
        twin = again(distance)
    return replace(found, floored=as_floored(twin, sheet.moved(distance)))


def as_floored(twin: Decomposition, moved: int) -> Decomposition:
    """A decomposition at a distance that nobody asked for, which it says."""
    note = f"{floor_mark(twin.clip or 0.0)}: {moved:,} of {twin.n:,} rows were moved"
    return replace(twin, _moved=moved, notes=(note, *twin.notes))


def has_infinite(sheet: Sheet, loss: ProperLoss) -> bool:
    """Whether the prediction gave probability 0 to something that happened, and the loss is infinite there."""
    return bool(sheet.total(np.isinf(loss.evaluate(sheet.laws[0], sheet.y)).astype(float)) > 0.0)


def conclude(
    sheet: Sheet,
    plan: Plan,
    asked: Question,
    moments: Moments,
    risk: float,
    rows: Callable[[], Kept] | None,
    notes: Sequence[str],
) -> Decomposition:
    """The decomposition, once its moments are known."""
    names, roles, signs = plan.names, plan.roles, plan.signs or (1,) * len(plan.names)
    if asked.form == "plugin":
        names, roles, signs = (*names, "residual"), (*roles, "residual"), (*signs, 1)
    said = [*plan.notes, *notes, *_cautions(sheet, asked.form), *_contradictions(moments, plan)]
    return Decomposition(
        names=names,
        _backend=sheet.backend,
        loss=asked.loss,
        form=asked.form,
        risk=risk,
        level_names=plan.levels,
        n=sheet.cases,
        n_classes=n_classes(sheet.laws[0]),
        _roles=roles,
        _signs=signs,
        _moments=moments,
        clip=asked.clip,
        notes=tuple(said),
        sample_weight=None if sheet.weight is None or rows is None else frozen(sheet.weight),
        _evaluate=rows,
        _y=None if rows is None else sheet.y,
        _groups=sheet.groups,
        _population=sheet.population,
    )


#: Fewer independent rows or clusters than this make normal intervals too short (docs/statistics.md).
FEW = 30


def _cautions(sheet: Sheet, form: str) -> list[str]:
    """What a reader must know about the intervals of these rows."""
    if sheet.population:
        return []
    cautions = []
    if sheet.units < FEW:
        what = "rows" if sheet.groups is None else "clusters"
        cautions.append(
            f"only {sheet.units} independent {what}: standard errors and intervals are too small below about {FEW}"
        )
    if form == "plugin":
        cautions.append(
            "plug-in estimates are biased by the noise of fitted laws; intervals are those of the loss differences"
        )
    return cautions


def _contradictions(moments: Moments, plan: Plan) -> list[str]:
    """A 'calibrated' law that predicts worse than the prediction itself, beyond chance and its own noise."""
    if plan.roles[0] != "reliability":
        return []
    high = TermInference(plan.names[0], plan.roles[0], 0, 1, len(plan.levels), moments).reach(0.95)
    if not high < 0.0:
        return []
    note = (
        f"level {plan.levels[1]!r} predicts worse than {plan.levels[0]!r} itself, beyond chance: it is not a "
        f"calibrated version of it, and an interval of zero for {plan.names[0]} says no more than that"
    )
    return [note]


def mean_loss(losses: FloatArray, weight: FloatArray | None) -> float:
    """The observed loss; rows of weight zero are absent."""
    if weight is None:
        return float(np.add.reduce(losses) / losses.shape[0])
    held = weight > 0
    return float(np.average(losses[held], weights=weight[held]))


def _spreads(loss: ProperLoss, sheet: Sheet) -> FloatArray:
    """The spread v = Σ_k d(fold law k, mean of the fold laws); zero for the prediction and for laws that were given."""
    spreads = np.zeros((len(sheet.laws), sheet.n))
    fits = sheet.fits or (None,) * len(sheet.laws)
    for t, (folds, fit) in enumerate(zip(sheet.folds, fits, strict=True)):
        if fit is not None:
            spreads[t] = fit.spreads(loss)
        elif folds is not None and t > 0:
            spreads[t] = spread(loss, folds, sheet.factors[t] if sheet.factors else 1.0)
    return spreads


def spread(loss: ProperLoss, folds: FloatArray, factor: float = 1.0) -> FloatArray:
    """The spread of a fitted law in every row: ``factor · Σ_k d(fold law k, mean of the fold laws)``."""
    centre = folds.mean(axis=0)
    total = np.zeros(centre.shape[0])
    for fold in folds:
        total += loss.divergence(fold, centre)
    return total if factor == 1.0 else factor * total


def divergences(loss: ProperLoss, sheet: Sheet, signs: Sequence[int]) -> FloatArray:
    """d(P_t, P_{t+1}), and ℰ(P_m); a subtracted term is minus the divergence from the finer to the coarser law."""
    laws, fits = sheet.laws, sheet.fits or (None,) * len(sheet.laws)

    def divergence(of: int, by: int) -> FloatArray:
        """d(P_of, P_by), the mean over the partitions that either was fitted in."""
        coarse, fine = fits[of], fits[by]
        if fine is not None:
            return np.asarray(fine.divergences(loss, laws[of], coarse))
        if coarse is not None:
            return np.asarray(coarse.divergences_from(loss, laws[by]))
        return loss.divergence(laws[of], laws[by])

    last = loss.entropy(laws[-1]) if fits[-1] is None else fits[-1].entropies(loss)
    pairs = enumerate(signs[: len(laws) - 1])
    return np.stack([*(divergence(t, t + 1) if sign > 0 else -divergence(t + 1, t) for t, sign in pairs), last])


def infinite_rows(losses: FloatArray, sheet: Sheet, plan: Plan, asked: Question) -> list[str]:
    """Name the rows with an infinite loss; refuse to subtract two of them."""
    infinite = np.isinf(losses)
    if sheet.weight is not None:
        infinite &= sheet.weight > 0
    counted = [bool(line.any()) for line in infinite]
    if not any(counted):
        return []
    loss = asked.loss
    for t in range(1, len(plan.levels)):
        if counted[t] and asked.form != "plugin":
            raise InfiniteLossError(
                f"level {plan.levels[t]!r} must have a finite {loss!s} loss in every row; "
                f"it is infinite in {sheet.counted(infinite[t])}, where the law gives probability 0 "
                "to what happened. " + spell(("Pass `clip`=1e-6 (or another distance from 0)", "`form`='plugin'"))
            )
    note = (
        f"the {loss!s} loss is infinite in {sheet.counted(np.logical_or.reduce(infinite))}, where probability 0 "
        "was given to what happened; intervals are undefined"
    )
    remedy = spell("Pass `clip`=1e-6 (or another distance from 0) for finite numbers.")
    warnings.warn(f"{note}. {remedy}", InfiniteLossWarning, stacklevel=outside())
    return [note]
