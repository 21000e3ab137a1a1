"""Summaries of the distance of a parametric map from the identity, with intervals that also hold near it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray, as_matrix
from scoreprism._document.result import Record
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding, Noted
from scoreprism._findings.wording import write_percent
from scoreprism._kernels.term_intervals import Interval
from scoreprism.inference._map_sandwich import Sandwich, Scheme, sum_clusters
from scoreprism.losses import ProperLoss

#: Summaries by name.
MAP_SUMMARIES = ("ici", "lcs", "rms", "reliability")
#: Summaries that are cut at 0 because their bias correction is not exact.
_NORMS = ("ici", "rms")
#: Angles at which a two-parameter ellipse is evaluated, and steps of the search on larger ellipsoids.
_ANGLES, _STEPS = 32, 12

#: A function of S and g(S) that returns the rows of a summary and a function for their gradients in g(S).
Rows = Callable[[FloatArray, FloatArray], tuple[FloatArray, Callable[[], FloatArray]]]


@dataclass(frozen=True, repr=False)
class MapSummary(Noted, Record):
    """
    A summary of a recalibration map over the scores, with its interval.

    Made by `MapInference.summary`.

    Attributes
    ----------
    kind : str
        Which summary it is.
    value : float
        The estimate: plug-in minus bias. "lcs" and "reliability" may come out below 0 for a calibrated score.
    std_error : float
        Delta method: from the parameters and from the sampling of the scores.
    plugin : float
        The mean over the rows at the fitted parameters.
    bias : float
        By how much the noise of the parameters raises the plug-in, in second order.
    interval : Interval
        Confidence interval.
    degenerate : bool
        Whether the identity map is not rejected, where the delta method breaks down.
    findings : tuple of Finding
        Caveats.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.inference import map_inference
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(2000)
    >>> result = map_inference(rng.random(2000) < s**2, s, calibrator="platt").summary("ici")
    >>> bool(result.interval.low < 1 / 6 < result.interval.high)      # ∫ s − s² ds
    True
    """

    kind: str
    value: float
    std_error: float
    plugin: float
    bias: float
    interval: Interval
    degenerate: bool
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain values.

        Returns
        -------
        dict
            Ready for JSON.
        """
        parts = {"interval": self.interval.to_dict(), "findings": [one.to_dict() for one in self.findings]}
        plain: dict[str, Any] = encode(self._fields() | parts)
        return plain

    def _columns(self) -> dict[str, list[Any]]:
        values = self._fields() | {"low": self.interval.low, "high": self.interval.high}
        return {name: [value] for name, value in values.items() if name not in ("interval", "degenerate", "findings")}

    def _title(self) -> str:
        return f"{self.kind} of a recalibration map, {write_percent(self.interval.confidence_level)} interval"

    def _findings(self) -> Sequence[Finding]:
        return self.findings

    def __repr__(self) -> str:
        i = self.interval
        level = f"{100 * i.confidence_level:g} %"
        head = f"{self.kind} {self.value:.5f}, {level} interval {i.low:.5f} to {i.high:.5f} ({i.method}); "
        more = f"standard error {self.std_error:.5f}; plug-in {self.plugin:.5f}"
        return "\n".join([head + more, *(f"  note: {note}" for note in self.notes)])


def make_rows(kind: str, loss: ProperLoss | None) -> Rows:
    """The rows of a summary."""
    if kind == "ici":
        return lambda s, g: (0.5 * np.abs(g - s).sum(axis=1), lambda: 0.5 * np.sign(g - s))
    if loss is None:

        def squares(s: FloatArray, g: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
            half = 0.5 if s.shape[1] == 2 else 1.0  # the binary form has one square, not two
            return half * ((g - s) ** 2).sum(axis=1), lambda: 2.0 * half * (g - s)

        return squares

    def divergences(s: FloatArray, g: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
        def slopes() -> FloatArray:  # ∂d(s, g)/∂g_j = ℓ(s, j) − ℓ(g, j), by Savage
            every = [np.full(s.shape[0], j) for j in range(s.shape[1])]
            return np.column_stack([loss.evaluate(s, y) - loss.evaluate(g, y) for y in every])

        return loss.divergence(s, g), slopes

    return divergences


@dataclass(frozen=True)
class Functional:
    """The mean of a summary's rows as a function of the parameters."""

    scheme: Scheme
    score: FloatArray
    weight: FloatArray
    rows: Rows
    root: bool

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient in the parameters, and the rows."""
        total = float(self.weight.sum())
        law = as_matrix(self.score)
        values, slope = np.empty(self.weight.size), np.zeros(theta.size)
        for part, g, design in self.scheme.blocks(self.score, theta):
            values[part], slopes = self.rows(law[part], g)
            up = slopes()
            inner = (up - (up * g).sum(axis=1, keepdims=True)) * g
            slope += np.einsum("n,nk,nkp->p", self.weight[part], inner, design, optimize=True)
        mean = float(self.weight @ values) / total
        if not self.root:
            return mean, slope / total, values
        size = math.sqrt(mean)
        chain = 0.5 / size if size > 0.0 else 0.0
        return size, chain * slope / total, size + chain * (values - mean)

    def value(self, theta: FloatArray) -> float:
        """The value alone."""
        rows, _ = self.rows(as_matrix(self.score), self.scheme.law(self.score, theta))
        mean = float(self.weight @ rows / self.weight.sum())
        return math.sqrt(mean) if self.root else mean


def measure_spread(functional: Functional, sandwich: Sandwich, theta: FloatArray) -> tuple[float, float, float]:
    """Value, total variance, and the part of it that does not come from the parameters alone."""
    value, slope, rows = functional.evaluate(theta)
    sampled = sum_clusters(functional.weight * (rows - value) / functional.weight.sum(), sandwich.clusters)
    fitted = sum_clusters(sandwich.influence @ slope, sandwich.clusters)
    total = sandwich.factor * float((sampled + fitted) @ (sampled + fitted))
    return value, total, max(total - sandwich.factor * float(fitted @ fitted), 0.0)


def find_noise_bias(functional: Functional, theta: FloatArray, root: FloatArray, value: float) -> float:
    """Mean over normal parameters minus the value: exact for quadratic summaries (2p points, cubature of degree 3)."""
    steps = math.sqrt(root.shape[1]) * root.T
    return float(np.mean([functional.value(theta + sign * step) for step in steps for sign in (1.0, -1.0)]) - value)


def find_extremes(functional: Functional, theta: FloatArray, root: FloatArray, radius: float) -> tuple[float, float]:
    """Smallest and largest value on the ellipsoid ``theta + radius · root · u``, ‖u‖ = 1."""
    p = root.shape[1]
    if p == 1:
        units = np.array([[1.0], [-1.0]])
    elif p == 2:
        angle = 2.0 * np.pi * np.arange(_ANGLES) / _ANGLES
        units = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        return _search(functional, theta, root, radius)
    values = [functional.value(theta + radius * root @ u) for u in units]
    return min(values), max(values)


def _search(functional: Functional, theta: FloatArray, root: FloatArray, radius: float) -> tuple[float, float]:
    """Follow the gradient up and down the sphere, from its direction at the centre and from the axes."""
    slope = root.T @ functional.evaluate(theta)[1]
    ends = []
    for sign in (-1.0, 1.0):
        best = []
        for start in (slope, *np.eye(root.shape[1])[-2:], *-np.eye(root.shape[1])[-2:]):
            u = sign * start / max(float(np.linalg.norm(start)), TINY)
            for _ in range(_STEPS):
                value, gradient, _ = functional.evaluate(theta + radius * root @ u)
                best.append(value)
                step = u + sign * (root.T @ gradient) / max(float(np.linalg.norm(root.T @ gradient)), TINY)
                u, before = step / max(float(np.linalg.norm(step)), TINY), u
                if np.linalg.norm(u - before) < 1e-3:
                    break
        ends.append(min(best) if sign < 0.0 else max(best))
    return ends[0], ends[1]


def summarise(
    functional: Functional, sandwich: Sandwich, name: str, how: str, *, confidence_level: float, z: float, near: bool
) -> MapSummary:
    """Estimate and interval; z is the quantile of the level, `near` whether the identity is not rejected."""
    theta = functional.scheme.theta
    with np.errstate(invalid="ignore", divide="ignore"):
        plugin, variance, sampling = measure_spread(functional, sandwich, theta)
    if not math.isfinite(plugin):
        moved = Finding("assumption", facts={"of": "moved_edge"})
        nothing = Interval(math.nan, math.nan, confidence_level, how)
        return MapSummary(name, plugin, math.nan, plugin, math.nan, nothing, near, (moved,))
    root, _ = take_root(sandwich.robust)
    if how == "delta":
        half = z * math.sqrt(variance)
        low, high = plugin - half, plugin + half
    else:
        least, most = find_extremes(functional, theta, root, z)
        low = 0.0 if near else plugin - math.hypot(plugin - min(least, plugin), z * math.sqrt(sampling))
        high = plugin + math.hypot(max(most, plugin) - plugin, z * math.sqrt(sampling))
    bias = find_noise_bias(functional, theta, root, plugin)
    value = max(plugin - bias, 0.0) if name in _NORMS else plugin - bias
    ends = Interval(max(low, 0.0), high, confidence_level, how)
    return MapSummary(
        name,
        value,
        math.sqrt(variance),
        plugin,
        bias,
        ends,
        near,
        _find_cautions(how, confidence_level) if near else (),
    )


def _find_cautions(method: str, confidence_level: float) -> tuple[Finding, ...]:
    """Cautions on the interval if the identity map is not rejected."""
    how = "near_delta" if method == "delta" else "near_profile"
    return (Finding("assumption", confidence_level=confidence_level, facts={"of": how}),)


def take_root(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R with R Rᵀ = covariance, one column per direction that varies (the largest last), and W with RᵀW = 1."""
    scale = np.sqrt(np.maximum(np.diag(covariance), TINY))[:, None]
    values, vectors = np.linalg.eigh(covariance / (scale * scale.T))
    varies = values > 1e-9 * values[-1]
    sizes = np.sqrt(values[varies])
    return scale * vectors[:, varies] * sizes, vectors[:, varies] / sizes / scale
