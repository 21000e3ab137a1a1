"""Conditional expectation given a score, by quadrature over its level sets.

Points of the unit square are written (u, v), both uniform, with a copula density. For a score s(u, v) this
module finds the law of (S, C), C = E[Q | S], as weighted nodes:

* a score with few values: cells of constancy, with their jumps located by bisection (`discrete`);
* a score that is strictly monotone in one coordinate: the co-area formula along its level curves (`smooth`);
* a score that varies with one coordinate only: all points of each level set, branch by branch (`curve`), about 1e-5;
* anything else: bins of a sorted low-discrepancy sample (`sample_score_law`), good to about 3e-5.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from scoreprism._core.numerics import Condition, halve
from scoreprism._core.simplex import FloatArray, IntArray

PlaneFunction = Callable[[FloatArray, FloatArray], FloatArray]

#: How far inside the square scores are evaluated.
_EDGE = 1e-12
#: Step and reach of the tanh-sinh rule in its own coordinate.
_STEP, _REACH = 1 / 16, 3.3
#: Nodes in u for a score with few values, and points in u for a score of one coordinate.
_SLICES, _POINTS = 2048, 1 << 14
#: Sampled points, and bins of their sorted scores.
_SAMPLED, _BINS = 1 << 22, 1 << 10


class ScoreLaw(NamedTuple):
    """
    Nodes of the joint law of a score and its calibrated version.

    Attributes
    ----------
    score, calibrated : array of shape (m,)
        Values of S and of C = E[Q | S].
    mass : array of shape (m,)
        Their probabilities.
    method : str
        Which quadrature: smooth, discrete, curve or sampled.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> law = CopulaLaw().score_law(lambda x1, x2: np.where(x1 < 0.5, 0.3, 0.6))
    >>> law.score, law.mass.round(4), law.method
    (array([0.3, 0.6]), array([0.5, 0.5]), 'discrete')
    """

    score: FloatArray
    calibrated: FloatArray
    mass: FloatArray
    method: str


class Plane(NamedTuple):
    """The law of the features: Q, the copula density, and v as a function of u and an independent uniform w."""

    q: PlaneFunction
    density: PlaneFunction
    conditional: PlaneFunction


def _double_exponential() -> tuple[FloatArray, FloatArray]:
    """Tanh-sinh nodes and weights on (0, 1): exact to rounding even with endpoint singularities."""
    t = np.arange(-int(_REACH / _STEP), int(_REACH / _STEP) + 1) * _STEP
    x = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(t)))
    weight = _STEP * np.pi * np.cosh(t) * x * (1.0 - x)
    return x, weight / weight.sum()


def _bisect(function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Roots of many functions at once, each changing sign between `low` and `high`."""
    sign = np.sign(function(low))
    return _find_change(lambda x: np.sign(function(x)) == sign, low, high, 52)


def _find_change(unchanged: Condition, low: FloatArray, high: FloatArray, times: int = 45) -> FloatArray:
    """Where a condition that holds at `low` and fails at `high` begins to fail."""
    low, high = halve(unchanged, low, high, times)
    return 0.5 * (low + high)


def _lattice(n: int) -> tuple[FloatArray, FloatArray]:
    """The R2 low-discrepancy sequence (plastic number)."""
    plastic = 1.32471795724474602596
    k = np.arange(1, n + 1)
    return (0.5 + k / plastic) % 1.0, (0.5 + k / plastic**2) % 1.0


def score_law(score: PlaneFunction, plane: Plane) -> ScoreLaw:
    """The joint law of S = score(x₁, x₂) and C = E[Q | S]."""
    u, w = _lattice(4096)
    values = score(u, plane.conditional(u, w))
    distinct = np.unique(values).size
    if distinct <= 128:
        return discrete(score, plane, cells=max(128, 8 * distinct))
    axis = _monotone_axis(score)
    if axis is not None and not _jumps(score, 1 - axis):
        law = smooth(*_orient(score, plane, axis))
        if abs(law.mass.sum() - 1.0) < 1e-6:
            return _sort_by_score(law._replace(mass=law.mass / law.mass.sum()))
    for axis in (0, 1):
        turned, turned_plane = _orient(score, plane, axis)
        grid = np.linspace(_EDGE, 1.0 - _EDGE, 65)
        table = turned(grid[:, None] + 0.0 * grid, 0.0 * grid[:, None] + grid)
        if (table == table[:, :1]).all():
            nodes = curve(lambda x, f=turned: f(x, np.full(x.shape, 0.5)), turned_plane)  # type: ignore[misc]
            return sample_score_law(score, plane) if nodes is None else _sort_by_score(nodes)
    return sample_score_law(score, plane)


def _sort_by_score(law: ScoreLaw) -> ScoreLaw:
    """Nodes in increasing order of score, so that C may be interpolated."""
    order = np.argsort(law.score, kind="stable")
    return ScoreLaw(law.score[order], law.calibrated[order], law.mass[order], law.method)


def _orient(score: PlaneFunction, plane: Plane, axis: int) -> tuple[PlaneFunction, Plane]:
    """Exchange the coordinates so that the score is monotone in the first."""
    if axis == 0:
        return score, plane
    swapped = Plane(lambda u, v: plane.q(v, u), lambda u, v: plane.density(v, u), plane.conditional)
    return (lambda u, v: score(v, u)), swapped


def _monotone_axis(score: PlaneFunction) -> int | None:
    """The coordinate in which the score is strictly monotone, the steeper one if both are."""
    grid = np.linspace(_EDGE, 1.0 - _EDGE, 129)
    table = score(grid[:, None] + 0.0 * grid, 0.0 * grid[:, None] + grid)
    best, steepness = None, 0.0
    for axis in (0, 1):
        steps = np.diff(table, axis=axis)
        if ((steps > 0).all() or (steps < 0).all()) and np.abs(steps).mean() > steepness:
            best, steepness = axis, float(np.abs(steps).mean())
    return best


def _jumps(score: PlaneFunction, axis: int) -> bool:
    """Whether the score jumps along a coordinate: refining the grid does not shrink its largest step."""
    across = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    largest = []
    for points in (129, 4097):
        along = np.linspace(_EDGE, 1.0 - _EDGE, points)
        u, v = (along[:, None] + 0.0 * across, 0.0 * along[:, None] + across)
        largest.append(float(np.abs(np.diff(score(u, v) if axis == 0 else score(v, u), axis=0)).max()))
    return largest[1] > 0.25 * largest[0] and largest[1] > 1e-9


# ── smooth scores ───────────────────────────────────────────────────────────────────────────────────────


def smooth(score: PlaneFunction, plane: Plane) -> ScoreLaw:
    """
    The co-area formula for a score strictly monotone in u.

    P(S ∈ dt) = dt ∫ c(u, v)/|∂s/∂u| dv along the level curve u = u(t, v), and C(t) weighs Q in the same way.
    """
    nodes, weights = _double_exponential()
    cuts = _critical_values(score)
    levels = np.concatenate([a + (b - a) * nodes for a, b in pairwise(cuts)])
    steps = np.concatenate([(b - a) * weights for a, b in pairwise(cuts)])
    owner, low, high = _arcs(score, levels)
    v = low[:, None] + (high - low)[:, None] * nodes
    v = np.clip(v, _EDGE, 1.0 - _EDGE)
    target = np.broadcast_to(levels[owner][:, None], v.shape)
    u = _bisect(lambda x: score(x, v) - target, np.full(v.shape, _EDGE), np.full(v.shape, 1.0 - _EDGE))
    flow = plane.density(u, v) / np.abs(_slope(score, u, v)) * (weights * (high - low)[:, None])
    mass = np.bincount(owner, flow.sum(axis=1), minlength=levels.size)
    events = np.bincount(owner, (flow * plane.q(u, v)).sum(axis=1), minlength=levels.size)
    has_mass = mass > 0
    return ScoreLaw(
        levels[has_mass], np.clip(events[has_mass] / mass[has_mass], 0.0, 1.0), (mass * steps)[has_mass], "smooth"
    )


def _slope(score: PlaneFunction, u: FloatArray, v: FloatArray, h: float = 1e-5) -> FloatArray:
    """∂s/∂u by central differences that stay inside the square."""
    above, below = np.minimum(u + h, 1.0 - _EDGE), np.maximum(u - h, _EDGE)
    slope: FloatArray = (score(above, v) - score(below, v)) / (above - below)
    return slope


def _edges(score: PlaneFunction, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The score on the two sides u = 0 and u = 1 of the square."""
    return score(np.full(v.shape, _EDGE), v), score(np.full(v.shape, 1.0 - _EDGE), v)


_SIDE = np.linspace(_EDGE, 1.0 - _EDGE, 513)


def _critical_values(score: PlaneFunction) -> FloatArray:
    """Values at which level curves change shape: corners, and extrema along the sides."""
    values: list[float] = []
    for edge in _edges(score, _SIDE):
        steps = np.diff(edge)
        turns = np.flatnonzero(steps[:-1] * steps[1:] < 0) + 1
        values.extend([edge[0], edge[-1], *(_extremum(edge[i - 1 : i + 2]) for i in turns)])
    merged = np.unique(values)
    span = merged[-1] - merged[0]
    apart: FloatArray = merged[np.concatenate([[True], np.diff(merged) > 1e-9 * span])]
    return apart


def _extremum(three: FloatArray) -> float:
    """Vertex of the parabola through three equidistant points."""
    left, middle, right = three
    return float(middle - (right - left) ** 2 / (8.0 * (right - 2.0 * middle + left)))


def _arcs(score: PlaneFunction, levels: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """For each level, the intervals of v on which its level curve runs inside the square."""
    breaks: list[list[float]] = [[_EDGE, 1.0 - _EDGE] for _ in levels]
    for side, edge in enumerate(_edges(score, _SIDE)):
        gap = edge - levels[:, None]
        which, cell = np.nonzero(gap[:, :-1] * gap[:, 1:] < 0)
        u = np.full(which.size, _EDGE if side == 0 else 1.0 - _EDGE)
        target = levels[which]
        roots = _bisect(lambda v, u=u, target=target: score(u, v) - target, _SIDE[cell], _SIDE[cell + 1])  # type: ignore[misc]
        for i, root in zip(which.tolist(), roots.tolist(), strict=True):
            breaks[i].append(root)
    owner = np.concatenate([np.full(len(b) - 1, i) for i, b in enumerate(breaks)]).astype(np.intp)
    low = np.concatenate([sorted(b)[:-1] for b in breaks])
    high = np.concatenate([sorted(b)[1:] for b in breaks])
    first, last = _edges(score, 0.5 * (low + high))
    inside = (first - levels[owner]) * (last - levels[owner]) < 0
    return owner[inside], low[inside], high[inside]


# ── scores with few values ──────────────────────────────────────────────────────────────────────────────


def discrete(score: PlaneFunction, plane: Plane, cells: int) -> ScoreLaw:
    """Mass and events of each value: along slices of u the jumps in w are bisected and the pieces integrated."""

    def along(x: FloatArray, w: FloatArray) -> FloatArray:
        return score(x, plane.conditional(x, w))

    node, share = _place_nodes(along)
    edges = np.linspace(_EDGE, 1.0 - _EDGE, cells + 1)
    u, weight = np.repeat(node, cells), np.repeat(share, cells)
    low, high = np.tile(edges[:-1], node.size), np.tile(edges[1:], node.size)
    start, stop = along(u, low), along(u, high)
    jumps = start != stop
    cut = high.copy()
    cut[jumps] = _find_change(lambda w: along(u[jumps], w) == start[jumps], low[jumps], high[jumps])
    values, code = np.unique(np.concatenate([start, stop[jumps]]), return_inverse=True)
    mass = np.concatenate([(cut - low) * weight, ((high - cut) * weight)[jumps]])
    mean_q = np.concatenate([_mean_q(plane, u, low, cut), _mean_q(plane, u[jumps], cut[jumps], high[jumps])])
    total = np.bincount(code, mass)
    has_mass = total > 0
    calibrated = np.bincount(code, mass * mean_q)[has_mass] / total[has_mass]
    return ScoreLaw(values[has_mass], calibrated, total[has_mass] / total.sum(), "discrete")


def _place_nodes(along: PlaneFunction) -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre nodes in u on panels that end where the score jumps in u: such edges must not be straddled."""
    grid = np.linspace(_EDGE, 1.0 - _EDGE, 1025)
    cuts = [0.0, 1.0]
    for w in np.linspace(0.05, 0.95, 9):
        values = along(grid, np.full(grid.shape, w))
        jump = np.flatnonzero(values[:-1] != values[1:])
        before, line = values[jump], np.full(jump.shape, w)
        cuts.extend(_find_change(lambda u, v=before, x=line: along(u, x) == v, grid[jump], grid[jump + 1]))  # type: ignore[misc]
    ends = np.unique(np.round(cuts, 10))
    x, share = np.polynomial.legendre.leggauss(max(2, _SLICES // ends.size))
    width = np.diff(ends)
    node = ends[:-1, None] + width[:, None] * (x + 1.0) / 2.0
    return np.clip(node.ravel(), _EDGE, 1.0 - _EDGE), (width[:, None] * share / 2.0).ravel()


def _mean_q(plane: Plane, u: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Average of Q over an interval of w, by Gauss–Legendre."""
    total = np.zeros(u.shape)
    for x, share in zip(*np.polynomial.legendre.leggauss(6), strict=True):
        total += 0.5 * share * plane.q(u, plane.conditional(u, low + (high - low) * (x + 1.0) / 2.0))
    return total


# ── scores of one coordinate ────────────────────────────────────────────────────────────────────────────


def curve(score: Callable[[FloatArray], FloatArray], plane: Plane) -> ScoreLaw | None:
    """
    C at s(u) averages E[Q | u'] over all u' with the same score, each weighed by 1/|s'(u')|, branch by branch.

    None for a score with so many branches that this would take minutes.
    """
    u = (np.arange(_POINTS) + 0.5) / _POINTS
    values, given = score(u), _average_given(plane, u)
    flat = _slope(lambda x, _: score(x), u, u, 1e-7) == 0.0
    branches = [] if flat.all() else _branches(score)
    if len(branches) > 300:
        return None
    mass, events = np.zeros(_POINTS), np.zeros(_POINTS)
    for low, high in branches:
        first, last = score(np.array([low, high]))
        rows = np.flatnonzero((values - first) * (values - last) <= 0.0)
        target = values[rows]
        root = _bisect(lambda x, t=target: score(x) - t, np.full(rows.size, low), np.full(rows.size, high))  # type: ignore[misc]
        slope = np.abs(_slope(lambda x, _: score(x), root, root, 1e-7))
        met = (np.abs(score(root) - target) < 1e-9) & (slope > 0)  # a jump crosses the value without taking it
        share = np.where(met, 1.0 / np.where(met, slope, 1.0), 0.0)
        mass[rows] += share
        events[rows] += share * _average_given(plane, root)
    calibrated = np.where(mass > 0, np.clip(events / np.where(mass > 0, mass, 1.0), 0.0, 1.0), given)
    if flat.any():  # a plateau has mass of its own, which drowns the points that only cross its value
        _, code = np.unique(values[flat], return_inverse=True)
        calibrated[flat] = (np.bincount(code, given[flat]) / np.bincount(code))[code]
    return ScoreLaw(values, calibrated, np.full(_POINTS, 1.0 / _POINTS), "curve")


def _branches(score: Callable[[FloatArray], FloatArray]) -> list[tuple[float, float]]:
    """Intervals on which a function of one variable is monotone and not flat, with its turning points refined."""
    grid = np.linspace(_EDGE, 1.0 - _EDGE, 8193)
    direction = np.sign(np.diff(score(grid)))
    change = np.flatnonzero(direction[1:] != direction[:-1]) + 1
    low, high = grid[change - 1], grid[change + 1]
    upward = direction[change - 1] - direction[change]  # positive at a maximum, negative at a minimum
    for _ in range(60):  # thirds: keep the two that hold the extremum
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        left = score(a) * upward < score(b) * upward
        low, high = np.where(left, a, low), np.where(left, high, b)
    ends = np.concatenate([[_EDGE], 0.5 * (low + high), [1.0 - _EDGE]])
    kinds = direction[np.concatenate([[0], change])]
    return [(float(a), float(b)) for (a, b), kind in zip(pairwise(ends), kinds, strict=True) if kind != 0 and b > a]


def _average_given(plane: Plane, u: FloatArray) -> FloatArray:
    """E[Q | u]."""
    nodes, weights = _double_exponential()
    w = np.clip(nodes, _EDGE, 1.0 - _EDGE)
    return sum(
        (share * plane.q(u, plane.conditional(u, np.full(u.shape, x))) for x, share in zip(w, weights, strict=True)),
        np.zeros(u.shape),
    )


# ── anything else ───────────────────────────────────────────────────────────────────────────────────────


def sample_score_law(score: PlaneFunction, plane: Plane) -> ScoreLaw:
    """Means of Q over bins of the sorted score."""
    u, w = _lattice(_SAMPLED)
    v = plane.conditional(u, w)
    values = score(u, v)
    order = np.argsort(values, kind="stable")
    ranked, q = values[order], plane.q(u, v)[order]
    calibrated = q.reshape(_BINS, -1).mean(axis=1)
    return ScoreLaw(ranked, np.repeat(calibrated, _SAMPLED // _BINS), np.full(_SAMPLED, 1.0 / _SAMPLED), "sampled")
