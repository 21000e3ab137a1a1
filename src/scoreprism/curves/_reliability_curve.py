"""The reliability curve: how often the event happened where the score said p, with a band."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, refuse, require_jobs
from scoreprism._core.frames import make_frame
from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._kernels.binomial import INTERVALS, rate_interval, sum_interval
from scoreprism._kernels.bins import equal_mass_cuts, even_codes
from scoreprism._kernels.isotonic import run_starts
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.curves._bands import Band, BandRequest
from scoreprism.curves._curve import BinaryRows, Curve, RowCells, parse_binary, weigh_effectively
from scoreprism.curves._decision_curves import ScoreDistribution, histogram
from scoreprism.curves._isotonic_curve import isotonic_band, isotonic_points
from scoreprism.curves._smooth_curves import KernelCurve, SplineCurve, smooth_grid

#: How scores are binned.
STRATEGIES = ("quantile", "uniform")
#: How the curve is estimated, and what its band covers.
METHODS, BANDS = ("isotonic", "spline", "kernel", "bins"), ("consistency", "confidence")
#: Scores, event rates and weights of a curve, and the function that computes its band.
Estimated = tuple[FloatArray, FloatArray, FloatArray, Callable[[BandRequest], Band]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReliabilityCurve(Curve):
    """
    The event rate at each score, and a band.

    Attributes
    ----------
    name : str or None
        The model.
    n : int
        Number of rows with weight.
    method : {"isotonic", "spline", "kernel", "bins"}
        How the curve was estimated.
    x : array of shape (m,)
        Scores, increasing. "isotonic": first and last score of every block, once where they are the same; the curve is
        flat inside a block and straight between two. "spline", "kernel": a grid over the range of scores. "bins": the
        mean score of each bin.
    y : array of shape (m,)
        Estimated event rate at `x`.
    band : {"consistency", "confidence"} or None
        Kind of band.
    confidence_level : float
        Probability of the band.
    uniform : bool
        Whether the band holds at all scores at once.
    band_x, low, high : array or None
        Where the band is given, and its ends.
    weight : array
        Share of the mass in each bin ("bins"), or in the block that a point belongs to ("isotonic"); empty for smooth
        methods.
    distribution : ScoreDistribution
        Histogram of the scores.

    Examples
    --------
    >>> from scoreprism.curves import reliability_curve
    >>> reliability_curve([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9], band=None)
    ReliabilityCurve: isotonic, no band; 4 points (x, y, weight) from 4 rows
    """

    method: str
    x: FloatArray
    y: FloatArray
    band: str | None
    confidence_level: float
    uniform: bool
    band_x: FloatArray | None
    low: FloatArray | None
    high: FloatArray | None
    weight: FloatArray
    distribution: ScoreDistribution

    def _points(self) -> dict[str, FloatArray]:
        columns = {"x": self.x, "y": self.y}
        if self.method != "isotonic" and self.low is not None and self.high is not None:
            columns |= {"low": self.low, "high": self.high}
        return columns | ({"weight": self.weight} if self.weight.size else {})

    def _describe(self) -> str:
        if self.band is None:
            return f"{self.method}, no band"
        return (
            f"{self.method}, {'uniform' if self.uniform else 'pointwise'} {self.confidence_level:.4g} {self.band} band"
        )

    def _band_columns(self) -> dict[str, FloatArray]:
        """The band, column by column; nothing if there is none."""
        if self.band_x is None or self.low is None or self.high is None:
            return {}
        return {"x": self.band_x, "low": self.low, "high": self.high}

    @described()
    def band_frame(self, backend: str | None = None) -> Any:
        """
        The band as a dataframe.

        Returns
        -------
        frame
            Columns x, low and high.
        """
        columns = self._band_columns()
        if not columns:
            refuse("the curve must have a band", "band=None", "Ask for `band`='consistency' or 'confidence'.")
        return make_frame(columns, backend or self._backend)

    def to_dict(self) -> dict[str, Any]:
        """
        The curve and its band as plain Python objects.

        Returns
        -------
        dict
            The options, the points, and the points of the band.
        """
        band = {key: column.tolist() for key, column in self._band_columns().items()}
        about = {
            "method": self.method,
            "band": self.band,
            "confidence_level": self.confidence_level,
            "uniform": self.uniform,
        }
        return super().to_dict() | about | {"band_points": band or None}


@described(of_two=True)
def reliability_curve(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    method: str = "isotonic",
    band: str | None = "consistency",
    confidence_level: float = 0.9,
    uniform: bool = False,
    n_bins: int = 10,
    strategy: str = "quantile",
    interval: str = "mid-p",
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
    name: str | None = None,
) -> ReliabilityCurve:
    """
    How often the event happened among cases with the same score, with a band around the diagonal or the curve.

    A *consistency* band is where the curve would lie if the scores were calibrated: outcomes are redrawn from the
    scores and the curve is found again. A curve that leaves it speaks against calibration. A *confidence* band is where
    the true event rate lies.

    Parameters
    ----------
    method : {"isotonic", "spline", "kernel", "bins"}, default="isotonic"
        Isotonic regression (CORP), the monotone spline of `MonotoneSplineCalibrator`, a kernel estimate, or bins.
    band : {"consistency", "confidence"} or None, default="consistency"
        Kind of band.
    confidence_level : float, default=0.9
        Probability of the band.
    uniform : bool, default=False
        Whether the band holds at all scores at once instead of at each one; it then contains the pointwise band.
    n_bins : int, default=10
        Number of bins; fewer come back where equal scores or empty bins leave no room.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass, with equal scores kept together, or of equal width: (a, b], with 0 in the first.
    interval : {"mid-p", "clopper-pearson", "wilson", "jeffreys"}, default="mid-p"
        Binomial interval of a bin: "mid-p" has the level on average over event rates, "clopper-pearson" at least the
        level for each, which in small bins is far more. The consistency band of bins takes half of, or all of, the
        probability of a count into its tail accordingly; under unequal weights it is redrawn, and the same for all.
    n_resamples : int, default=1000
        Redrawn curves, at least 2/(1 − level) − 1: one must be expected beyond either end of the band. Bins without
        unequal weights, and pointwise confidence bands of smooth curves, need none and ignore it. Uniform consistency
        bands of weighted bins need it for level^(1/bins).
    sample_weight : array-like of shape (n,), optional
        Weights, on any scale. Integer weights give the isotonic and binned curve of repeated rows. Bands, and the
        smoothness of smooth curves, treat every row as one outcome: n rows of unequal weight are worth (Σw)²/Σw²
        of equal weight.
    random_state : int, Generator or None, default=0
        Seed. Redrawn curve b depends on it and on b alone, not on their number.

    Returns
    -------
    ReliabilityCurve
        Points and band.

    Notes
    -----
    Confidence bands of "isotonic" assume that the event rate does not fall as the score rises. Pointwise, the
    likelihood ratio of "the rate is θ at this score" is inverted (Banerjee and Wellner 2001); uniformly, means over
    all intervals are bounded at once (as Dimitriadis, Dümbgen, Henzi, Puke and Ziegel 2023 do, with a threshold found
    by redrawing). "spline" uses the Bayesian covariance of the penalised fit on the logit scale, "kernel" binomial
    intervals with the effective number of rows in each window, around the estimate less its bias: they are widened to
    hold the curve, but are not centred on it. Coverage by simulation: docs/curves.md.

    Warns with `RefutedShapeWarning` where the uniform isotonic confidence band finds that the event rate falls.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(500)
    >>> curve = reliability_curve(rng.random(500) < s**2, s, method="bins", n_bins=5, band="confidence")
    >>> curve.y.round(2)
    array([0.03, 0.11, 0.3 , 0.55, 0.85])
    >>> curve
    ReliabilityCurve: bins, pointwise 0.9 confidence band; 5 points (x, y, low, high, weight) from 500 rows
    """
    chosen_method = parse_choice(method, METHODS, "method")
    count, kind = parse_count(n_bins, "n_bins", 1), parse_choice(strategy, STRATEGIES, "strategy")
    require_jobs(n_jobs)
    request = BandRequest(
        kind="none" if band is None else parse_choice(band, BANDS, "band"),
        confidence_level=parse_confidence(confidence_level),
        uniform=_parse_flag(uniform),
        n_resamples=parse_count(n_resamples, "n_resamples", 2),
        streams=Streams.of(random_state),
        n_jobs=n_jobs,
        interval=parse_choice(interval, INTERVALS, "interval"),
    )
    rows = weigh_effectively(parse_binary(y_true, y_proba, sample_weight, pos_label, classes))
    x, y, weight, find_band = _estimate(rows, chosen_method, count, kind)
    estimated_band = None if request.kind == "none" else find_band(request)
    return ReliabilityCurve(
        name=name,
        n=rows.n,
        _backend=rows.backend,
        method=chosen_method,
        x=x,
        y=y,
        band=None if estimated_band is None else request.kind,
        confidence_level=request.confidence_level,
        uniform=request.uniform,
        band_x=None if estimated_band is None else estimated_band.x,
        low=None if estimated_band is None else estimated_band.low,
        high=None if estimated_band is None else estimated_band.high,
        weight=weight,
        distribution=histogram(rows, 1000, name),
    )


def _parse_flag(value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        refuse("`uniform` must be True or False", repr(value), "True asks for a band that holds at all scores at once.")
    return bool(value)


def _estimate(rows: BinaryRows, method: str, n_bins: int, strategy: str) -> Estimated:
    """The points of the curve, and the function that computes its band."""
    if method == "bins":
        bins = bin_rows(rows, n_bins, strategy)
        return *bin_points(bins), lambda request: bin_band(bins, request)
    if method == "isotonic":
        return *isotonic_points(rows), lambda request: isotonic_band(rows, request)
    grid = smooth_grid(rows.score)
    smooth = SplineCurve(rows, grid) if method == "spline" else KernelCurve(rows, grid)
    return smooth.x, smooth.y, np.empty(0), smooth.band


# ── bins ────────────────────────────────────────────────────────────────────────────────────────────


def bin_rows(rows: BinaryRows, n_bins: int, strategy: str) -> RowCells:
    """Bins of equal mass (equal scores stay together) or equal width, (a, b]; empty bins are left out."""
    if n_bins > rows.n:
        refuse("`n_bins` must be at most the number of rows", f"{n_bins} bins for {rows.n} rows", "Use fewer bins.")
    if strategy == "uniform":
        index = even_codes(rows.score, n_bins)
    else:
        index = np.searchsorted(equal_mass_cuts(rows.score, rows.weight, n_bins), rows.score, side="right")
    order = np.argsort(index, kind="stable")
    return RowCells(rows.take(order), run_starts(index[order]))


def bin_points(bins: RowCells) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean score, event rate and share of mass of each bin."""
    return bins.mean(bins.rows.score), bins.mean(bins.rows.y), bins.weight / bins.weight.sum()


def bin_band(bins: RowCells, request: BandRequest) -> Band:
    """Intervals of the bins; if uniform, of level^(1/b) each (Šidák), as bins are independent given the scores."""
    x, rate, _ = bin_points(bins)
    level = request.confidence_level ** (1.0 / x.size) if request.uniform else request.confidence_level
    if request.kind == "confidence":
        return Band(x, *rate_interval(rate * bins.size, bins.size, level, request.interval))
    if bins.rows.weight is None:
        scores = np.split(bins.rows.score, bins.first[1:])
        ends = np.array([sum_interval(score, level, request.interval) for score in scores])
        return Band(x, *(ends / bins.size[:, None]).T)
    each = replace(request, confidence_level=level, uniform=False)
    return Band(x, *each.enclose(lambda rng: bins.redraw(rng) / bins.weight))
