"""Multinomial logistic regression with a ridge towards a given start: used by the multiclass maps."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from scoreprism._core.numerics import log_softmax
from scoreprism._core.simplex import FloatArray, IntArray, pick
from scoreprism._core.workers import limit_threads

#: Up to this many weights a fit ends with Newton steps.
_FEW = 120
#: Multiplications of a look at the data from which threads gain more than they cost.
_WORTH_THREADS = 10**8


def fit_softmax(
    design: FloatArray,
    codes: IntArray,
    weight: FloatArray | None,
    start: FloatArray,
    ridge: FloatArray,
    *,
    diagonal: bool = False,
    offset: FloatArray | float = 0.0,
    tight: bool = True,
) -> FloatArray:
    """
    Minimise ``−Σ w·log softmax(design · θ + offset)_y + ½ Σ ridge·(θ − start)²`` over θ of shape (p, K).

    With `diagonal`, class k sees column k and the last column (of ones) only, and θ has the shape (2, K).
    Where the ridge is positive everywhere the minimum exists and is unique; without `tight` it is met to about six
    digits of the loss.
    """
    from scipy.optimize import minimize

    k = start.shape[1]
    mass = np.ones(codes.shape[0]) if weight is None else weight
    total = float(mass.sum())
    hit = np.zeros((codes.shape[0], k))
    hit[np.arange(codes.shape[0]), codes] = mass

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        theta = flat.reshape(start.shape)
        logs = log_softmax(offset + (design * theta[0] + theta[1] if diagonal else design @ theta))
        error = np.exp(logs) * mass[:, None] - hit
        value = -float(mass @ pick(logs, codes)) + 0.5 * float((ridge * (theta - start) ** 2).sum())
        slope = np.stack([(design * error).sum(axis=0), error.sum(axis=0)]) if diagonal else design.T @ error
        return value / total, (slope + ridge * (theta - start)).ravel() / total

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
    if not tight:
        options |= {"maxiter": 200, "ftol": 1e-9, "gtol": 1e-5}
    # scipy's L-BFGS solves small systems at every step, for which OpenBLAS wakes all its threads (scipy issue 22438)
    is_small = design.size * k < _WORTH_THREADS
    with limit_threads() if is_small else nullcontext():
        theta: FloatArray = minimize(evaluate, start.ravel(), jac=True, method="L-BFGS-B", options=options).x
        newton_steps = 3 if tight and theta.size <= _FEW else 0
        for _ in range(newton_steps):  # as long as they lower the loss
            curvature = softmax_curvature(theta.reshape(start.shape), design, mass, ridge, diagonal=diagonal) / total
            value, slope = evaluate(theta)
            step = np.linalg.lstsq(curvature, slope, rcond=1e-13)[0]
            if not evaluate(theta - step)[0] <= value:
                break
            theta = theta - step
    return theta.reshape(start.shape)


def softmax_curvature(
    theta: FloatArray, design: FloatArray, mass: FloatArray, ridge: FloatArray, *, diagonal: bool
) -> FloatArray:
    """Second derivatives of the penalised loss, weights in the order of ``theta.ravel()``."""
    k = theta.shape[1]
    p = np.exp(log_softmax(design * theta[0] + theta[1] if diagonal else design @ theta))
    out = np.zeros((theta.size, theta.size))
    for a in range(k):
        for b in range(k):
            v = mass * p[:, a] * ((a == b) - p[:, b])
            left, right = (
                (np.stack([design[:, j], np.ones(len(v))], axis=1) for j in (a, b)) if diagonal else (design, design)
            )
            out[a::k, b::k] = (left.T * v) @ right
    out[np.diag_indices(theta.size)] += ridge.ravel()
    return out
