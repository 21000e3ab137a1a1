"""decompose_by(): every segment decomposed by laws of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import listed, parse_choice, parse_clip, parse_confidence, plain, refuse
from scoreprism._core.labels import distinct
from scoreprism._core.simplex import ArrayLike
from scoreprism._document.result import Drawable, TermTable
from scoreprism._fitting.chain_fit import ChainFit, parse_loss, split_options
from scoreprism._kernels.holm import holm
from scoreprism._kernels.term_intervals import FEW_UNITS, FORMS
from scoreprism._sample.sample import Sample, find_floors, parse_segments
from scoreprism.decomposition import Decomposition
from scoreprism.exceptions import InputError, ScoreprismError
from scoreprism.losses import ProperLoss


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
    >>> found = scoreprism.decompose_by(y, p, segments=region, loss="brier", random_state=0)
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
        raw = {segment: d._inference(name).pvalue() for segment, d in self.decompositions.items()}
        return dict(zip(raw, holm(list(raw.values())), strict=True))

    def lower_bounds(self, term: str = "reliability", confidence_level: float = 0.95) -> dict[Any, float]:
        """
        Lower bounds of a term that hold for all segments at once (Bonferroni).

        Parameters
        ----------
        term : str, default="reliability"
            A reliability or a gain of information.
        confidence_level : float, default=0.95
            Joint confidence level.

        Returns
        -------
        dict
            Segment → bound.
        """
        each = 1.0 - (1.0 - parse_confidence(confidence_level)) / max(len(self.decompositions), 1)
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
        few = [f"{segment} ({d.n_units})" for segment, d in self.decompositions.items() if d.n_units < FEW_UNITS]
        short = f"fewer than {FEW_UNITS} independent rows or clusters, so intervals are too short: {', '.join(few)}"
        return [
            *([short] if few else []),
            *(f"segment {segment} was left out: {why}" for segment, why in self.skipped.items()),
        ]


def decompose_by(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    X: ArrayLike | None = None,
    *,
    segments: ArrayLike | str | None = None,
    loss: str | ProperLoss = "log",
    **options: Any,
) -> SegmentDecompositions:
    """
    Decompose the loss in each segment by laws fitted inside it.

    The rows of a segment averaged, `Decomposition.contributions`, are its share of the overall terms, not its own
    decomposition: a segment can contribute a negative reliability. Here every segment has its own.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes, or everything at once.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    X : array-like or frame of shape (n, p), optional
        Features.
    segments : array-like of shape (n,), or str
        Required: the segment of each row; of a `Sample`, also the name of one of its columns of segments.
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
    >>> list(decompose_by(y, p, segments=np.repeat(["a", "b"], 300), random_state=0).decompositions)
    ['a', 'b']
    """
    _require_whole(y_proba, options)
    form, clip = options.pop("form", "debiased"), options.pop("clip", None)
    chosen = parse_loss(loss)
    parse_choice(form, FORMS, "form")
    of_rows, of_fit = split_options(options)
    of_fit = {name: value for name, value in of_fit.items() if name not in ("pos_label", "classes")}
    if segments is None:
        refuse(
            "`segments` must give the segment of each row, by keyword",
            "None",
            "Call decompose_by(y_true, y_proba, X, segments=labels).",
        )
    if isinstance(y_true, Sample):
        sample, column = _with_segments(Sample.of(y_true, y_proba, X, **of_rows), segments)
    else:
        sample = Sample.of(y_true, y_proba, X, segments=segments, **of_rows)
        column = _only_column(sample.segments)
    distance = parse_clip(clip, sample.k)
    return decompose_segments(sample, column, chosen, form, distance, of_fit)


def _with_segments(sample: Sample, segments: ArrayLike | str) -> tuple[Sample, str]:
    """A sample and the column of its segments that is meant; labels are of the rows that came."""
    if isinstance(segments, str):
        return sample, parse_choice(segments, sample.segments, "segments")
    columns = parse_segments(segments, sample.n_given)
    column = _only_column(columns)
    labels = columns[column] if sample.kept is None else columns[column][sample.kept]
    return replace(sample, segments={column: labels}), column


def _only_column(columns: Mapping[str, object]) -> str:
    """The name of the only column of segments."""
    if len(columns) != 1:
        refuse("`segments` must be one column of labels", f"{len(columns)} columns", "Call decompose_by once for each.")
    return next(iter(columns))


def decompose_segments(
    sample: Sample,
    column: str,
    loss: ProperLoss,
    form: str,
    clip: float | None,
    options: Mapping[str, Any],
    floors: Mapping[str, float] | None = None,
) -> SegmentDecompositions:
    """Each segment of a column by laws of its own; all at the same floor, where the loss of one is infinite."""
    labels, codes = distinct(sample.segments[column], column)
    fits: dict[Any, ChainFit] = {}
    skipped: dict[Any, str] = {}
    for code, label in enumerate(labels.tolist()):
        try:
            fits[label] = ChainFit.of(sample.take(codes == code), **options)
        except ScoreprismError as error:
            skipped[label] = str(error)
    if floors is None:
        floors = _floors([fit.sample for fit in fits.values()], loss, clip)
    found: dict[Any, Decomposition] = {}
    for label, fit in fits.items():
        try:
            chain = fit.fit([loss], clip, floors)
            found[label] = chain.decompose_at(loss, form, clip, floors.get(str(loss)))
        except ScoreprismError as error:
            skipped[label] = str(error)
    skipped = {label: skipped[label] for label in labels.tolist() if label in skipped}
    if not found:
        raise InputError(
            f"no segment could be decomposed; the first, {next(iter(skipped))!r}: {next(iter(skipped.values()))}"
        )
    names = next(iter(found.values())).names
    return SegmentDecompositions(names, sample.backend, found, skipped)


def _floors(samples: Sequence[Sample], loss: ProperLoss, clip: float | None) -> dict[str, float]:
    """The floor of all rows, where the loss is infinite in some of the parts."""
    if not samples:
        return {}
    floor = min(0.5 / sum(sample.n_held for sample in samples), *(sample.floor for sample in samples))
    return dict.fromkeys(find_floors(samples, [loss], clip), floor)


def _require_whole(y_proba: object, options: Mapping[str, Any]) -> None:
    """Refuse what cannot be cut to a segment."""
    if options.get("levels") is not None or hasattr(y_proba, "predict_proba"):
        refuse("decompose_by takes scores and `X`", "levels or a model", "Decompose the segments one by one for these.")
    if options.get("calibration") is not None:
        remedy = "Decompose the segments one by one, each with its part of the split."
        refuse("decompose_by fits laws inside segments", "calibration=", remedy)
    if not isinstance(options.get("cv", 5), (int, np.integer)):
        found = type(options["cv"]).__name__
        refuse("`cv` must be a number of folds", found, "Splits of all rows do not fit a segment.")
