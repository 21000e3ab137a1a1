"""How far recalibration moves scores: Wasserstein distances between the distributions of S and g(S)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._core.checks import (
    parse_choice,
    parse_count,
    parse_law,
    parse_random_state,
    parse_weights,
    refuse,
    require_rows,
)
from scoreprism._core.resampling import Streams, count_rows
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector, n_classes
from scoreprism._kernels.estimate_intervals import Absent, Inference
from scoreprism._kernels.term_intervals import Interval
from scoreprism.metrics._estimate import Estimate

METHODS = ("auto", "exact", "sliced")
#: Rows up to which "auto" solves the transport on the simplex: an assignment for equal weights, else a linear program.
_ASSIGNED, _PROGRAMMED = 1500, 150
#: Rows up to which "exact" does: 4000 took 25 s and 600 with weights 5 s, and both grow with the cube.
_MOST_ASSIGNED, _MOST_PROGRAMMED = 4000, 1000
_NO_RESAMPLING = Absent("exact transport on the simplex is not resampled", 'Use method="sliced".')


def transport_cost(
    y_proba: ArrayLike,
    recalibrated: ArrayLike,
    *,
    p: int = 1,
    method: str = "auto",
    n_projections: int = 128,
    sample_weight: ArrayLike | None = None,
    random_state: object = 0,
) -> Estimate:
    """
    Wasserstein distance between the distribution of the scores S and that of recalibrated scores g(S).

    The least mean distance (root mean square for p = 2) over which probability must be moved to turn one into the
    other. It is at most the mean of ``|S − g(S)|``, and equal to it for a nondecreasing g of two classes. It compares
    calibrators by how far they move scores, whatever the outcomes.

    Parameters
    ----------
    y_proba : array-like of shape (n,) or (n, K)
        Scores S.
    recalibrated : array-like of shape (n,) or (n, K)
        Recalibrated scores g(S) of the same rows; g need not be monotone.
    p : {1, 2}, default=1
        Order of the distance.
    method : {"auto", "exact", "sliced"}, default="auto"
        Two classes are always exact, by the quantile coupling. For more, "exact" solves the assignment of rows (a
        linear program with weights) under the Euclidean distance of probability vectors, and "sliced" averages the
        p-th power of one-dimensional distances over random directions of the simplex, which gives a smaller number.
        "auto" is exact up to 1500 rows, 150 with weights; "exact" refuses more than 4000, and 1000 with weights.
    n_projections : int, default=128
        Directions of "sliced".
    sample_weight : array-like of shape (n,), optional
        Weights.
    random_state : int, Generator or None, default=0
        Seed of the directions.

    Returns
    -------
    Estimate
        The distance. Its interval, with g held fixed, is a percentile interval of resampled rows; exact transport on
        the simplex has none.

    Examples
    --------
    >>> cost = transport_cost([0.1, 0.4, 0.9], [0.2, 0.3, 0.7])
    >>> cost
    <transport_cost 0.133333: Wasserstein distance of order 1, exact in one dimension>
    """
    s, g = parse_law(y_proba, "y_proba"), parse_law(recalibrated, "recalibrated")
    require_rows(g.shape[0], s.shape[0], "recalibrated", "y_proba")
    if n_classes(s) != n_classes(g):
        refuse(
            "`recalibrated` must have as many classes as `y_proba`",
            f"shapes {g.shape} and {s.shape}",
            "Pass all classes.",
        )
    if isinstance(p, bool) or p not in (1, 2):
        refuse("`p` must be 1 or 2", repr(p), "Pass one of these.")
    chosen = parse_choice(method, METHODS, "method")
    weight = parse_weights(sample_weight, s.shape[0], "y_proba")
    if weight is not None and not weight.all():
        weighted = np.flatnonzero(weight)
        s, g, weight = s[weighted], g[weighted], weight[weighted]
    equal = weight is None or bool((weight == weight[0]).all())
    weight = None if equal else weight
    order = f"Wasserstein distance of order {p}"
    if n_classes(s) == 2:
        lines = ProjectedScores((as_vector(s)[None], as_vector(g)[None]), weight, p)
        return Estimate(lines.distance(), "transport_cost", f"{order}, exact in one dimension", lines)
    most = _MOST_ASSIGNED if equal else _MOST_PROGRAMMED
    if chosen == "exact" and s.shape[0] > most:
        refuse(
            f'`method`="exact" must have at most {most} rows{"" if equal else " with weights"}, because its time grows '
            "with their cube",
            f"{s.shape[0]} rows",
            'Use `method`="sliced", or draw that many rows.',
        )
    if chosen == "exact" or (chosen == "auto" and s.shape[0] <= (_ASSIGNED if equal else _PROGRAMMED)):
        value = _assign(s, g, p) if equal else _solve_program(s, g, np.asarray(weight), p)
        return Estimate(value, "transport_cost", f"{order}, exact on the simplex", _NO_RESAMPLING)
    count = parse_count(n_projections, "n_projections", 1)
    directions = draw_directions(n_classes(s), count, parse_random_state(random_state))
    lines = ProjectedScores((directions @ s.T, directions @ g.T), weight, p)
    return Estimate(lines.distance(), "transport_cost", f"{order}, sliced along {count} directions", lines)


def draw_directions(k: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Unit vectors along the simplex, uniformly distributed, shape (count, k)."""
    normal = rng.standard_normal((count, k))
    normal -= normal.mean(axis=1, keepdims=True)
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


@dataclass(eq=False)
class ProjectedScores(Inference):
    """Scores before and after, projected on lines and sorted once; a resample is a vector of counts."""

    ends: tuple[FloatArray, FloatArray]
    weight: FloatArray | None
    p: int

    @cached_property
    def _sorted(self) -> list[tuple[IntArray, FloatArray]]:
        """Order of the rows on each line and sorted values, before and after."""
        orders = [np.argsort(end, axis=1, kind="stable") for end in self.ends]
        return [(order, np.take_along_axis(end, order, axis=1)) for order, end in zip(orders, self.ends, strict=True)]

    def distance(self, counts: FloatArray | None = None) -> float:
        """The p-th root of the mean over lines of the cost of the quantile coupling."""
        (first, before), (second, after) = self._sorted
        weight = counts if self.weight is None else self.weight if counts is None else self.weight * counts
        if weight is None:
            total = float((np.abs(before - after) ** self.p).mean())
        else:
            lines = zip(first, before, second, after, strict=True)
            total = float(np.mean([_couple(a, weight[i], b, weight[j], self.p) for i, a, j, b in lines]))
        return float(total ** (1.0 / self.p))

    def _replicates(self, count: int, random_state: object) -> FloatArray:
        n, streams = self.ends[0].shape[1], Streams.of(random_state)
        return np.array([self.distance(count_rows(streams(b), n)) for b in range(count)])

    @cached_property
    def std_error(self) -> float:
        return float(self._replicates(200, 0).std(ddof=1))

    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        if method is not None:
            parse_choice(method, ("percentile",), "method")
        tail = 0.5 * (1.0 - confidence_level)
        low, high = np.quantile(self._replicates(n_resamples, random_state), [tail, 1.0 - tail])
        return Interval(float(low), float(high), confidence_level, "bootstrap, percentile")


def _couple(a: FloatArray, wa: FloatArray, b: FloatArray, wb: FloatArray, p: int) -> float:
    """Cost of the quantile coupling of two weighted samples, both sorted."""
    ca, cb = np.cumsum(wa), np.cumsum(wb)
    ca, cb = ca / ca[-1], cb / cb[-1]
    levels = np.sort(np.concatenate([ca, cb]))
    widths = np.diff(levels, prepend=0.0)
    # rounding of the two sums may leave slivers between equal levels, which weigh next to nothing
    middle = levels - 0.5 * widths
    quantiles = [v[np.minimum(np.searchsorted(c, middle), v.size - 1)] for v, c in ((a, ca), (b, cb))]
    return float(widths @ np.abs(quantiles[0] - quantiles[1]) ** p)


def _costs(s: FloatArray, g: FloatArray, p: int) -> FloatArray:
    """‖s − g‖^p of every pair."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(s, g, "euclidean" if p == 1 else "sqeuclidean"))


def _assign(s: FloatArray, g: FloatArray, p: int) -> float:
    """Equal weights: an optimal coupling is a permutation."""
    from scipy.optimize import linear_sum_assignment

    costs = _costs(s, g, p)
    return float(costs[linear_sum_assignment(costs)].mean() ** (1.0 / p))


def _solve_program(s: FloatArray, g: FloatArray, weight: FloatArray, p: int) -> float:
    """Any weights: the linear program over couplings with both margins given."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    n, share = s.shape[0], weight / weight.sum()
    ones, same = np.ones((1, n)), eye_array(n)
    margins = vstack([kron(same, ones), kron(ones, same)]).tocsr()[:-1]  # the last one follows from the others
    solution = linprog(_costs(s, g, p).ravel(), A_eq=margins, b_eq=np.concatenate([share, share])[:-1], method="highs")
    if not solution.success:
        refuse("the transport must be solvable", solution.message, 'Use `method`="sliced".')
    return float(max(solution.fun, 0.0) ** (1.0 / p))
