"""decompose_by(): each segment decomposed by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_clip, refuse
from scoreprism._core.labels import code_labels
from scoreprism._core.simplex import ArrayLike
from scoreprism._fitting.chain_fit import ChainFit, parse_loss, split_options
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.sample import Sample, find_floors, parse_segments
from scoreprism.decomposition import Decomposition, SegmentDecompositions
from scoreprism.exceptions import InputError, ScoreprismError
from scoreprism.losses import ProperLoss


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
    Decompose the loss of each segment, with C and Q fitted inside it.

    `Decomposition.contributions` gives the share of each segment in the overall terms, which is something else: a
    segment can contribute a negative reliability.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes. A `Sample` stands for all arguments by row.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    X : array-like or frame of shape (n, p), optional
        Features.
    segments : array-like of shape (n,), or str
        Required: the segment of each row. With a `Sample`, also the name of one of its segment columns.
    loss : str or ProperLoss, default="log"
        The loss.
    **options : object
        Further arguments of `decompose`; those with one entry per row are subset to the segment.

    Returns
    -------
    SegmentDecompositions
        One decomposition per segment; ``skipped`` says why a segment could not be decomposed.

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
    form = parse_choice(form, FORMS, "form")
    of_rows, of_fit = split_options(options)
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
    labels, codes = code_labels(sample.segments[column], column)
    fits: dict[Any, ChainFit] = {}
    skipped: dict[Any, str] = {}
    for code, label in enumerate(labels.tolist()):
        try:
            fits[label] = ChainFit.of(sample.take(codes == code), **options)
        except ScoreprismError as error:
            skipped[label] = str(error)
    if floors is None:
        floors = _floors([fit.sample for fit in fits.values()], loss, clip)
    decompositions: dict[Any, Decomposition] = {}
    for label, fit in fits.items():
        try:
            chain = fit.fit([loss], clip, floors)
            decompositions[label] = chain.decompose_at(loss, form, clip, floors.get(str(loss)))
        except ScoreprismError as error:
            skipped[label] = str(error)
    skipped = {label: skipped[label] for label in labels.tolist() if label in skipped}
    if not decompositions:
        raise InputError(
            f"no segment could be decomposed; the first, {next(iter(skipped))!r}: {next(iter(skipped.values()))}"
        )
    names = next(iter(decompositions.values())).names
    return SegmentDecompositions(names, sample.backend, decompositions, skipped)


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
        refuse("decompose_by fits C and Q inside each segment", "calibration=", remedy)
    if not isinstance(options.get("cv", 5), (int, np.integer)):
        got = type(options["cv"]).__name__
        refuse("`cv` must be a number of folds", got, "Splits of all rows do not fit a segment.")
