"""What recalibration by each map would do: losses before and after, out of sample, on the same folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scoreprism._core.checks import refuse
from scoreprism._core.progress import track
from scoreprism._fitting.candidates import judge_candidate
from scoreprism._fitting.chain_fit import ChainFit, fit_alone
from scoreprism._fitting.parse_learners import OwnMap
from scoreprism._kernels.term_intervals import quantile
from scoreprism.calibrators import CALIBRATORS, Calibrator, get_calibrator
from scoreprism.exceptions import ScoreprismError
from scoreprism.losses import ProperLoss

#: Maps that a report tries, for two classes and for more; the last chooses among maps of its own inside each fold.
TRIED = {
    True: ("platt", "temperature", "beta", "isotonic", "monotone-spline", "venn-abers", "selected"),
    False: ("temperature", "vector-scaling", "dirichlet", "one-vs-rest", "selected"),
}

#: Classes beyond which only the maps with few parameters are tried, in one partition of the rows instead of so many.
FEW_CLASSES, PARTITIONS = 20, 4
LEAN = ("temperature", "vector-scaling")
#: The map that chooses among others, inside each fold, and what tables call it.
CHOOSER, CHOSEN = "selected", "chosen per fold"


@dataclass(frozen=True)
class Gain:
    """What a map does to a loss."""

    name: str  # of the map
    loss: str
    before: float  # mean loss of the score, and of the recalibrated score out of sample
    after: float
    gain: float  # their paired difference, and its interval
    low: float
    high: float


@dataclass(frozen=True)
class MapTable:
    """All maps that were tried."""

    gains: tuple[Gain, ...]  # by map and loss
    best: str  # the map with the smallest loss after recalibration (of the first loss)
    failed: dict[str, str]  # maps that could not be fitted, and why

    @property
    def chooses(self) -> bool:
        """Whether the map that chooses among others inside each fold was tried."""
        return any(gain.name == CHOOSER for gain in self.gains)

    @property
    def honest(self) -> str:
        """The map whose gain is not flattered by having been chosen: the one that chooses inside each fold."""
        return CHOOSER if self.chooses else self.best

    def of(self, name: str, loss: str) -> Gain:
        """The line of one map and one loss."""
        return next(gain for gain in self.gains if (gain.name, gain.loss) == (name, loss))


@cache
def _usual_maps(binary: bool) -> list[Calibrator]:
    """The maps that a report tries of itself, which are parsed once and for all."""
    return [CALIBRATORS[name]()._parse_parameters() for name in TRIED[binary]]


def judge_maps(
    fit: ChainFit, losses: dict[str, ProperLoss], asked: Sequence[str | Calibrator], level: float
) -> MapTable:
    """Cross-fit every map on the folds of the decomposition, and set its loss beside that of the score."""
    k = fit.rows.k
    gains: list[Gain] = []
    failed: dict[str, str] = {}
    if asked == LEAN:
        why = f"of more than {FEW_CLASSES} classes it takes long, and has to be named"
        failed = {name: why for name in TRIED[False] if name not in (*LEAN, CHOOSER)}
    partitions = PARTITIONS if k <= FEW_CLASSES else 1
    z = quantile(level, two_sided=True)
    calibrators = [get_calibrator(one) for one in asked] if asked else _usual_maps(k == 2)
    for calibrator in track(calibrators, len(calibrators), "recalibration maps"):
        name = calibrator.name
        if k > 2 and not calibrator.multiclass:
            failed[name] = "it is a map of two classes"
            continue
        try:
            parsed = calibrator._parse_parameters() if asked else calibrator
            fits = fit_alone(fit, OwnMap(name, parsed), partitions).fits
        except ScoreprismError as error:
            failed[name] = str(error)
            continue
        for loss_name, loss in losses.items():
            found = judge_candidate(fit.sample, name, fits, loss, None)
            reach = z * found.std_error
            ends = (found.difference - reach, found.difference + reach)
            gains.append(Gain(name, loss_name, found.loss + found.difference, found.loss, found.difference, *ends))
    if not gains:
        refuse("at least one calibrator must fit these rows", f"{failed}", "Pass other names in `calibrators`=.")
    first = next(iter(losses))
    candidates = [gain for gain in gains if gain.loss == first]
    named = [gain for gain in candidates if gain.name != CHOOSER] or candidates
    return MapTable(tuple(gains), min(named, key=lambda gain: gain.after).name, failed)
