"""What a smooth function of the score explains: a basis of such functions, and what they leave."""

from __future__ import annotations

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import law_logits
from scoreprism._core.simplex import FloatArray, IntArray

#: Distinct scores up to which each has a mean of its own.
_DISTINCT = 20


def score_basis(score: FloatArray) -> FloatArray:
    """Functions of the score that outcomes and directions are freed of: means of few scores, cubic splines of many."""
    if score.ndim == 1:
        return _make_curves(score, int(2.0 * np.sqrt(score.size)))
    n, k = score.shape
    if n < 10 * k:
        got = f"{n} rows for {k} classes"
        refuse("each half of the rows must hold ten rows for each class", got, "Pass more rows, or merge classes.")
    eta = law_logits(score)
    columns = list(eta.T[1:] - eta.T[0])
    joint = _make_products(score[:, 1:], n // 40)  # a map of several probabilities is not a sum of maps of each
    knots = int(min(np.sqrt(n), (n / 10 - 1 - joint.shape[1]) / (k - 1) - 3))  # a tenth of the rows in all
    if knots < 1:
        return np.column_stack([np.ones(n), *columns, joint])
    first, *others = (_make_curves(x, knots) for x in columns)
    return np.column_stack([first, *(part[:, 1:] for part in others), joint])


def _make_products(columns: FloatArray, most: int) -> FloatArray:
    """Polynomials in the columns, degree by degree as long as there is room for all of one."""
    blocks, last = [columns], [(columns[:, j], j) for j in range(columns.shape[1])]
    while True:
        following = [(part * columns[:, j], j) for part, i in last for j in range(i, columns.shape[1])]
        if sum(part.shape[1] for part in blocks) + len(following) > most:
            return np.concatenate(blocks, axis=1)
        blocks.append(np.stack([part for part, _ in following], axis=1))
        last = following


def _make_curves(x: FloatArray, knots: int) -> FloatArray:
    """Means of few values; cubic B-splines in the ranks of many: a map may bend anywhere."""
    from scipy.interpolate import BSpline
    from scipy.stats import rankdata

    values, inverse = np.unique(x, return_inverse=True)
    if values.size <= max(_DISTINCT, knots):
        return np.eye(values.size)[inverse]
    rank = (rankdata(x) - 0.5) / x.size
    t = np.concatenate([[0.0] * 3, np.linspace(0.0, 1.0, knots + 1), [1.0] * 3])
    basis = BSpline.design_matrix(rank, t, 3).toarray()
    return np.asarray(basis[:, basis.any(axis=0)])


def regress_out(values: FloatArray | IntArray, basis: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residuals of a weighted regression on the basis, and the leverage of every row."""
    root = np.sqrt(weight)[:, None]
    frame, size, _ = np.linalg.svd(basis * root, full_matrices=False)
    frame = frame[:, size > 1e-10 * size[0]]
    left = values * root - frame @ (frame.T @ (values * root))
    return np.asarray(left / root), np.asarray((frame**2).sum(axis=1))
