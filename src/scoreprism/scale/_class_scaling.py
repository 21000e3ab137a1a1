"""Temperature and vector scaling fitted to all rows: Newton steps from sums of derivatives, one pass each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import least_distance
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators import TemperatureCalibrator, VectorScalingCalibrator
from scoreprism.losses import ProperLoss
from scoreprism.scale._class_rows import ClassRows, Facts, code_classes
from scoreprism.scale._column_settings import ColumnRoles
from scoreprism.scale._engine_pass import group_rows
from scoreprism.scale._engines import fetch
from scoreprism.scale._expressions import (
    SoftmaxExpression,
    add_columns,
    build_log_hit,
    list_columns,
    number_charts,
    pick,
    with_logs,
    with_maps,
)

#: Number of first rows that give starting values.
_HEAD = 10_000
#: The common fit stops when a step gains less than this in twice the log-likelihood: folds differ by more.
_NEAR = 0.05
#: A fold's fit stops when its distance from the optimum, in standard errors, is below this times √n.
_DONE = 1e-9
#: Most passes of a fit.
_PATIENCE = 40
#: Bounds of a sharpness (1/T), as in memory, and its largest change in one step.
_ENDS, _LEAP = (1e-6, 1e6), 8.0


@dataclass(frozen=True)
class Scaling:
    """Parameters of the map: one slope for all classes (temperature), or slope and intercept for each (vector)."""

    name: str  # as in `CALIBRATORS`
    ridge: float  # ½·ridge·Σ(θ − identity)² is added to the negative log-likelihood; 0 for temperature

    @classmethod
    def of(cls, calibrator: object) -> Scaling | None:
        """The scaling of a calibrator; None if it is another kind of map."""
        if isinstance(calibrator, str) and calibrator == "temperature":
            calibrator = TemperatureCalibrator()
        elif isinstance(calibrator, str) and calibrator in ("vector", "vector-scaling"):
            calibrator = VectorScalingCalibrator()
        if type(calibrator) is TemperatureCalibrator:
            return cls("temperature", 0.0)
        if type(calibrator) is VectorScalingCalibrator:
            ridge = calibrator.ridge
            if not isinstance(ridge, (int, float)) or not ridge > 0.0:
                refuse("`ridge` must be a positive number", repr(ridge), "The default is 0.01.")
            return cls("vector-scaling", float(ridge))
        return None

    @property
    def is_vector(self) -> bool:
        """Whether every class has its own parameters."""
        return self.name != "temperature"

    def identity(self, k: int) -> FloatArray:
        """Parameters that leave a score unchanged."""
        return np.concatenate([np.ones(k), np.zeros(k)]) if self.is_vector else np.ones(1)

    def make_map(self, theta: FloatArray, k: int, low: float | None = None, floor: float = 0.0) -> SoftmaxExpression:
        """Make the map with these parameters."""
        if self.is_vector:
            return SoftmaxExpression(theta[:k], theta[k:], low, floor)
        return SoftmaxExpression(np.full(k, theta[0]), np.zeros(k), low, floor)

    def take_step(self, theta: FloatArray, step: FloatArray) -> FloatArray:
        """Take a step, keeping a sharpness within its bounds."""
        if self.is_vector:
            return theta - step
        low, high = max(_ENDS[0], theta[0] / _LEAP), min(_ENDS[1], theta[0] * _LEAP)
        return np.clip(theta - step, low, high)

    # ── derivatives ─────────────────────────────────────────────────────────────────────────────────

    def build_slopes(self, f: int, c: int, k: int) -> list[nw.Expr]:
        """First derivatives of −log p_y, of map f at the log-probabilities c."""
        p, z = list_columns(f"m{f}", k), list_columns(f"z{c}", k)
        if not self.is_vector:
            return [add_columns([a * b for a, b in zip(p, z, strict=True)]) - pick(z)]
        error = [a - (nw.col("y") == j).cast(nw.Float64) for j, a in enumerate(p)]
        return [*(a * b for a, b in zip(error, z, strict=True)), *error]

    def build_curves(self, f: int, c: int, k: int) -> list[nw.Expr]:
        """Second derivatives, in the order of `_list_places`."""
        p, z = list_columns(f"m{f}", k), list_columns(f"z{c}", k)
        if not self.is_vector:
            mean = add_columns([a * b for a, b in zip(p, z, strict=True)])
            return [add_columns([a * b * b for a, b in zip(p, z, strict=True)]) - mean * mean]
        entries = []
        for i, j in zip(*self._list_places(k), strict=True):
            a, b = i % k, j % k
            v = p[a] * (1.0 - p[a]) if a == b else 0.0 - p[a] * p[b]
            v = v * z[a] if i < k else v
            entries.append(v * z[b] if j < k else v)
        return entries

    def _list_places(self, k: int) -> tuple[IntArray, IntArray]:
        """Rows and columns of the second derivatives: on and above the diagonal, row by row."""
        return np.triu_indices(self.identity(k).size)

    def fill_matrix(self, entries: FloatArray, k: int) -> FloatArray:
        """Fill the symmetric matrix of second derivatives."""
        size, places = self.identity(k).size, self._list_places(k)
        curve = np.empty((size, size))
        curve[places] = curve.T[places] = entries
        return curve

    def penalise(
        self, theta: FloatArray, slope: FloatArray, curve: FloatArray, k: int
    ) -> tuple[FloatArray, FloatArray]:
        """Add the derivatives of the ridge."""
        away = theta - self.identity(k)
        return slope + self.ridge * away, curve + self.ridge * np.eye(theta.size)

    # ── what depends on the rows of a fit ───────────────────────────────────────────────────────────

    def find_floor(self, least: float, mass: float, k: int) -> float:
        """The smallest probability a map may give, from the smallest one on the rows it was fitted to."""
        most = min(least_distance(mass), 0.5 / k)
        return float(min(most, max(least, most**2 if self.is_vector else 1e-300)))


@dataclass(frozen=True)
class ClassRequest:
    """The arguments of `decompose` for several classes, parsed as far as possible without the data."""

    roles: ColumnRoles
    loss: ProperLoss
    calibrator: object
    scaling: Scaling | None
    cv: int
    form: str
    clip: float | None
    seed: int
    random_state: object
    sample: int


class ScalingFit:
    """A fit in progress: `steps` yields after each pass over the data; at the end `maps` and `common` are set."""

    maps: list[SoftmaxExpression]  # of each fold, fitted without it
    common: FloatArray  # parameters fitted to all rows

    def __init__(self, rows: ClassRows, facts: Facts, home: IntArray, scaling: Scaling) -> None:
        self.rows, self.facts, self.home, self.scaling = rows, facts, home, scaling
        self.k, self.folds = rows.k, int(home.max()) + 1
        table = facts.table
        # Kish's factor, as in memory
        self.worth = float(table["w"].sum() / table["w2"].sum()) if rows.roles.has_weights else 1.0
        self.lows = [self._find_low(home != f) for f in range(self.folds)]
        if not scaling.is_vector:
            self._require_errors()

    # ── facts of the first pass ─────────────────────────────────────────────────────────────────────

    def _mass(self, lines: Any) -> float:
        return float(self.facts.table["w"][lines].sum()) * self.worth

    def _find_low(self, lines: Any) -> float:
        """As `smallest` in memory: half the smallest probability where zeros occur, else it or 1/(2n) if less."""
        table = self.facts.table
        least = float(table["least"][lines].min())
        zeros = bool(table["zeros"][lines].any())
        return max(0.5 * least if zeros else min(least, least_distance(self._mass(lines))), 1e-290)

    def _require_errors(self) -> None:
        """Refuse data whose outcome was always the likeliest class: no sharpness is then the best."""
        for f in range(self.folds):
            lines = self.home != f
            if self.facts.table["worst"][lines].min() >= 0.0 and self.facts.table["best"][lines].max() > 0.0:
                refuse(
                    "`calibrator`='temperature' must have rows where the likeliest class did not occur",
                    f"none outside of fold number {f}",
                    "Use `calibrator`='vector', or 'auto'.",
                )

    # ── passes ──────────────────────────────────────────────────────────────────────────────────────

    def steps(self) -> Iterator[None]:
        """Fit, one pass after the other."""
        theta = self._find_start()
        slope, curve = np.zeros(0), np.zeros(0)
        best, on, value = theta, theta, np.inf
        for _ in range(_PATIENCE):
            loss, slope, curve = self._pass_common(theta)
            yield
            ridged = 0.5 * self.scaling.ridge * float(((theta - self.scaling.identity(self.k)) ** 2).sum())
            new = float(loss.sum()) + ridged
            if new > value * (1.0 + 1e-12):  # too far: halve the step
                theta = 0.5 * (theta + best)
                continue
            best, value = theta, new
            whole = self.scaling.penalise(theta, slope.sum(axis=0), curve.sum(axis=0), self.k)
            step, size = _step_newton(*whole)
            on = self.scaling.take_step(theta, step)
            if size**2 <= _NEAR or np.array_equal(on, theta):
                break
            theta = on
        yield from self._step_folds(theta, slope, curve)
        self.common = on  # a step on from where the folds began

    def _step_folds(self, theta: FloatArray, slope: FloatArray, curve: FloatArray) -> Iterator[None]:
        """Each fold's own parameters: one Newton step from the common ones, then steps by its own slopes."""
        without = range(self.folds)
        curves = [curve.sum(axis=0) - curve[f] for f in without]
        thetas, first = [], np.zeros(self.folds)
        for f in without:
            away = self.scaling.penalise(theta, slope.sum(axis=0) - slope[f], curves[f], self.k)
            step, first[f] = _step_newton(*away)
            thetas.append(self.scaling.take_step(theta, step))
        before, curved, floors = first, False, [0.0] * self.folds
        for _ in range(_PATIENCE):
            slopes, fresh, least = self._pass_folds(thetas, curved=curved)
            curves = fresh if fresh is not None else curves
            yield
            floors = [self.scaling.find_floor(least[f], self._mass(self.home != f), self.k) for f in without]
            sizes, on = np.zeros(self.folds), []
            for f in without:
                step, sizes[f] = _step_newton(*self.scaling.penalise(thetas[f], slopes[f], curves[f], self.k))
                on.append(self.scaling.take_step(thetas[f], step))
            shrunk = np.minimum(sizes / np.maximum(before, 1e-300), 1.0)
            still = all(np.array_equal(a, b) for a, b in zip(on, thetas, strict=True))
            thetas = on
            if float((sizes * shrunk).max()) <= _DONE * math.sqrt(self._mass(slice(None))) or still:
                break
            # slow steps: the common curvature is too far off, and each fold needs its own
            curved = curved or bool((shrunk > 0.3).any())
            before = sizes
        else:
            refuse("the fit must come to an end", f"{_PATIENCE} passes without one", "Use `calibrator`='auto'.")
        table = self.facts.table
        matter = table["zeros"].any() or float(table["least"].min()) < max(self.lows)
        lows = self.lows if matter else [None] * self.folds  # no probability is below any of them
        parts = zip(thetas, lows, floors, strict=True)
        self.maps = [self.scaling.make_map(own, self.k, low, floor) for own, low, floor in parts]

    def _pass_common(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Loss, first and second derivatives of each fold at common parameters."""
        whole = slice(None)
        low = self._find_low(whole) if self.facts.table["zeros"].any() else None
        slopes, curves = (make(0, 0, self.k) for make in (self.scaling.build_slopes, self.scaling.build_curves))
        columns = {"loss": 0.0 - build_log_hit(0, self.k)}
        columns |= {f"g{i}": one for i, one in enumerate(slopes)} | {f"c{i}": one for i, one in enumerate(curves)}
        table = self._sum_by_fold([self.scaling.make_map(theta, self.k, low)], columns)
        g = self._read_folds(table, [f"g{i}" for i in range(len(slopes))])
        c = self._read_folds(table, [f"c{i}" for i in range(len(curves))])
        matrices = np.stack([self.scaling.fill_matrix(line, self.k) for line in c])
        return self._read_folds(table, ["loss"])[:, 0], g, matrices

    def _pass_folds(
        self, thetas: Sequence[FloatArray], *, curved: bool
    ) -> tuple[FloatArray, list[FloatArray] | None, FloatArray]:
        """First derivatives of each fold's fit (with `curved` the second too), and the smallest value of its law."""
        lows = self.lows if self.facts.table["zeros"].any() else [None] * self.folds
        maps = [self.scaling.make_map(theta, self.k, low) for theta, low in zip(thetas, lows, strict=True)]
        columns: dict[str, nw.Expr] = {}
        size, count = thetas[0].size, 0
        for f, c in enumerate(number_charts(maps)):
            columns |= {f"g{f}_{i}": one for i, one in enumerate(self.scaling.build_slopes(f, c, self.k))}
            if curved:
                second = self.scaling.build_curves(f, c, self.k)
                columns |= {f"c{f}_{i}": one for i, one in enumerate(second)}
                count = len(second)
        least = {f"least{f}": nw.min_horizontal(*list_columns(f"m{f}", self.k)) for f in range(self.folds)}
        table = self._sum_by_fold(maps, columns, least)
        g, low = np.zeros((self.folds, size)), np.zeros(self.folds)
        own: list[FloatArray] = []
        for f in range(self.folds):
            others = np.arange(self.folds) != f
            g[f] = self._read_folds(table, [f"g{f}_{i}" for i in range(size)])[others].sum(axis=0)
            low[f] = self._read_folds(table, [f"least{f}"], weighted=False)[others].min()
            if curved:
                entries = self._read_folds(table, [f"c{f}_{i}" for i in range(count)])[others].sum(axis=0)
                own.append(self.scaling.fill_matrix(entries, self.k))
        return g, own if curved else None, low

    def _sum_by_fold(
        self, maps: Sequence[SoftmaxExpression], columns: dict[str, nw.Expr], least: dict[str, nw.Expr] | None = None
    ) -> dict[str, Any]:
        """Sum columns by fold, weighted, and take minima."""
        k, w = self.k, nw.col("w") if self.rows.roles.has_weights else None
        summands = {f"s_{name}": value if w is None else w * value for name, value in columns.items()}
        how = dict.fromkeys(summands, "sum") | {f"s_{name}": "min" for name in least or {}}
        summands |= {f"s_{name}": value for name, value in (least or {}).items()}

        def build(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            return with_maps(with_logs(frame, k), maps, k).select("home", **summands)

        return group_rows(self.rows.frame, build, ["home"], how)

    def _read_folds(self, table: dict[str, Any], names: Sequence[str], *, weighted: bool = True) -> FloatArray:
        """Read columns of a small result, a line per fold."""
        columns = np.zeros((self.folds, len(names)))
        for i, name in enumerate(names):
            columns[table["home"].astype(np.intp), i] = table[f"s_{name}"]
        return columns * self.worth if weighted else columns

    def _find_start(self) -> FloatArray:
        """Start from a fit to the first rows, if they hold all classes."""
        names = [f"p0_{j}" for j in range(self.k)]
        head = fetch(self.rows.frame.select("y", *names).head(_HEAD))
        codes = head["y"].astype(np.intp)
        if (np.bincount(codes, minlength=self.k) < 20).any():
            return self.scaling.identity(self.k)
        law = np.column_stack([head[name] for name in names]).astype(np.float64)
        data = FitRows(law, codes, None, self.k, "probability")
        if self.scaling.is_vector:
            weights = VectorScalingCalibrator(ridge=self.scaling.ridge)._fit(data).weights  # type: ignore[attr-defined]
            return np.concatenate([np.diag(weights[:-1]), weights[-1]])
        return np.array([TemperatureCalibrator()._fit(data).sharpness])  # type: ignore[attr-defined]


def _step_newton(slope: FloatArray, curve: FloatArray) -> tuple[FloatArray, float]:
    """The step to subtract, and its size √(g'H⁻¹g): the distance from the optimum in standard errors."""
    if not np.isfinite(curve).all() or not np.isfinite(slope).all():  # pragma: no cover - a softmax is finite
        raise FloatingPointError("derivatives that are not finite")
    step: FloatArray = np.linalg.lstsq(curve, slope, rcond=1e-13)[0].astype(np.float64)
    return step, math.sqrt(max(float(slope @ step), 0.0))


def with_home(rows: ClassRows, labels: Sequence[Any]) -> ClassRows:
    """Rows that have weight, with the number of their fold."""
    frame = rows.frame.filter(nw.col("w") > 0.0) if rows.roles.has_weights else rows.frame
    return replace(rows, frame=frame.with_columns(home=code_classes("fold", labels)))
