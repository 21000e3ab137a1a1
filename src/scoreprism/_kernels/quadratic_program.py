"""Small strictly convex quadratic programs: solved in every step of a constrained spline fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray


def solve_qp(curvature: FloatArray, pull: FloatArray, rows: FloatArray, least: FloatArray) -> FloatArray:
    """
    Minimise ``½ xᵀ G x − pullᵀ x`` subject to ``rows · x ≥ least``, for a positive definite G and a feasible set.

    With G = L Lᵀ and the free minimum x₀, this asks for the shortest y = Lᵀ(x − x₀) with M y ≥ d, which Lawson &
    Hanson reduce to nonnegative least squares; the constraints that come out active are then solved for exactly.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    lower = np.linalg.cholesky(curvature)

    def solve(b: FloatArray) -> FloatArray:
        half = solve_triangular(lower, b, lower=True, check_finite=False)
        back: FloatArray = solve_triangular(lower, half, lower=True, trans=1, check_finite=False)
        return back

    free = solve(pull)
    gap = least - rows @ free
    scale = float(gap.max(initial=0.0))
    if scale <= 1e-13 * (1.0 + float(np.abs(free).max())):  # the free minimum is feasible, up to rounding
        return free
    m = solve_triangular(lower, rows.T, lower=True, check_finite=False)  # columns are the constraints
    norms = np.sqrt((m * m).sum(axis=0))
    system = np.vstack([m / norms, gap / (scale * norms)])
    target = np.append(np.zeros(m.shape[0]), 1.0)
    unit = max(1.0, float(np.abs(system[-1]).max()))
    system[-1] /= unit
    duals, _ = nnls(system, target, maxiter=50 * system.shape[1])
    residual = system @ duals - target
    y = -residual[:-1] / residual[-1] * (scale * unit)
    x = free + solve_triangular(lower, y, lower=True, trans=1, check_finite=False)
    return _polish(x, free, solve, rows, least, np.flatnonzero(duals > 0.0))


def _polish(
    x: FloatArray,
    free: FloatArray,
    solve: Callable[[FloatArray], FloatArray],
    rows: FloatArray,
    least: FloatArray,
    active: IntArray,
) -> FloatArray:
    """The minimum with the active constraints as equations, if that is feasible and optimal; else `x`."""
    if active.size == 0:
        return x
    a = rows[active]
    spread = solve(a.T)
    try:
        duals = np.linalg.solve(a @ spread, least[active] - a @ free)
    except np.linalg.LinAlgError:
        return x
    exact: FloatArray = free + spread @ duals
    tolerance = 1e-9 * (1.0 + np.abs(exact).max())
    good = (duals >= -1e-9 * (1.0 + np.abs(duals).max())).all() and (rows @ exact >= least - tolerance).all()
    return exact if good and np.isfinite(exact).all() else x
