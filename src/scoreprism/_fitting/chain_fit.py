"""The border of `decompose`: everything the user passed, parsed into a Problem."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import (
    outside,
    parse_choice,
    parse_clip,
    parse_count,
    parse_random_state,
    plain,
    refuse,
    require_rows,
)
from scoreprism._core.frames import backend_of, column_names, require_aligned
from scoreprism._core.labels import GivenLaw, distinct, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, n_classes, unify
from scoreprism._fitting.calibration_check import CalibrationCheck
from scoreprism._fitting.candidates import (
    OVERFIT,
    Block,
    Calibrated,
    Choice,
    Given,
    Line,
    Problem,
    calibrate,
    fit_levels,
)
from scoreprism._fitting.crossfit import FittedLaw, make_partitions, no_crossfit
from scoreprism._fitting.fitted_laws import LevelFits
from scoreprism._fitting.learners import BoostLearner, ForeignMap, ShiftLearner, parse_calibrator, parse_reference
from scoreprism._fitting.resample import Resampler
from scoreprism._sample.feature_tables import joined
from scoreprism._sample.features import Encoder, Features, parse_features, score_columns
from scoreprism._sample.fit_rows import Data
from scoreprism._sample.scores import warn_of_reversed_scores
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._chain import Level
from scoreprism.decomposition._classical import with_climatology
from scoreprism.decomposition._intervals import FORMS, Alternative
from scoreprism.decomposition._rows import Plan, Sheet, assemble, fold_laws, with_floor
from scoreprism.exceptions import DoubleUseWarning, InputError, LabelError, OverfitWarning
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.references import StackedReference

#: More processes than this are a mistake; joblib fails on them in its own words.
_MOST_JOBS = 10_000


@dataclass(frozen=True)
class Request:
    """The arguments of `decompose` that say what to fit, as they came."""

    y_true: ArrayLike
    y_proba: ArrayLike | GivenLaw
    X: ArrayLike | None = None
    calibrator: object = "auto"
    reference: object = "auto"
    calibration: object = None
    q: ArrayLike | None = None
    latent: ArrayLike | None = None
    levels: Mapping[str, object] | None = None
    cv: object = 5
    sample_weight: ArrayLike | None = None
    groups: ArrayLike | None = None
    pos_label: object = None
    classes: ArrayLike | None = None
    random_state: object = 0
    n_jobs: int | None = None
    repeats: int | None = None


#: Partitions of the rows into folds that C is fitted in: for two classes, for more, and with a foreign calibrator.
PARTITIONS, PARTITIONS_OF_CLASSES, PARTITIONS_OF_FOREIGN = 20, 4, 4
#: How many of them levels above C are fitted in; one with a foreign classifier.
REPEATS = 3


#: Fewer rows than this in a calibration split, or fewer expected surprises in all, get a note.
FEW_ROWS, FEW_SURPRISES = 50, 10.0

Source = tuple[str, object]  # the name of a level, and a law (GivenLaw) or features


def parse(request: Request) -> Problem:
    """A request, parsed: outcomes and laws in one order of classes, features encoded, splits drawn."""
    require_jobs(request.n_jobs)
    by_row = {"y_true": request.y_true, "y_proba": request.y_proba, "X": request.X, "q": request.q}
    by_row |= {"latent": request.latent, "sample_weight": request.sample_weight, "groups": request.groups}
    require_aligned(by_row)
    prediction, notes, doubts = _prediction(request)
    sources = _sources(request)
    if request.reference != "auto" and all(isinstance(source, GivenLaw) for _, source in sources):
        refuse("`reference` must come with features to learn from", "no X and no levels", "Pass `X`, or leave it out.")
    given = [source for _, source in sources if isinstance(source, GivenLaw)]
    _require_alike(prediction, given)
    sheet = Sheet.of(
        request.y_true,
        [prediction, *given],
        sample_weight=request.sample_weight,
        groups=request.groups,
        pos_label=request.pos_label,
        classes=request.classes,
        backend=backend_of(request.y_proba) or backend_of(request.X),
    )
    k = n_classes(sheet.laws[0])
    score = np.ascontiguousarray(as_vector(sheet.laws[0])) if k == 2 else sheet.laws[0]
    data = Data(score, sheet.y, fitting_weights(sheet.weight), k, "probability")
    calibration = _calibration(request, sheet, k)
    _require_both(data, calibration)
    if sheet.classes is not None and np.unique(data.codes).size > 1:
        warn_of_reversed_scores(data, sheet.classes)
    rng = parse_random_state(request.random_state)
    seed = int(rng.integers(2**62))
    said, doubted = _split_notes(calibration, data)
    notes, doubts = (*notes, *said), (*doubts, *doubted)
    alone = calibration is not None and not any(not isinstance(source, GivenLaw) for _, source in sources)
    maps = parse_calibrator(request.calibrator, k)
    reference = parse_reference(request.reference)
    repeats = _repeats(request, reference)
    repeats = repeats if any(not isinstance(source, GivenLaw) for _, source in sources) else 1
    ties = partial(_columns, [source for _, source in sources if not isinstance(source, GivenLaw)], sheet.n)
    if alone:
        plan, partitions = no_crossfit(data), None
    else:
        count = PARTITIONS if k == 2 else PARTITIONS_OF_CLASSES
        if any(isinstance(one, ForeignMap) for one in maps):
            count = PARTITIONS_OF_FOREIGN
        plan, partitions = make_partitions(request.cv, data, sheet.groups, seed, max(count, repeats), ties)
    if not plan.whole:
        share = f"{int(plan.tested.sum())} of {sheet.n}"
        notes += (f"cv tests {share} rows: the terms speak of these, the others have weight 0",)
        weight = np.ones(sheet.n) if sheet.weight is None else sheet.weight
        sheet = replace(sheet, weight=np.where(plan.tested, weight, 0.0))
    return Problem(
        sheet=replace(sheet, laws=sheet.laws[:1], folds=[None]),
        data=data,
        plan=plan,
        maps=maps,
        reference=reference,
        levels=_levels(sources, sheet, score, own=isinstance(reference, StackedReference)),
        calibration=calibration,
        seed=seed,
        n_jobs=request.n_jobs,
        notes=notes,
        doubts=doubts,
        partitions=partitions,
        ties=ties,
        repeats=1 if partitions is None else min(repeats, len(partitions.home)),
    )


def in_same_folds(problems: Sequence[Problem]) -> list[Problem]:
    """
    Several scores of the same rows in the same folds, so that what is common to them cancels in differences.

    Folds are dealt to rows in an order of their own, which goes by the score; here it goes by all scores together.
    """
    first = problems[0]
    dealt = [one.partitions for one in problems if one.partitions is not None and len(one.partitions.home) > 1]
    if len(problems) == 1 or len(dealt) < len(problems):
        return list(problems)
    ordered = sorted((one.data.score for one in problems), key=lambda score: np.sort(score, axis=None).tobytes())
    joint = replace(first.data, score=np.column_stack(ordered))  # in whichever order the models were given
    count = max(len(partitions.home) for partitions in dealt)
    plan, partitions = make_partitions(dealt[0].folds, joint, first.sheet.groups, first.seed, count, first.ties)
    if partitions is None:
        return list(problems)
    pairs = zip(problems, dealt, strict=True)
    return [replace(one, plan=plan, partitions=partitions.first(len(own.home))) for one, own in pairs]


def _repeats(request: Request, reference: Any) -> int:
    """In how many partitions levels above C are fitted."""
    if request.repeats is not None:
        return parse_count(request.repeats, "repeats", 1)
    return REPEATS if isinstance(reference, StackedReference) else 1


def _columns(features: Sequence[Any], n: int) -> list[NDArray[Any]]:
    """Features of all levels, which tell rows of the same score and outcome apart."""
    return [column for source in features for column in parse_features(source, n, "X")]


def require_jobs(n_jobs: object) -> None:
    """Refuse what is no number of processes, or one that no cluster has."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and 0 != n_jobs <= _MOST_JOBS):  # type: ignore[operator]
        refuse("`n_jobs` must be a number of processes, −1 for all cores, or None", repr(n_jobs), "For example 2.")


def fitting_weights(weight: FloatArray | None) -> FloatArray | None:
    """Weights as learners should see them: scaled so that their sum is the effective number of rows."""
    if weight is None:
        return None
    scaled = weight / weight.max()
    ranked = np.sort(scaled)  # sums that round differently for rows in another order would move splits of trees
    return np.asarray(scaled * (ranked.sum() / (ranked @ ranked)))


def _prediction(request: Request) -> tuple[GivenLaw, tuple[str, ...], tuple[str, ...]]:
    """Probabilities, or those that a fitted model gives to X, with notes and doubts."""
    if isinstance(request.y_proba, GivenLaw):
        return request.y_proba, (), ()
    if not hasattr(request.y_proba, "predict_proba"):
        return GivenLaw("y_proba", parse_law(request.y_proba, "y_proba"), None, column_names(request.y_proba)), (), ()
    from scoreprism._sample.models import predicted

    law, columns, notes, doubts = predicted(
        request.y_proba, request.X, y=request.y_true, sample_weight=request.sample_weight
    )
    present = set(distinct(parse_labels(request.y_true, "y_true"), "y_true")[0].tolist())
    if columns is not None and not present <= set(columns):
        found = f"{sorted(map(str, present))} beside the classes {[str(label) for label in columns]} of the model"
        refuse("`y_true` must hold labels the model was fitted on", found, "Pass the same labels.", LabelError)
    return GivenLaw("y_proba", law, None, columns), notes, doubts


def _sources(request: Request) -> list[Source]:
    """The levels above C, coarse to fine, as they were asked for."""
    sources: list[Source] = []
    if request.levels is not None:
        sources += _named_levels(request.levels, request.X)
    if request.q is not None:
        if request.X is not None and not hasattr(request.y_proba, "predict_proba"):
            refuse("pass `X`, to have Q fitted, or `q`, where it is known", "both", "Leave one of them out.")
        sources.append(("Q", _given(request.q, "q")))
    elif request.X is not None and not _covered(request.levels, request.X):
        sources.append(("Q", request.X))
    if request.latent is not None:
        if not sources:
            rule = "`latent` must stand above a feature level"
            refuse(rule, "neither X, q nor levels", "Pass `X` or `q` as well; the law of a single level goes to `q`.")
        sources.append(("Π", _given(request.latent, "latent")))
    return sources


def _named_levels(levels: object, X: ArrayLike | None) -> list[Source]:
    remedy = "For example {'bureau': ['age', 'income'], 'all': X}."
    if not isinstance(levels, Mapping) or not levels:
        refuse("`levels` must be a mapping from names to columns, features or a Level", f"{plain(levels)}"[:80], remedy)
    sources: list[Source] = []
    for name, value in levels.items():
        if not isinstance(name, str) or not name or name in ("S", "C", "Q", "Π"):
            refuse("the name of a level must be a word other than S, C, Q and Π", plain(name), remedy)
        if isinstance(value, Level):
            law = value.given
            sources.append((name, GivenLaw(f"level {name!r}", law.values, law.folds, law.columns)))
        else:
            sources.append((name, _picked(value, X, name)))
    return sources


def _column_list(value: object) -> list[str] | None:
    """Names of columns, if that is what this is."""
    if isinstance(value, str):
        return [value]
    if type(value).__name__ == "Index" or (isinstance(value, np.ndarray) and value.dtype.kind in "UO"):
        value = list(value)  # type: ignore[call-overload]
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, str) for v in value):
        return list(value)
    return None


def _picked(value: object, X: ArrayLike | None, name: str) -> object:
    """Columns of X by name, or features as they are."""
    wanted = _column_list(value)
    known = column_names(X) if X is not None else None
    if value is None:
        refuse(f"level {name!r} must be columns, features or a Level", "None", "Leave the level out.")
    if wanted is None or known is None:
        if isinstance(value, str):
            refuse(f"level {name!r} must name columns of `X`", repr(value), "Pass `X` as a frame that has them.")
        return value  # features of its own: a list of labels, an array, a frame
    missing = [w for w in wanted if w not in known]
    if missing and len(missing) == len(wanted) and len(wanted) == _rows(X):
        return value  # a column of words, one per row
    if missing:
        refuse(f"level {name!r} must name columns of `X`", ", ".join(map(plain, missing)), "Correct the names.")
    if len(set(known)) < len(known):
        refuse("columns of `X` must have different names", "a repeated one", "Rename them, or pass the columns.")
    import narwhals as nw

    return nw.from_native(X).select(*wanted).to_native()  # type: ignore[call-overload]  # a lazy frame is refused as features are


def _rows(X: ArrayLike) -> int:
    return int(np.shape(X)[0]) if hasattr(X, "shape") else len(X)  # type: ignore[arg-type]


def _covered(levels: Mapping[str, object] | None, X: ArrayLike) -> bool:
    """Whether the levels already use every column of X."""
    known = column_names(X)
    if levels is None:
        return False
    if any(value is X for value in levels.values()):
        return True
    if known is None:
        return False
    used = {name for value in levels.values() for name in _column_list(value) or column_names(value) or ()}
    return set(known) <= used


def _given(value: ArrayLike, name: str) -> GivenLaw:
    source = getattr(value, "law", value)
    folds = getattr(value, "folds", None)
    return GivenLaw(name, parse_law(source, name), folds, column_names(source))


def _require_alike(prediction: GivenLaw, given: Sequence[GivenLaw]) -> None:
    n, k = prediction.values.shape[0], n_classes(prediction.values)
    for law in given:
        require_rows(law.values.shape[0], n, law.name, "y_proba")
        if n_classes(law.values) != k:
            found = f"{n_classes(law.values)} and {k}"
            refuse(f"{law.name} must have as many classes as `y_proba`", found, "Write both over the same outcome.")


def _require_both(data: Data, calibration: Data | None) -> None:
    """Some map must be fitted somewhere: one class alone teaches nothing."""
    if calibration is not None:
        return
    held = data.codes if data.weight is None else data.codes[data.weight > 0]
    if np.unique(held).size < 2:
        refuse(
            "`y_true` must hold at least two classes, for C = P(Y | S) to be fitted",
            f"one class in {held.size} rows",
            ("Pass more rows", "`calibration`=(scores, y) with a split that has both"),
        )


def _calibration(request: Request, sheet: Sheet, k: int) -> Data | None:
    """The rows of a separate calibration split: scores, outcomes and perhaps weights, labels read as those at hand."""
    value = request.calibration
    if value is None:
        return None
    rule = "`calibration` must be (scores, y) or (scores, y, sample_weight) of a held-out split"
    if not isinstance(value, (tuple, list)) or len(value) not in (2, 3):
        refuse(rule, f"{type(value).__name__} of length {np.size(value)}", "Pass two arrays.")  # type: ignore[arg-type]
    scores, y, *rest = value
    law = GivenLaw("calibration scores", parse_law(scores, "calibration scores"), None, column_names(scores))
    if n_classes(law.values) != k:
        refuse(rule, f"{n_classes(law.values)} classes beside {k}", "Score both splits by the same model.")
    positive = request.pos_label
    if law.values.ndim == 1 and positive is None and sheet.classes is not None:
        positive = sheet.classes[1]
    columns = request.classes
    if columns is None and sheet.classes is not None and law.values.ndim == 2 and k > 2:
        columns = sheet.classes  # a class may be missing from the split
    try:
        held = Sheet.of(y, [law], sample_weight=rest[0] if rest else None, pos_label=positive, classes=columns)
    except InputError as error:
        raise InputError(f"calibration=(scores, y): {error}") from None
    if sheet.classes is not None and held.classes is not None and list(held.classes) != list(sheet.classes):
        found = f"{list(held.classes)} beside {list(sheet.classes)}"
        refuse(
            "`calibration` must speak of the labels of `y_true`",
            found,
            "Pass `classes`=[…] in column order.",
            LabelError,
        )
    score = np.ascontiguousarray(as_vector(held.laws[0])) if k == 2 else held.laws[0]
    data = Data(score, held.y, fitting_weights(held.weight), k, "probability")
    data = data.part(np.flatnonzero(held.weight)) if held.weight is not None else data
    if np.unique(data.codes).size < 2:
        refuse(
            "`calibration` must hold at least two classes",
            f"one class in {data.codes.size} rows",
            "Use a larger split.",
        )
    return data


def _split_notes(calibration: Data | None, data: Data) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Notes and doubts on a calibration split that is these very rows, or hardly there."""
    if calibration is None:
        return (), ()
    if np.array_equal(calibration.score, data.score) and np.array_equal(calibration.codes, data.codes):
        note = "calibration= holds these very rows: C was fitted on the outcomes that judge it"
        warnings.warn(note, DoubleUseWarning, stacklevel=outside())
        return (note,), (note,)
    rows = calibration.codes.size
    return () if rows >= FEW_ROWS else (f"C is fitted on only {rows} rows of a calibration split",), ()


def _levels(sources: Sequence[Source], sheet: Sheet, score: FloatArray, *, own: bool) -> list[Given | Block]:
    """Laws as they are, features as blocks that contain all coarser ones and the score."""
    laws = iter(zip(sheet.laws[1:], sheet.folds[1:], strict=True))
    levels: list[Given | Block] = []
    blocks: list[ArrayLike] = []
    parsed: list[list[NDArray[Any]]] = []
    features: Features | None = None
    held = slice(None) if sheet.weight is None else sheet.weight > 0  # rows without weight are not there
    for name, source in sources:
        if isinstance(source, GivenLaw):
            law, folds = next(laws)
            levels.append(Given(name, law, folds))
            continue
        columns = parse_features(source, sheet.n, "X" if name == "Q" else f"level {name!r}")
        blocks.append(source)
        new = [c for c in columns if not any(_same(c, seen) for block in parsed for seen in block)]
        parsed.append(columns)
        if own:
            first = score_columns(score) if features is None else []
            table = [*first, *new]
            if table:
                encoded = Encoder.fitted([column[held] for column in table])(table)
                features = encoded if features is None else features.beside(encoded)
        levels.append(Block(name, features if features is not None else joined(blocks, parsed, score)))
    return levels


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


Losses = dict[str, ProperLoss]


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
        refuse("`loss` must name at least one loss, each once", f"{[str(v) for v in losses]}", "For example 'log'.")
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
