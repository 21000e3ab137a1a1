"""decompose(): from scores, outcomes and features to an estimated decomposition."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np

from scoreprism._core.simplex import ArrayLike, unify
from scoreprism._validation import outside, parse_choice, parse_clip, refuse
from scoreprism.crossfit import FittedLaw
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._classical import with_climatology
from scoreprism.decomposition._rows import Plan, Sheet, assemble, fold_laws, with_floor
from scoreprism.estimation._chain import OVERFIT, Block, Calibrated, Choice, Line, Problem, calibrate, fit_levels
from scoreprism.estimation._check import CalibrationCheck
from scoreprism.estimation._fits import LevelFits
from scoreprism.estimation._learners import BoostLearner, ShiftLearner
from scoreprism.estimation._parse import FEW_SURPRISES, Request, parse
from scoreprism.estimation._resample import Resampler
from scoreprism.exceptions import OverfitWarning
from scoreprism.intervals import FORMS, Alternative
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.references import StackedReference

Losses = dict[str, ProperLoss]


@overload
def decompose(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike | None = ...,
    *,
    loss: str | ProperLoss = ...,
    calibrator: object = ...,
    reference: object = ...,
    calibration: object = ...,
    q: ArrayLike | None = ...,
    latent: ArrayLike | None = ...,
    levels: Mapping[str, object] | None = ...,
    cv: object = ...,
    form: str = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    pos_label: object = ...,
    classes: ArrayLike | None = ...,
    clip: float | None = ...,
    random_state: object = ...,
    n_jobs: int | None = ...,
    repeats: int | None = ...,
) -> Decomposition: ...
@overload
def decompose(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike | None = ...,
    *,
    loss: list[str | ProperLoss] | list[str] | tuple[str | ProperLoss, ...],
    calibrator: object = ...,
    reference: object = ...,
    calibration: object = ...,
    q: ArrayLike | None = ...,
    latent: ArrayLike | None = ...,
    levels: Mapping[str, object] | None = ...,
    cv: object = ...,
    form: str = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    pos_label: object = ...,
    classes: ArrayLike | None = ...,
    clip: float | None = ...,
    random_state: object = ...,
    n_jobs: int | None = ...,
    repeats: int | None = ...,
) -> dict[str, Decomposition]: ...


def decompose(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss | Sequence[str | ProperLoss] = "log",
    calibrator: object = "auto",
    reference: object = "auto",
    calibration: object = None,
    q: ArrayLike | None = None,
    latent: ArrayLike | None = None,
    levels: Mapping[str, object] | None = None,
    cv: object = 5,
    form: str = "debiased",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
    repeats: int | None = None,
) -> Decomposition | dict[str, Decomposition]:
    """
    Split the loss of predicted probabilities into what recalibration, a better model, or only better data can fix.

    Without features: **reliability** (miscalibration) and **refinement** (what is left after recalibration), and in
    ``result.resolution_form`` uncertainty − resolution + reliability. With features, refinement is split into
    **grouping** (information lost from the features to the score) and **irreducible** loss. The laws C = P(Y | S) and
    Q = P(Y | S, X) are fitted out of sample; terms are debiased for their noise and add up to the observed loss.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: any two (or K) sortable labels.
    y_proba : array-like of shape (n,) or (n, K), or fitted classifier
        Predicted probabilities S of rows the model was not trained on; or the model itself, applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features: numbers, categories, times; missing values are fine.
    loss : str, ProperLoss or sequence of these, default="log"
        The loss. Several losses share the fitted laws and give a mapping from loss to decomposition.
    calibrator : str, Calibrator or classifier, default="auto"
        How C is fitted. "auto" mixes Platt's map, a natural spline, an isotonic map, a kernel map and a tree of local
        shifts by their likelihood out of fold; for more than two classes temperature, vector and matrix scaling, a
        polynomial map, and local shifts of their mixture. "flexible" adds to the latter boosting on ratios of the
        probabilities, at about three times the time.
    reference : str, StackedReference or classifier, default="auto"
        How Q is fitted: the default stack, one of its members, or any classifier with ``fit`` and ``predict_proba``
        (it gets the features and the score as its last columns).
    calibration : (scores, y) or (scores, y, sample_weight), optional
        A held-out split to fit C on, instead of cross-fitting.
    q : array-like of shape (n,) or (n, K), optional
        The law P(Y | X), where it is known, or reference predictions. They must be out of sample.
    latent : array-like of shape (n,) or (n, K), optional
        The law Π = P(Y | Z) of a latent state: four terms.
    levels : mapping of str to columns, features or Level, optional
        Further information levels between C and Q, coarse to fine: names of columns of `X`, features of their own
        (a group variable), or a `Level` with a given law. Each fitted level knows the score and all coarser blocks.
    cv : int, splitter or iterable, default=5
        Number of random folds (not stratified, groups together), or splits of your own, temporal ones for instance.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How rows are filled; see `Chain.decompose`.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent: kept in one fold; standard errors are cluster-robust.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep all laws at least this far from 0; nothing is clipped unless asked for. A loss that is infinite is
        reported so, and its ``floored`` holds the terms with ``clip=1/(2n)``.
    random_state : int, Generator or None, default=0
        Seed of the folds. With the default the result depends on the rows alone, not on their order.
    n_jobs : int, optional
        Processes that fit the reference; the result does not depend on it.
    repeats : int, optional
        In how many random partitions of the rows into folds the levels above C are fitted: 3 unless said otherwise, 1
        for a classifier of another maker. (C itself is fitted in 20 partitions, in 4 for more than two classes.)

    Returns
    -------
    Decomposition, or dict of str to Decomposition
        Terms, intervals, bounds, advice. A mapping if `loss` is a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> bold = 1 / (1 + (1 / p - 1) ** 2)                             # twice the log-odds: overconfident
    >>> d = scoreprism.decompose(y, bold, loss="brier", random_state=0)
    >>> d.names
    ('reliability', 'refinement')
    >>> interval = d.interval("reliability")
    >>> bool(interval.low > 0)
    True
    """
    several = isinstance(loss, Sequence) and not isinstance(loss, str)
    request = Request(
        y_true, y_proba, X, calibrator, reference, calibration, q, latent, levels, cv,
        sample_weight, groups, pos_label, classes, random_state, n_jobs, repeats,
    )  # fmt: skip
    results = prepare(request, loss if several else [loss], form, clip).decomposed()  # type: ignore[arg-type, list-item]
    return results if several else next(iter(results.values()))


class Prepared(NamedTuple):
    """What `decompose` is asked for, parsed; nothing is fitted yet."""

    problem: Problem
    losses: Losses
    form: str
    clip: float | None

    def decomposed(self, floors: Mapping[str, float] | None = None) -> dict[str, Decomposition]:
        """Each loss; at `floors` too, which are those of infinite losses unless given."""
        laws = fit_laws(self.problem, self.losses, self.clip, floors)
        return laws.decomposed(self.losses, self.form, self.clip)


def prepare(request: Request, loss: Sequence[str | ProperLoss], form: str, clip: float | None) -> Prepared:
    """Parse everything that `decompose` takes."""
    losses = parse_losses(loss)
    parse_choice(form, FORMS, "form")
    problem = parse(request)
    parse_clip(clip, problem.data.k)
    return Prepared(problem, losses, form, clip)


def prepare_named(y_true: ArrayLike, y_proba: Any, X: Any, options: Mapping[str, Any]) -> Prepared:
    """The same from keyword arguments of `decompose`, of one loss."""
    given = dict(options)
    loss, form, clip = given.pop("loss", "log"), given.pop("form", "debiased"), given.pop("clip", None)
    unknown = [name for name in given if name not in {field.name for field in fields(Request)}]
    if unknown:
        raise TypeError(f"decompose() got an unexpected keyword argument {unknown[0]!r}")
    return prepare(Request(y_true, y_proba, X, **given), [loss], form, clip)


def parse_losses(losses: Sequence[str | ProperLoss]) -> Losses:
    """Losses by name, each once."""
    chosen = [get_loss(loss) for loss in losses]
    named = {str(loss): loss for loss in chosen}
    if not chosen or len(named) < len(chosen):
        refuse("loss must name at least one loss, each once", f"{[str(v) for v in losses]}", "For example 'log'.")
    return named


class Laws(NamedTuple):
    """What was fitted: the problem, the law C, and the levels above."""

    problem: Problem
    choice: Choice
    lines: Sequence[Line]

    def decomposed(self, losses: Losses, form: str, clip: float | None) -> dict[str, Decomposition]:
        """Each loss, decomposed by these laws."""
        return decomposed_by(self.problem, self.choice, self.lines, losses, form, clip)

    def chain(self) -> tuple[Sheet, Plan]:
        """The laws with their fold models, and names."""
        notes = (*self.problem.notes, *_notes(self.problem, self.choice))
        return chain_of(self.problem, self.choice.winner, self.lines, notes)


def fit_laws(
    problem: Problem, losses: Losses, clip: float | None = None, floors: Mapping[str, float] | None = None
) -> Laws:
    """Fit the laws once, for every loss: they do not depend on it."""
    choice = calibrate(problem, losses, clip, floors)
    return Laws(problem, choice, fit_levels(problem, choice.winner))


def decomposed_by(
    problem: Problem, choice: Choice, lines: Sequence[Line], losses: Losses, form: str, clip: float | None
) -> dict[str, Decomposition]:
    """Decompose each loss by laws that are fitted."""
    notes = (*problem.notes, *_notes(problem, choice), *_surprises(problem, choice))
    lasting = problem.calibration is not None or problem.sheet.summed  # nothing that resampled rows would change
    calibrated = None if problem.sheet.groups is not None else CalibrationCheck(problem.sheet)

    def at(name: str, distance: float | None, alternatives: tuple[Alternative, ...]) -> Decomposition:
        loss = losses[name]
        found = _guarded(decomposed(problem, choice.winner, lines, loss, form, distance, notes), problem)
        return replace(
            found,
            notes=(*found.notes, *_few(found)),
            _calibration=calibrated,
            _alternatives=alternatives,
            _resolution=partial(_resolution, problem, choice.winner, loss, form, distance),
            _resampler=None if lasting else Resampler(problem, choice.shares, loss, form, distance),
        )

    results = {}
    for name in losses:
        again = partial(at, name, alternatives=choice.floored.get(name, ()))
        found = at(name, clip, choice.alternatives[name])
        results[name] = with_floor(found, problem.sheet, again, choice.floors.get(name))
    return results


def decomposed(
    problem: Problem,
    winner: Calibrated,
    lines: Sequence[Line],
    loss: ProperLoss,
    form: str,
    clip: float | None,
    notes: tuple[str, ...] = (),
) -> Decomposition:
    """The chain S, C and the levels above, decomposed."""
    return assemble(*chain_of(problem, winner, lines, notes), loss, form, clip)


def chain_of(problem: Problem, winner: Calibrated, lines: Sequence[Line], notes: tuple[str, ...]) -> tuple[Sheet, Plan]:
    """The laws S, C and those above, and the names of what lies between them."""
    chain: list[Line] = [("C", winner.fitted.law, winner.fitted), *lines]
    levels = ("S", *(line[0] for line in chain))
    roles = ("reliability", *(["information"] * (len(levels) - 2)), "remaining")
    return fitted_sheet(problem, winner, chain), Plan(levels, chain_terms(levels), roles, (), notes)


def fitted_chain(
    y_true: ArrayLike, y_proba: ArrayLike, X: ArrayLike | None, options: Mapping[str, Any]
) -> tuple[Sheet, Plan]:
    """The laws that `decompose` would use for every loss: they do not depend on it."""
    known = [field.name for field in fields(Request)][3:]
    named = {parse_choice(key, known, "each option"): value for key, value in options.items()}
    return fit_laws(parse(Request(y_true, y_proba, X, **named)), {}).chain()


def fitted_sheet(problem: Problem, winner: Calibrated, chain: Sequence[Line]) -> Sheet:
    """The prediction and the fitted laws, in one layout."""
    sheet = problem.sheet
    laws = unify([sheet.laws[0], *(law for _, law, _ in chain)])
    return replace(
        sheet,
        laws=laws,
        fits=(None, winner.fits, *(fits_above(problem, winner, fit) for _, _, fit in chain[1:])),
        folds=[None, *(None if fit is None else fold_laws(fit.folds, None, laws[0].ndim) for _, _, fit in chain)],
        factors=(1.0, *(1.0 if fitted is None else fitted.factor for _, _, fitted in chain)),
    )


def fits_above(problem: Problem, winner: Calibrated, fit: FittedLaw | None) -> LevelFits | None:
    """How a level above C was fitted; None for a law that was given."""
    if fit is None or winner.fits is None or problem.pooling is not None:
        return None
    parts = [fit, *fit.again]
    if problem.partitions is None or problem.calibration is not None:
        below = [winner.fitted.law] * len(parts)
    else:
        plans = [problem.partitions.plan(p) for p in range(len(parts))]
        below = [plan.gather(models).law for plan, models in zip(plans, winner.below, strict=False)]
    return LevelFits(winner.fits, below[: len(parts)], parts)


def chain_terms(levels: Sequence[str]) -> tuple[str, ...]:
    """Names of the terms of an estimated chain."""
    if len(levels) == 2:
        return ("reliability", "refinement")
    last = "noise" if levels[-1] == "Π" else "irreducible"
    if list(levels[2:]) == ["Q"]:
        return ("reliability", "grouping", last)
    if list(levels[2:]) == ["Q", "Π"]:
        return ("reliability", "grouping", "heterogeneity", last)
    return ("reliability", *(f"{a} → {b}" for a, b in pairwise(levels[1:])), last)


def _notes(problem: Problem, choice: Choice) -> list[str]:
    """Where the laws came from."""
    where = "fitted on the calibration split" if problem.calibration is not None else _folded(problem, of_score=True)
    if len(problem.maps) == 1:
        notes = [f"C = P(Y | S) is {problem.maps[0].name}, {where}"]
    else:
        notes = [f"C = P(Y | S) mixes {choice.described} by their likelihood out of sample, {where}"]
    if problem.calibration is not None or problem.partitions is None:
        absent = [one.name for one in problem.maps if isinstance(one, (ShiftLearner, BoostLearner))]
        rule = "are left out: they are fitted only in random folds of the rows"
        notes += [f"{' and '.join(absent)} {rule}"] if absent else []
    blocks = [level for level in problem.levels if isinstance(level, Block)]
    for own in dict.fromkeys(level.reference for level in blocks):  # None, and stacks of some levels
        fitted = [level.name for level in blocks if level.reference is own]
        reference = own or problem.reference
        stack = isinstance(reference, StackedReference)
        by = f"a stack of {', '.join(reference._names())}" if stack else type(reference).__name__
        what = "Q = P(Y | S, X)" if fitted == ["Q"] and len(blocks) == 1 else ", ".join(fitted)
        notes.append(f"{what} fitted by {by}, {_folded(problem)}")
    given = [level.name for level in problem.levels if not isinstance(level, Block)]
    if given:
        notes.append(f"{', '.join(given)} given: laws that were fitted on these rows would make the terms too good")
    return notes


def _surprises(problem: Problem, choice: Choice) -> list[str]:
    """Outcomes that are nearly certain leave few surprises, and normal intervals nothing to go by."""
    law = choice.winner.fitted.law
    expected = problem.sheet.total(np.minimum(law, 1.0 - law) if law.ndim == 1 else 1.0 - law.max(axis=1))
    if expected >= FEW_SURPRISES:
        return []
    what = "outcomes are expected to be other than what C calls likeliest"
    return [f"only about {expected:.1f} {what}: intervals and bounds are too optimistic"]


def _folded(problem: Problem, *, of_score: bool = False) -> str:
    plan, partitions = problem.plan, problem.partitions
    if plan.factor != 1.0:
        return "fitted on the splits of cv"
    count = 1 if partitions is None else len(partitions.home) if of_score else problem.repeats
    times = f", {count} times" if count > 1 else ""
    return f"cross-fitted in {len(plan.trains)} folds{times}"


#: An estimate of what a level adds is muted where the spread of the level is more than this share of it.
_MOSTLY_NOISE = 0.25


def _guarded(result: Decomposition, problem: Problem) -> Decomposition:
    """
    Say which laws have learned noise, or predict worse than the level before.

    Advice does not build on a law C that overfits, nor on a level that is worse than the one below. Where a level above
    C is noisy, its bounds hold, which allow for that; only the estimate is muted.
    """
    own = isinstance(problem.reference, StackedReference)
    doubts = [(0, note) for note in problem.doubts]
    fitted = [1, *(2 + i for i, level in enumerate(problem.levels) if isinstance(level, Block))]
    muted: list[str] = []
    notes: list[str] = []
    for t in fitted:
        name = result.level_names[t]
        spread = result._moments.value({result._levels + t: 1.0})
        loss = result._moments.value(dict.fromkeys(range(t, result._levels), 1.0))  # the steps from here on
        overfits = spread > OVERFIT * loss > 0.0
        if overfits:
            remedy = "pass more rows" if own or t == 1 else "use a smaller model for reference=, or the default"
            note = (
                f"the law {name} overfits: its spread over the folds is {100 * spread / loss:.1f} % of its loss "
                f"(up to {100 * OVERFIT:.0f} % is normal). "
            )
            note += (
                "Terms that involve it are unreliable" if t == 1 else "Its bounds hold, its estimates are unreliable"
            )
            note = f"{note}; {remedy}."
            warnings.warn(note, OverfitWarning, stacklevel=outside())
            notes.append(note)
            if t == 1:
                doubts.append((t, note))
        if t > 1:
            term = result.names[t - 1]
            if spread > _MOSTLY_NOISE * result.terms[term]:
                muted += [one for one in result.names[t - 1 : t + 1] if one not in muted]
                if not overfits:
                    notes.append(f"how large {term} is cannot be told from so few rows, only what it is at least")
            if result._inference(term).reach(0.95) < 0.0:
                note = f"level {name} predicts worse than {result.level_names[t - 1]}, beyond chance"
                doubts.append((t, note if own else f"{note}: did a pipeline drop the score, its last column?"))
    new = [note for note in (*notes, *(note for _, note in doubts)) if note not in result.notes]
    return replace(result, notes=(*result.notes, *dict.fromkeys(new)), _doubts=tuple(doubts), muted=tuple(muted))


#: Fewer rows than this carry the variance: intervals and bounds deserve a warning.
_FEW_EFFECTIVE = 10.0


def _few(result: Decomposition) -> tuple[str, ...]:
    """A note where few rows carry the variance of the reliability."""
    ends = result._ends
    if ends is None or not 0.0 < ends.effective_rows < _FEW_EFFECTIVE:
        return ()
    rows = max(ends.effective_rows, 1.0)
    return (f"few rows carry the variance (about {rows:.2g}): intervals and bounds are less sure than said",)


def _resolution(problem: Problem, winner: Calibrated, loss: ProperLoss, form: str, clip: float | None) -> Decomposition:
    """Uncertainty − resolution + reliability by the same law C."""
    names = ("reliability", "resolution", "uncertainty")
    plan = Plan(("S", "C", "Q̄"), names, names, (1, -1, 1))
    chain = fitted_sheet(problem, winner, [("C", winner.fitted.law, winner.fitted)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever there is to say was said of the chain itself
        return assemble(with_climatology(chain), plan, loss, form, clip)
