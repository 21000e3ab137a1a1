"""The border of `decompose`: everything the user passed, parsed into a Problem."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.frames import backend_of, column_names, require_aligned
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, n_classes
from scoreprism._validation import (
    GivenLaw,
    distinct,
    outside,
    parse_count,
    parse_labels,
    parse_law,
    parse_random_state,
    plain,
    refuse,
    require_rows,
)
from scoreprism.calibrators._checks import warn_of_reversed_scores
from scoreprism.calibrators._data import Data
from scoreprism.crossfit import make_partitions, no_crossfit
from scoreprism.decomposition._rows import Sheet
from scoreprism.estimation._chain import Block, Given, Problem
from scoreprism.estimation._learners import ForeignMap, parse_calibrator, parse_reference
from scoreprism.estimation._tables import joined
from scoreprism.exceptions import DoubleUseWarning, InputError, LabelError
from scoreprism.levels import Level
from scoreprism.references import StackedReference
from scoreprism.references._features import Encoder, Features, parse_features, score_columns

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
        refuse("reference must come with features to learn from", "no X and no levels", "Pass X, or leave it out.")
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
        refuse("n_jobs must be a number of processes, −1 for all cores, or None", repr(n_jobs), "For example 2.")


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
    from scoreprism.estimation._models import predicted

    law, columns, notes, doubts = predicted(
        request.y_proba, request.X, y=request.y_true, sample_weight=request.sample_weight
    )
    present = set(distinct(parse_labels(request.y_true, "y_true"), "y_true")[0].tolist())
    if columns is not None and not present <= set(columns):
        found = f"{sorted(map(str, present))} beside the classes {[str(label) for label in columns]} of the model"
        refuse("y_true must hold labels the model was fitted on", found, "Pass the same labels.", LabelError)
    return GivenLaw("y_proba", law, None, columns), notes, doubts


def _sources(request: Request) -> list[Source]:
    """The levels above C, coarse to fine, as they were asked for."""
    sources: list[Source] = []
    if request.levels is not None:
        sources += _named_levels(request.levels, request.X)
    if request.q is not None:
        if request.X is not None and not hasattr(request.y_proba, "predict_proba"):
            refuse("pass X, to have Q fitted, or q, where it is known", "both", "Leave one of them out.")
        sources.append(("Q", _given(request.q, "q")))
    elif request.X is not None and not _covered(request.levels, request.X):
        sources.append(("Q", request.X))
    if request.latent is not None:
        if not sources:
            rule = "latent must stand above a feature level"
            refuse(rule, "neither X, q nor levels", "Pass X or q as well; the law of a single level goes to q.")
        sources.append(("Π", _given(request.latent, "latent")))
    return sources


def _named_levels(levels: object, X: ArrayLike | None) -> list[Source]:
    remedy = "For example {'bureau': ['age', 'income'], 'all': X}."
    if not isinstance(levels, Mapping) or not levels:
        refuse("levels must be a mapping from names to columns, features or a Level", f"{plain(levels)}"[:80], remedy)
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
            refuse(f"level {name!r} must name columns of X", repr(value), "Pass X as a frame that has them.")
        return value  # features of its own: a list of labels, an array, a frame
    missing = [w for w in wanted if w not in known]
    if missing and len(missing) == len(wanted) and len(wanted) == _rows(X):
        return value  # a column of words, one per row
    if missing:
        refuse(f"level {name!r} must name columns of X", ", ".join(map(plain, missing)), "Correct the names.")
    if len(set(known)) < len(known):
        refuse("columns of X must have different names", "a repeated one", "Rename them, or pass the columns.")
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
            refuse(f"{law.name} must have as many classes as y_proba", found, "Write both over the same outcome.")


def _require_both(data: Data, calibration: Data | None) -> None:
    """Some map must be fitted somewhere: one class alone teaches nothing."""
    if calibration is not None:
        return
    held = data.codes if data.weight is None else data.codes[data.weight > 0]
    if np.unique(held).size < 2:
        refuse(
            "y_true must hold at least two classes, for C = P(Y | S) to be fitted",
            f"one class in {held.size} rows",
            "Pass more rows, or calibration=(scores, y) with a split that has both.",
        )


def _calibration(request: Request, sheet: Sheet, k: int) -> Data | None:
    """The rows of a separate calibration split: scores, outcomes and perhaps weights, labels read as those at hand."""
    value = request.calibration
    if value is None:
        return None
    rule = "calibration must be (scores, y) or (scores, y, sample_weight) of a held-out split"
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
        refuse("calibration must speak of the labels of y_true", found, "Pass classes=[…] in column order.", LabelError)
    score = np.ascontiguousarray(as_vector(held.laws[0])) if k == 2 else held.laws[0]
    data = Data(score, held.y, fitting_weights(held.weight), k, "probability")
    data = data.part(np.flatnonzero(held.weight)) if held.weight is not None else data
    if np.unique(data.codes).size < 2:
        refuse(
            "calibration must hold at least two classes", f"one class in {data.codes.size} rows", "Use a larger split."
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
