"""Models that keep their training rows, or some of them: nearest neighbours, Gaussian processes, support vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import IntArray
from scoreprism._double_use.chance import log_bounded, log_equal
from scoreprism._double_use.model_parts import ModelPart

#: Where estimators keep the rows, and the outcomes, that they were fitted on.
_KEPT = (("_fit_X", "_y"), ("X_train_", "y_train_"), ("X_fit_", ""), ("X_", "y_"))


class StoredRows(NamedTuple):
    """Rows that a model keeps, their classes where it keeps these, and how many rows it was trained on."""

    X: Any
    y: NDArray[Any] | None
    trained: int


class Overlap(NamedTuple):
    """Which share of the rows a model was trained on, how likely that is by chance, and whether outcomes agree."""

    share: float
    chance: float  # its logarithm
    outcomes: bool


def find_stored_rows(model: Any) -> StoredRows | None:
    """The rows that a model keeps."""
    for rows, outcomes in _KEPT:
        X = getattr(model, rows, None)
        if X is not None and len(getattr(X, "shape", ())) == 2:
            return StoredRows(X, getattr(model, outcomes, None) if outcomes else None, X.shape[0])
    X = getattr(model, "support_vectors_", None)
    size = getattr(model, "shape_fit_", None)
    if X is None or size is None:
        return None
    return StoredRows(X, np.repeat(np.arange(len(model.n_support_)), model.n_support_), int(size[0]))


def find_overlap(part: ModelPart) -> Overlap | None:
    """How many of the judged rows a model keeps; None where it keeps none, or rows of another width."""
    stored = find_stored_rows(part.model)
    if stored is None or stored.X.shape[1] != part.X.shape[1]:
        return None
    ours, theirs = _number_rows(part.X, stored.X)
    count_ours, count_theirs = (np.bincount(x, minlength=max(ours.max(), theirs.max()) + 1) for x in (ours, theirs))
    whole = stored.trained == len(theirs)
    shared, of = (count_theirs[ours] > 0, ours.size) if whole else (count_ours[theirs] > 0, theirs.size)
    y = _code_kept(stored.y, part)
    share = float(shared.mean()) * (1.0 if whole else min(1.0, stored.trained / ours.size))
    chance = _weigh_coincidence(int(shared.sum()), of, ours, theirs, count_ours, count_theirs)
    single = (count_ours == 1) & (count_theirs == 1)
    if y is not None and part.y is not None and single.any():
        a, b = np.empty(single.size, dtype=np.intp), np.empty(single.size, dtype=np.intp)
        a[ours], b[theirs] = part.y, y
        outcomes = bool((a[single] == b[single]).mean() >= 0.99)
        return Overlap(share, chance, outcomes)
    cells = _bound_repeats(ours, theirs, part.y if y is not None else None, y, part.k) if whole else 0.0
    return Overlap(share, min(chance, cells), outcomes=True)


def _weigh_coincidence(
    hits: int, of: int, ours: IntArray, theirs: IntArray, count_ours: IntArray, count_theirs: IntArray
) -> float:
    """Log of the chance of so many common rows, if equal rows are no rarer between the two sides than within each."""
    from scipy.special import bdtrc

    n, m = ours.size, theirs.size
    own = float((count_ours[ours] > 1).mean()) * max(1.0, m / n)
    other = float((count_theirs[theirs] > 1).mean()) * max(1.0, n / m)
    rate = min(1.0, max(own, other))
    rate = min(1.0, rate + 5.0 * np.sqrt(rate * (1.0 - rate) / min(n, m)) + 15.0 / min(n, m))
    with np.errstate(divide="ignore"):
        return float(np.log(bdtrc(hits - 1, of, rate))) if hits else 0.0


def _bound_repeats(ours: IntArray, theirs: IntArray, y: IntArray | None, kept_y: IntArray | None, k: int) -> float:
    """Log of the chance that other rows repeat every distinct row as often: for features that take few values."""
    if y is not None and kept_y is not None:
        ours, theirs = ours * k + y, theirs * k + kept_y
    size = max(ours.max(), theirs.max()) + 1
    held, kept = np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)
    if np.array_equal(held, kept):
        return log_equal(kept)
    if (held >= kept).all():
        return log_bounded(kept, ours.size, least=True)
    return log_bounded(kept, ours.size, least=False) if (held <= kept).all() else 0.0


def _code_kept(y: NDArray[Any] | None, part: ModelPart) -> IntArray | None:
    """Outcomes that were kept, as codes of classes."""
    if y is None or np.ndim(y) != 1:
        return None
    kept = np.asarray(y)
    if kept.dtype.kind in "iub" and kept.min() >= 0 and kept.max() < part.k:
        return kept.astype(np.intp)
    labels = np.asarray(getattr(part.model, "classes_", []))
    place = np.minimum(np.searchsorted(labels, kept), labels.size - 1) if labels.size else kept
    return place.astype(np.intp) if labels.size and bool((labels[place] == kept).all()) else None


def _number_rows(rows: Any, kept: Any) -> tuple[IntArray, IntArray]:
    """Rows by number, equal ones by the same, on both sides."""
    keys = [_make_keys(kept, kept.dtype), _make_keys(rows, kept.dtype)]
    _, number = np.unique(np.concatenate(keys), return_inverse=True)
    return number[len(keys[0]) :], number[: len(keys[0])]


def _make_keys(rows: Any, dtype: Any) -> NDArray[Any]:
    """A key for each row: its bytes, or a sum with fixed weights where it is sparse."""
    if hasattr(rows, "nnz"):
        table = rows.tocsr().astype(np.float64)
        table.sum_duplicates()
        return np.asarray(table @ np.random.default_rng(0).standard_normal(table.shape[1]))
    table = np.ascontiguousarray(np.asarray(rows).astype(dtype) + np.zeros(1, dtype=dtype))  # one zero, not two
    return table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel()
