"""Multinomial logistic regression with a ridge towards a given start: used by the multiclass maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.arrays import like, multiply, namespace, to_host, widen
from scoreprism._core.numerics import TINY, row_blocks
from scoreprism._core.simplex import FloatArray, IntArray, one_hot_like, pick
from scoreprism._core.workers import limit_threads

#: Weights up to which a fit takes Newton steps; and up to which it does so if it need not be tight.
_DENSE, _FEW = 700, 150
#: Products of pairs of weights and rows up to which a slope and a constant for each class are few as well.
_FEW_PRODUCTS = 10**10
#: A slope (of the mean loss) below this is a minimum; and in single precision.
_FLAT, _FLAT_SINGLE = 1e-11, 1e-6
#: Newton steps at most; and steps with the curvature of another fit, before its own is computed.
_MOST, _BORROWED = 100, 12


class SoftmaxFit(NamedTuple):
    """Weights at the minimum, and the factorised curvature near it (None where it was not needed)."""

    theta: FloatArray
    factor: Any = None


@dataclass(frozen=True)
class SoftmaxProblem:
    """
    The mean of ``−log softmax(design · θ + offset)_y`` and ``½ Σ ridge·(θ − start)² / Σw``, over θ of shape (p, K).

    With `diagonal`, class k sees column k and a constant only, and θ has the shape (2, K). A problem `is_stiff` where
    the ridge outweighs what two weights have in common. Rows are visited in blocks that fit the cache, with classes
    along the first axis: numpy sums a few long lines faster than many short ones.
    """

    design: Any  # (n, p): an array, or columns that are computed by blocks (`ScoreFeatures`)
    codes: IntArray
    weight: FloatArray | None
    start: FloatArray
    ridge: FloatArray
    diagonal: bool = False
    offset: FloatArray | None = None
    is_stiff: bool = False

    @cached_property
    def mass(self) -> FloatArray:
        """The weight of each row."""
        return np.ones(self.codes.shape[0]) if self.weight is None else self.weight

    @cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.mass.sum())

    @property
    def is_single(self) -> bool:
        """Whether sums over a block are taken in single precision, which cannot meet the minimum as tightly."""
        scores = getattr(self.design, "scores", None)
        return scores is not None and bool(scores.is_single)

    def _visit(self, theta: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray, float]]:
        """Block by block: its rows, its design and its probabilities, both transposed, and its summed loss."""
        if not isinstance(self.design, np.ndarray):
            yield from self._visit_features(theta)
            return
        for rows in row_blocks(self.codes.shape[0], max(self.start.shape[1], self.design.shape[1])):
            x, codes = np.ascontiguousarray(self.design[rows].T), self.codes[rows]
            law = theta[:1].T * x if self.diagonal else theta.T @ x
            if self.diagonal:
                law += theta[1:].T
            if self.offset is not None:
                law += self.offset[rows].T
            law -= law.max(axis=0)
            observed = law[codes, np.arange(codes.size)]
            np.exp(law, out=law)
            total = law.sum(axis=0)
            law /= total
            yield rows, x, law, float(self.mass[rows] @ (np.log(total) - observed))

    def _visit_features(self, theta: FloatArray) -> Iterator[tuple[slice, Any, Any, float]]:
        """The same for a design that is computed by blocks, where its scores live."""
        for rows in self.design.blocks():
            z, codes, mass = self._place(rows)
            law, top, observed = self._raise(theta, rows, z, codes)
            xp = namespace(law)
            total = xp.sum(law, axis=1)
            law /= total[:, None]
            yield rows, z.T, law.T, float(xp.sum(widen(mass * (xp.log(total) + (top - observed)))))

    def _place(self, rows: slice) -> tuple[Any, Any, Any]:
        """The design, the codes and the weights of a block, where its scores live."""
        z = self.design.read(rows)
        if isinstance(z, np.ndarray):
            return z, self.codes[rows], self.mass[rows].astype(z.dtype, copy=False)
        if rows.start not in self._kept:
            self._kept[rows.start] = like(self.codes[rows], z), like(self.mass[rows], z, z.dtype)
        return z, *self._kept[rows.start]

    def _raise(self, theta: FloatArray, rows: slice, z: Any, codes: Any) -> tuple[Any, Any, Any]:
        """Of a block: exp(η − the largest η of the row), that largest, and the η of the class that occurred."""
        xp, weights = namespace(z), like(theta, z, z.dtype)
        eta = z * weights[0, ...] + weights[1, ...] if self.diagonal else multiply(z, weights)
        if self.offset is not None:
            eta += like(self.offset[rows], z, z.dtype)
        top = xp.max(eta, axis=1, keepdims=True)
        observed = pick(eta, codes)
        eta -= top
        return np.exp(eta, out=eta) if xp is np else xp.exp(eta), top[:, 0], observed

    @cached_property
    def _kept(self) -> dict[int, tuple[Any, Any]]:
        """Codes and weights of the blocks, on the device of the scores."""
        return {}

    @cached_property
    def _observed(self) -> FloatArray:
        """The sum of the rows of the design by the class that occurred, in the shape of θ."""
        sums, k = np.zeros(self.start.shape), self.start.shape[1]
        for rows in self.design.blocks():
            z, codes, mass = self._place(rows)
            if self.diagonal:
                weight, some = self.mass[rows], self.codes[rows]
                sums[0] += np.bincount(some, weight * to_host(pick(z, codes)), k)
                sums[1] += np.bincount(some, weight, k)
            else:
                hits = one_hot_like(codes, z[:, :k]) * mass[:, None]
                sums += to_host(multiply(namespace(z).matrix_transpose(z), hits))
        return sums

    def _subtract_outcomes(self, law: FloatArray, rows: slice) -> FloatArray:
        """Probabilities minus outcomes, times the weight of their row; of arrays (K, rows)."""
        weight, codes = self.mass[rows], self.codes[rows]
        error = law if self.weight is None else np.multiply(law, weight.astype(law.dtype, copy=False), out=law)
        error[codes, np.arange(codes.size)] -= weight
        return error

    def find_least(self, theta: FloatArray) -> float:
        """The smallest probability of any class in any row."""
        with limit_threads():
            return min(float(law.min()) for _, _, law, _ in self._visit(theta))

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The penalised loss and its slope."""
        loss, slope = (self._sum if isinstance(self.design, np.ndarray) else self._sum_features)(theta)
        away = theta - self.start
        penalty = 0.5 * float((self.ridge * away**2).sum())
        return (loss + penalty) / self.total, (slope + self.ridge * away) / self.total

    def _sum(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The sum of the losses, and its slope."""
        loss, slope = 0.0, np.zeros(self.start.shape)
        for rows, x, law, part in self._visit(theta):
            loss += part
            error = self._subtract_outcomes(law, rows)
            if self.diagonal:
                slope[0] += np.einsum("kb,kb->k", x, error)
                slope[1] += error.sum(axis=1)
            else:
                slope += x @ error.T
        return loss, slope

    def _sum_features(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """
        The same for a design that is computed by blocks, where its scores live.

        What outcomes add to the slope does not depend on θ; a block is read as often as it must be and no more, and
        what comes back of it comes at once: on a device this is what takes the time.
        """
        loss, slope = 0.0, -self._observed
        for rows in self.design.blocks():
            z, codes, mass = self._place(rows)
            law, top, observed = self._raise(theta, rows, z, codes)
            xp = namespace(law)
            total = xp.sum(law, axis=1)
            cost = xp.sum(widen(mass * (xp.log(total) + (top - observed))))
            share = mass / total
            if self.diagonal:
                shift = multiply(share, law)
                law *= z
                parts = [multiply(share, law), shift]
            else:
                law *= share[:, None]
                parts = [xp.reshape(multiply(xp.matrix_transpose(z), law), (-1,))]
            sums = to_host(xp.concat([*(widen(part) for part in parts), xp.reshape(cost, (1,))]))
            loss += float(sums[-1])
            slope += sums[:-1].reshape(slope.shape)
        return loss, slope

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Second derivatives, weights in the order of ``theta.ravel()``."""
        p, k = self.start.shape
        coupled = np.zeros((p * k, p * k))
        for rows, x, law, _ in self._visit(theta):
            xp = namespace(x)
            each = xp.stack([law * x, law]) if self.diagonal else x[:, None, :] * law
            flat = xp.reshape(each, (p * k, -1))
            coupled -= to_host(multiply(flat * like(self.mass[rows], flat, flat.dtype), flat.T))
        own = np.arange(k)
        coupled.reshape(p, k, p, k)[:, own, :, own] += self._own_curvature(theta)
        coupled[np.diag_indices(p * k)] += self.ridge.ravel()
        return coupled / self.total

    def weight_curvature(self, theta: FloatArray) -> FloatArray:
        """The diagonal of `curvature`, at most a little more than it is there, in the shape of θ."""
        own = np.zeros(self.start.shape)
        for rows, x, law, _ in self._visit(theta):
            own += to_host(multiply(x * x, (law * like(self.mass[rows], law, law.dtype)).T))
        return (own + self.ridge) / self.total

    def class_curvature(self, theta: FloatArray) -> FloatArray:
        """The blocks of `curvature` that belong to one class, (K, p, p): each at least what it is there."""
        own = self._own_curvature(theta)
        weights = np.arange(own.shape[1])
        own[:, weights, weights] += self.ridge.T
        return own / self.total

    def _own_curvature(self, theta: FloatArray) -> FloatArray:
        """Σ w·p_k·xxᵀ of each class, (K, p, p)."""
        p, k = self.start.shape
        own = np.zeros((k, p, p))
        for rows, x, law, _ in self._visit(theta):
            weight = law * like(self.mass[rows], law, law.dtype)
            if self.diagonal:
                weighted = weight * x
                own[:, 0, 0] += to_host(namespace(x).sum(weighted * x, axis=1))
                own[:, 0, 1] += to_host(namespace(x).sum(weighted, axis=1))
                own[:, 1, 1] += to_host(namespace(x).sum(weight, axis=1))
            else:
                own += [to_host(multiply(x * weight[j, ...], x.T)) for j in range(k)]
        if self.diagonal:
            own[:, 1, 0] = own[:, 0, 1]
        return own


def fit_softmax(problem: SoftmaxProblem, near: SoftmaxFit | None = None, *, tight: bool = True) -> SoftmaxFit:
    """
    Minimise a penalised softmax loss; where the ridge is positive everywhere, the minimum exists and is unique.

    `near` is a fit to almost the same rows: the search starts there, with its curvature. Without `tight` the minimum is
    met to about six digits of the loss.
    """
    size = problem.start.size
    is_dense = size <= (_DENSE if tight else _FEW)
    if problem.diagonal and tight and size**2 * problem.codes.size <= _FEW_PRODUCTS:
        is_dense = True
    with limit_threads():  # products of a block are too small for more; OpenBLAS wakes all of them (scipy issue 22438)
        if is_dense:
            return _descend_newton(problem, near)
        return SoftmaxFit(_descend_scaled(problem, problem.start if near is None else near.theta, tight=tight))


def _descend_newton(problem: SoftmaxProblem, near: SoftmaxFit | None) -> SoftmaxFit:
    """Newton's method, steps halved until they lower the loss."""
    theta, factor = (problem.start, None) if near is None else near
    flat, rounding = (_FLAT_SINGLE, 1e-7) if problem.is_single else (_FLAT, 1e-13)
    value, slope = problem.evaluate(theta)
    borrowed = 0 if factor is None else _BORROWED
    for step_number in range(_MOST):
        steepest = float(np.abs(slope).max())
        if steepest <= flat:
            break
        if step_number >= borrowed:
            factor = _factorise(problem.curvature(theta))
        step = _solve(factor, slope.ravel()).reshape(theta.shape)
        gain, length = float((step * slope).sum()), 1.0
        is_rounding = gain <= rounding * abs(value)  # the loss can no longer tell: the slope decides
        while True:
            there = theta - length * step
            value_there, slope_there = problem.evaluate(there)
            if value_there <= value - 1e-4 * length * gain or is_rounding or length < 1e-8:
                break
            length *= 0.5
        steepest_there = float(np.abs(slope_there).max())
        if is_rounding and steepest_there >= steepest:
            break
        if step_number < borrowed and steepest_there > 0.5 * steepest:
            borrowed = 0  # the rows differ too much: this fit needs a curvature of its own
        theta, value, slope = there, value_there, slope_there
    return SoftmaxFit(theta, factor)


def _factorise(matrix: FloatArray) -> Any:
    from scipy.linalg import LinAlgError, cho_factor

    diagonal = np.diag_indices(len(matrix))
    jitter = 1e-15 * float(matrix[diagonal].max())
    for _ in range(8):
        try:
            return cho_factor(matrix, check_finite=False)
        except LinAlgError:  # separated classes leave little but a tiny ridge
            matrix = matrix.copy()
            matrix[diagonal] += jitter
            jitter *= 10.0
    return cho_factor(np.diag(matrix[diagonal]))


def _solve(factor: Any, values: FloatArray) -> FloatArray:
    from scipy.linalg import cho_solve

    return np.asarray(cho_solve(factor, values, check_finite=False))


def _descend_scaled(problem: SoftmaxProblem, theta: FloatArray, *, tight: bool) -> FloatArray:
    """L-BFGS in coordinates in which the curvature of each class, or of each weight, is about one: many weights."""
    from scipy.optimize import minimize

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
    if (
        problem.is_single
    ):  # rounding of the loss hides smaller gains, and the search for them costs as much as all before
        options |= {"ftol": 1e-9, "gtol": _FLAT_SINGLE}
    elif problem.is_stiff:  # there a slope of 1e-6 is a loss of 1e-12 above the minimum
        options |= {"ftol": 1e-10, "gtol": _FLAT_SINGLE}
    if not tight:
        options |= {"maxiter": 200, "ftol": 1e-9, "gtol": 1e-5}
    move, turn = (_scale_weights if problem.is_stiff else _scale_classes)(problem, theta)

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        value, slope = problem.evaluate(theta + move(flat))
        return value, turn(slope)

    found = minimize(evaluate, np.zeros(theta.size), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(theta + move(found.x))


#: How far weights move for a step in scaled coordinates, and the slope in them for a slope in weights.
_Scaling = tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]


def _scale_classes(problem: SoftmaxProblem, theta: FloatArray) -> _Scaling:
    """Coordinates in which the curvature of each class is one."""
    curvature = problem.class_curvature(theta)
    weights = np.arange(curvature.shape[1])
    # classes of few rows may have no curvature to speak of; the coordinates need not be exact
    curvature[:, weights, weights] += 1e-10 * curvature[:, weights, weights].max(axis=1, keepdims=True) + TINY
    back = np.linalg.inv(np.linalg.cholesky(curvature))  # (K, p, p)
    lines = back.shape[:2]
    return (
        lambda flat: np.asarray(np.matmul(flat.reshape(lines)[:, None, :], back)[:, 0].T),
        lambda slope: np.matmul(back, slope.T[:, :, None]).ravel(),
    )


def _scale_weights(problem: SoftmaxProblem, theta: FloatArray) -> _Scaling:
    """Coordinates in which the curvature of each weight is one."""
    scale = 1.0 / np.sqrt(problem.weight_curvature(theta))
    return lambda flat: scale * flat.reshape(scale.shape), lambda slope: (scale * slope).ravel()
