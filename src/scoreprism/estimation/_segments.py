"""decompose_by(): every segment decomposed by laws of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_law, parse_weights
from scoreprism._core.checks import listed, parse_choice, parse_confidence, plain, refuse, require_rows
from scoreprism._core.frames import backend_of, column_names, require_aligned, take_rows
from scoreprism._core.labels import GivenLaw, parse_groups, parse_labels, parse_outcomes
from scoreprism._core.simplex import ArrayLike, IntArray, n_classes
from scoreprism._document.tables import Drawable, TermTable
from scoreprism._fitting.candidates import find_floors
from scoreprism._fitting.chain_fit import Prepared, prepare_named
from scoreprism._sample.features import parse_features
from scoreprism._spelling import mark
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._intervals import tail
from scoreprism.decomposition._rows import FEW, floor_of
from scoreprism.exceptions import InputError, ScoreprismError
from scoreprism.losses import ProperLoss

#: Arguments of `decompose` that hold one entry per row.
_BY_ROW = ("X", "q", "latent", "sample_weight", "groups")


@dataclass(frozen=True, eq=False, repr=False)
class SegmentDecompositions(Drawable, TermTable):
    """
    One decomposition per segment, each with laws fitted inside it; tests are adjusted for how many there are.

    Made by `decompose_by`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    decompositions : dict
        Segment → Decomposition. As soon as the loss of one is infinite, all have a ``floored``, at the same floor:
        1/(2n), n the rows of all segments.
    skipped : dict
        Segment → why it could not be decomposed.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> p, region = rng.random(1000), np.repeat(["north", "south"], 500)
    >>> y = (rng.random(1000) < np.where(region == "north", p, p**3)).astype(int)
    >>> found = scoreprism.decompose_by(region, y, p, loss="brier", random_state=0)
    >>> {name: bool(value < 0.01) for name, value in found.pvalues("reliability").items()}
    {'north': False, 'south': True}
    """

    decompositions: dict[Any, Decomposition]
    skipped: dict[Any, str] = field(default_factory=dict)

    @property
    def terms(self) -> dict[str, float]:
        """Means of the terms over the segments that were decomposed, weighted by their weight."""
        mass = [d._mass for d in self.decompositions.values()]
        lines = [list(d.terms.values()) for d in self.decompositions.values()]
        return dict(zip(self.names, np.average(lines, axis=0, weights=mass).tolist(), strict=True))

    def __getitem__(self, segment: object) -> Decomposition:
        if segment not in self.decompositions:
            known = listed(map(plain, self.decompositions))
            refuse(f"the segment must be one of {known}", plain(segment), "Or it was left out: see skipped.")
        return self.decompositions[segment]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.decompositions)

    def __len__(self) -> int:
        return len(self.decompositions)

    def pvalues(self, term: str = "reliability") -> dict[Any, float]:
        """
        Evidence that a term is above zero in each segment, adjusted by Holm's method over the segments.

        Parameters
        ----------
        term : str, default="reliability"
            A reliability, or a gain of information such as ``"grouping"``.

        Returns
        -------
        dict
            Segment → adjusted p-value, from the statistic of the term's lower bound.
        """
        first = next(iter(self.decompositions.values()))
        name = parse_choice(term, self.names[: first._levels - 1], "term")
        raw = {segment: evidence(d, name) for segment, d in self.decompositions.items()}
        return dict(zip(raw, holm(list(raw.values())), strict=True))

    def lower_bounds(self, term: str = "reliability", level: float = 0.95) -> dict[Any, float]:
        """
        Lower bounds of a term that hold for all segments at once (Bonferroni).

        Parameters
        ----------
        term : str, default="reliability"
            A reliability or a gain of information.
        level : float, default=0.95
            Joint confidence level.

        Returns
        -------
        dict
            Segment → bound.
        """
        each = 1.0 - (1.0 - parse_confidence(level)) / max(len(self.decompositions), 1)
        return {segment: d.lower_bound(term, each).value for segment, d in self.decompositions.items()}

    @property
    def floored(self) -> SegmentDecompositions | None:
        """The same segments at a floor, where the loss of one is infinite; else None."""
        twins = {segment: d.floored for segment, d in self.decompositions.items()}
        found = {segment: d for segment, d in twins.items() if d is not None}
        full = len(found) == len(twins)
        return SegmentDecompositions(self.names, self._backend, found, self.skipped) if full else None

    def _twin(self) -> TermTable | None:
        return self.floored

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Segment → summary; and what was skipped.
        """
        found = {str(segment): d.to_dict() for segment, d in self.decompositions.items()}
        return {"segments": found, "skipped": {str(segment): why for segment, why in self.skipped.items()}}

    def _columns(self) -> dict[str, list[Any]]:
        found = self.decompositions
        columns: dict[str, list[Any]] = {
            "segment": list(found),
            "rows": [d.n for d in found.values()],
            "loss": [d.risk for d in found.values()],
        }
        for name in self.names:
            columns[name] = [d.terms[name] for d in found.values()]
        first = [d._shown_interval(self.names[0]) for d in found.values()]
        columns["low"], columns["high"] = [i.low for i in first], [i.high for i in first]
        columns["p_holm"] = list(self.pvalues(self.names[0]).values())
        return columns

    def _title(self) -> str:
        first = next(iter(self.decompositions.values()))
        mark = f", {first._mark}" if first._mark else ""
        return (
            f"{first.loss!s} loss by segment, laws fitted inside each{mark} "
            f"(low, high and Holm's p are those of {self.names[0]})"
        )

    def _footer(self) -> list[str]:
        few = [f"{segment} ({d.n_units})" for segment, d in self.decompositions.items() if d.n_units < FEW]
        short = f"fewer than {FEW} independent rows or clusters, so intervals are too short: {', '.join(few)}"
        return [
            *([short] if few else []),
            *(f"segment {segment} was left out: {why}" for segment, why in self.skipped.items()),
        ]


def evidence(d: Decomposition, name: str) -> float:
    """One-sided p-value of the statistic behind the lower bound."""
    shift, error = d._inference(name).lower_statistic()
    if not math.isfinite(shift) or not math.isfinite(error):
        return math.nan
    if error == 0.0:
        return 0.0 if shift > 0.0 else 1.0
    return tail(shift / error)


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment."""
    p = np.asarray(pvalues, dtype=np.float64)
    adjusted = np.full(p.size, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def decompose_by(
    segments: ArrayLike,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    **options: Any,
) -> SegmentDecompositions:
    """
    Decompose the loss in each segment by laws fitted inside it.

    The rows of a segment averaged, `Decomposition.contributions`, are its share of the overall terms, not its own
    decomposition: a segment can contribute a negative reliability. Here every segment has its own.

    Parameters
    ----------
    segments : array-like of shape (n,)
        The segment of each row.
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    X : array-like or frame of shape (n, p), optional
        Features.
    loss : str or ProperLoss, default="log"
        The loss.
    **options : object
        Further arguments of `decompose`; those with one entry per row are cut to the segment.

    Returns
    -------
    SegmentDecompositions
        One decomposition per segment; segments that cannot be decomposed are named with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism import decompose_by
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(600)
    >>> y = (rng.random(600) < p).astype(int)
    >>> list(decompose_by(np.repeat(["a", "b"], 300), y, p, random_state=0).decompositions)
    ['a', 'b']
    """
    return decompose_parts(segments, y_true, y_proba, X, {**options, "loss": loss})


def decompose_parts(
    segments: ArrayLike,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike | None,
    options: Mapping[str, Any],
    floors: Mapping[str, float] | None = None,
) -> SegmentDecompositions:
    """What `decompose_by` does."""
    labels, codes = _parse_segments(segments, y_true, {"y_proba": y_proba, "X": X, **options})
    asked, skipped = _prepared(labels, codes, y_true, y_proba, X, _with_labels(options, y_true, y_proba))
    if floors is None:
        floors = _floors(list(asked.values()))
    found: dict[Any, Decomposition] = {}
    for label, one in asked.items():
        try:
            found[label] = next(iter(one.decomposed(floors).values()))
        except ScoreprismError as error:
            skipped[label] = str(error)
    skipped = {label: skipped[label] for label in labels.tolist() if label in skipped}
    if not found:
        raise InputError(
            f"no segment could be decomposed; the first, {next(iter(skipped))!r}: {next(iter(skipped.values()))}"
        )
    names = next(iter(found.values())).names
    return SegmentDecompositions(names, backend_of(y_true) or backend_of(y_proba), found, skipped)


def _floors(parts: Sequence[Prepared]) -> dict[str, float]:
    """The floor of all rows, by a loss that is infinite in some of the parts."""
    if not parts:
        return {}
    sheets = [part.problem.sheet for part in parts]
    floor = min(0.5 / sum(sheet.held for sheet in sheets), *(floor_of(sheet) for sheet in sheets))
    return dict.fromkeys(find_floors(sheets, parts[0].losses, parts[0].clip), floor)


def _prepared(
    labels: NDArray[Any],
    codes: IntArray,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike | None,
    options: Mapping[str, Any],
) -> tuple[dict[Any, Prepared], dict[Any, str]]:
    """Segments, ready to be fitted; and why some cannot be."""
    asked: dict[Any, Prepared] = {}
    skipped: dict[Any, str] = {}
    for code, label in enumerate(labels.tolist()):
        rows = np.flatnonzero(codes == code)
        by_row = {key: take_rows(options[key], rows) for key in _BY_ROW if options.get(key) is not None}
        features = None if X is None else take_rows(X, rows)
        try:
            asked[label] = prepare_named(
                take_rows(y_true, rows), take_rows(y_proba, rows), features, {**options, **by_row}
            )
        except ScoreprismError as error:
            skipped[label] = str(error)
    return asked, skipped


def _parse_segments(
    segments: ArrayLike, y_true: ArrayLike, arguments: Mapping[str, Any]
) -> tuple[NDArray[Any], IntArray]:
    """Labels of the segments and the segment of each row; everything that cannot be cut to a segment is refused."""
    n = parse_labels(y_true, "y_true").shape[0]
    parsed = parse_groups(segments, n, "segments")
    if parsed is None:
        refuse("`segments` must give the segment of each row", "None", "Pass one label per row.")
    if arguments.get("levels") is not None or hasattr(arguments["y_proba"], "predict_proba"):
        refuse("decompose_by takes scores and `X`", "levels or a model", "Decompose the segments one by one for these.")
    if arguments.get("calibration") is not None:
        remedy = "Decompose the segments one by one, each with its part of the split."
        refuse("decompose_by fits laws inside segments", "calibration=", remedy)
    if not isinstance(arguments.get("cv", 5), (int, np.integer)):
        found = type(arguments["cv"]).__name__
        refuse("`cv` must be a number of folds", found, "Splits of all rows do not fit a segment.")
    if isinstance(arguments["loss"], (list, tuple)):
        refuse("decompose_by takes one loss", f"{len(arguments['loss'])}", "Call it once for each.")
    by_row = {name: arguments[name] for name in ("y_proba", *_BY_ROW) if arguments.get(name) is not None}
    require_aligned({"segments": segments, "y_true": y_true, **by_row})
    for name, value in by_row.items():
        shape = np.shape(value) if hasattr(value, "shape") else (len(value),) if hasattr(value, "__len__") else ()
        if not shape:
            refuse(f"{mark(name)} must hold one entry per row", f"the single value {plain(value)}", "Pass an array.")
        require_rows(int(shape[0]), n, name, "y_true")
    _check_rows(arguments, n)
    return parsed


def _check_rows(arguments: Mapping[str, Any], n: int) -> None:
    """Refuse what is wrong in some rows as `decompose` does: a segment with such rows is not one that is too small."""
    parse_weights(arguments.get("sample_weight"), n)
    parse_groups(arguments.get("groups"), n)
    for name in ("q", "latent"):
        if arguments.get(name) is not None:
            parse_law(getattr(arguments[name], "law", arguments[name]), name)
    if arguments.get("X") is not None:
        parse_features(arguments["X"], n, "X")


def _with_labels(options: Mapping[str, Any], y_true: ArrayLike, y_proba: ArrayLike) -> dict[str, Any]:
    """Options in which the order of classes is that of all rows: a segment may miss some of them."""
    law = GivenLaw("y_proba", parse_law(y_proba, "y_proba"), None, column_names(y_proba))
    given = {key: options.get(key) for key in ("pos_label", "classes")}
    outcomes = parse_outcomes(y_true, [law], **given)
    if n_classes(law.values) == 2 and law.values.ndim == 1:
        return {**options, "classes": None, "pos_label": outcomes.classes[1]}
    order = outcomes.orders[0]
    columns = outcomes.classes if order is None else outcomes.classes[np.argsort(order)]
    return {**options, "classes": columns.tolist()}
