"""The partition lower bound on grouping: bins of the score × regions of the features (Perez-Lebel et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, parse_random_state, refuse
from scoreprism._core.labels import parse_groups
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector
from scoreprism._document.result import Record
from scoreprism._kernels.bins import equal_mass_cuts
from scoreprism._kernels.term_intervals import Bound, quantile
from scoreprism._parameters import described
from scoreprism._sample.features import Encoder
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import get_calibrator
from scoreprism.losses import ProperLoss, get_loss


@dataclass(frozen=True, repr=False)
class PartitionBound(Record):
    """
    Grouping loss that a partition of the features explains.

    Attributes
    ----------
    explained : float
        Divergence of the mean outcome of each region from that of its bin of the score: biased up.
    bias : float
        What chance adds to it, by the jackknife (exact for Brier).
    induced : float
        What only the width of the bins adds to it: how far C varies within them.
    std_error : float
        Standard error of the estimate.
    n_regions : int
        Regions with at least two rows.
    n : int
        Rows in them.

    Examples
    --------
    >>> bound = PartitionBound(0.0128, 0.0035, 0.0001, 0.002, 60, 2000)
    >>> round(bound.estimate, 4), round(bound.lower_bound().value, 4)
    (0.0092, 0.0059)
    """

    explained: float
    bias: float
    induced: float
    std_error: float
    n_regions: int
    n: int

    def __repr__(self) -> str:
        bound = self.lower_bound()
        parts = f"explained {self.explained:.5f} − bias {self.bias:.5f} − induced {self.induced:.5f}"
        where = f"{self.n_regions} regions of {self.n} rows"
        return f"grouping {self.estimate:.5f}, at least {bound.value:.5f} (95 %): {parts}; {where}"

    @property
    def estimate(self) -> float:
        """Grouping loss that the partition explains: explained − bias − induced. The whole of it is no less."""
        return self.explained - self.bias - self.induced

    def _fields(self) -> dict[str, Any]:
        return {"estimate": self.estimate, **super()._fields()}

    def _title(self) -> str:
        return f"Grouping loss that a partition explains, at least {self.lower_bound().value:.5f} at 95 %"

    def lower_bound(self, confidence_level: float = 0.95) -> Bound:
        """
        One-sided lower confidence bound of the grouping loss.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence level.

        Returns
        -------
        Bound
            The estimate minus z standard errors.
        """
        confidence = parse_confidence(confidence_level)
        return Bound(self.estimate - quantile(confidence, two_sided=False) * self.std_error, confidence)


@described(of_two=True)
def partition_lower_bound(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    X: ArrayLike | None = None,
    *,
    partition: ArrayLike | None = None,
    loss: str | ProperLoss = "log",
    n_bins: int = 15,
    strategy: str = "quantile",
    max_regions: int = 8,
    calibrator: Any = "isotonic",
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
) -> PartitionBound:
    """
    Lower bound on the grouping loss from bins of the score and regions of the features.

    Within a bin of the score, outcomes should not depend on the features. Regions come from a tree per bin, grown on
    one half of the rows and used on the other, both ways round; or they are given. Works for every loss, the log loss
    included, where an empty class has entropy 0.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes.
    X : array-like or frame of shape (n, p), optional
        Features to grow trees on.
    partition : array-like of shape (n,), optional
        The region of each row, instead of trees; it must not have been made from these outcomes.
    n_bins : int, default=15
        Bins of the score.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass or of equal width.
    max_regions : int, default=8
        Largest number of leaves of a tree.
    calibrator : str or Calibrator, default="isotonic"
        Map that estimates how C varies within bins.
    random_state : int, Generator or None, default=0
        Seed of the halves.

    Returns
    -------
    PartitionBound
        Estimate, its parts, and the bound.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(4000, random_state=0)
    >>> bound = partition_lower_bound(y, X[:, 0], X, loss="brier", random_state=0)
    >>> bool(bound.lower_bound().value > 0.005)
    True
    """
    sample = Sample.of(y_true, y_proba, None if partition is not None else X, pos_label=pos_label, classes=classes)
    if sample.k != 2:
        refuse("the partition bound must have two classes", f"{sample.k}", "Use decompose with `X`.")
    if sample.weight is not None:
        refuse("the partition bound must have rows of equal weight", "a Sample with weights", "Use decompose with `X`.")
    s = as_vector(sample.prediction)
    bins = _bin_scores(s, parse_count(n_bins, "n_bins", 1), parse_choice(strategy, ("quantile", "uniform"), "strategy"))
    y, chosen = sample.y, get_loss(loss)
    if partition is not None:
        parsed = parse_groups(partition, y.size, "partition")
        assert parsed is not None  # noqa: S101 - it was given
        c = get_calibrator(calibrator).fit(s, y).calibrate(s)
        return _judge(chosen, y, bins, parsed[1], c)
    features = [column for level in sample.levels if isinstance(level, FeatureBlock) for column in level.columns]
    if not features:
        refuse("partition_lower_bound must have `X` or `partition`", "neither", "Pass the features.")
    leaves = parse_count(max_regions, "max_regions", 2)
    halves = parse_random_state(random_state).permutation(y.size) % 2
    parts = [_bound_half(chosen, s, y, bins, features, halves == h, leaves, calibrator) for h in (0, 1)]
    mean = {
        name: 0.5 * (getattr(parts[0], name) + getattr(parts[1], name)) for name in ("explained", "bias", "induced")
    }
    error = 0.5 * float(np.hypot(parts[0].std_error, parts[1].std_error))
    return PartitionBound(
        **mean, std_error=error, n_regions=sum(part.n_regions for part in parts), n=sum(part.n for part in parts)
    )


def _bin_scores(s: FloatArray, n_bins: int, strategy: str) -> IntArray:
    """The bin of every score."""
    cuts = equal_mass_cuts(s, None, n_bins) if strategy == "quantile" else np.arange(1, n_bins) / n_bins
    return np.searchsorted(cuts, s, side="right")


def _bound_half(
    loss: ProperLoss,
    s: FloatArray,
    y: IntArray,
    bins: IntArray,
    table: list[NDArray[Any]],
    tested: NDArray[np.bool_],
    leaves: int,
    calibrator: Any,
) -> PartitionBound:
    """Regions grown on the rows that are not tested, judged on those that are."""
    from sklearn.tree import DecisionTreeRegressor

    features = Encoder.fit(table)(table).design.T
    map_ = get_calibrator(calibrator).fit(s[~tested], y[~tested])
    c = map_.calibrate(s)
    region = np.zeros(y.size, dtype=np.intp)
    for b in np.unique(bins):
        grow, judge = (bins == b) & ~tested, (bins == b) & tested
        if grow.sum() >= 20 and judge.any():
            least = max(5, int(grow.sum()) // (4 * leaves))
            tree = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=0)
            region[judge] = tree.fit(features[grow], y[grow] - c[grow]).apply(features[judge])
    return _judge(loss, y[tested], bins[tested], region[tested], c[tested])


def _judge(loss: ProperLoss, y: IntArray, bins: IntArray, region: IntArray, c: FloatArray) -> PartitionBound:
    """How far regions differ within bins, what chance adds, and what the width of the bins adds."""
    _, cell = np.unique(np.stack([bins, region]), axis=1, return_inverse=True)
    has_others = np.bincount(cell)[cell] > 1  # the noise of a single row cannot be estimated
    y, bins, cell, c = y[has_others], bins[has_others], cell[has_others], c[has_others]
    cell = np.unique(cell, return_inverse=True)[1]
    if y.size == 0:
        refuse("regions must hold at least two rows", "none that does", "Use fewer bins or larger regions.")
    law_cell, extra_cell = _find_rates(loss, y, cell)
    law_bin, extra_bin = _find_rates(loss, y, bins)
    gain = loss.loss(law_bin, y) - loss.loss(law_cell, y)
    flat = np.bincount(bins, c) / np.maximum(np.bincount(bins), 1)
    induced = float(loss.divergence(flat[bins], c).mean())
    return PartitionBound(
        explained=float(loss.divergence(law_bin, law_cell).mean()),
        bias=float((extra_cell - extra_bin).mean()),
        induced=induced,
        std_error=float(gain.std() / np.sqrt(y.size)),
        n_regions=int(cell.max()) + 1,
        n=int(y.size),
    )


def _find_rates(loss: ProperLoss, y: IntArray, cell: IntArray) -> tuple[FloatArray, FloatArray]:
    """The share of events in the cell of each row, and how far its entropy falls short of the true one (jackknife)."""
    n = np.bincount(cell).astype(np.float64)
    k = np.bincount(cell, y)
    sizes = np.maximum(n, 2.0)
    share = k / np.maximum(n, 1.0)
    without_event = np.clip((k - 1.0) / (sizes - 1.0), 0.0, 1.0)
    without_other = np.clip(k / (sizes - 1.0), 0.0, 1.0)
    left_out = (k * loss.entropy(without_event) + (n - k) * loss.entropy(without_other)) / np.maximum(n, 1.0)
    shortfall = (n - 1.0) * (loss.entropy(share) - left_out)
    return share[cell], np.where(n > 1.0, shortfall, 0.0)[cell]
