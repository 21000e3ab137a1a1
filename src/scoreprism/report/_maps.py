"""What recalibration by each map would do: losses before and after, out of sample, on the same folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scoreprism._validation import refuse
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.estimation._chain import Problem, fit_alone, judged
from scoreprism.estimation._learners import OwnMap
from scoreprism.exceptions import ScoreprismError
from scoreprism.intervals import quantile
from scoreprism.losses import ProperLoss

#: Maps that a report tries, for two classes and for more; the last chooses among maps of its own inside each fold.
TRIED = {
    True: ("platt", "temperature", "beta", "isotonic", "monotone-spline", "venn-abers", "selected"),
    False: ("temperature", "vector-scaling", "dirichlet", "one-vs-rest", "selected"),
}


#: The map that chooses among others, inside each fold, and what tables call it.
CHOOSER, CHOSEN = "selected", "chosen per fold"


@dataclass(frozen=True)
class Gain:
    """
    What a map does to a loss.

    Attributes
    ----------
    name, loss : str
        The map and the loss.
    before, after : float
        Mean loss of the score and of the recalibrated score, out of sample.
    gain, low, high : float
        Their paired difference, and its interval.
    """

    name: str
    loss: str
    before: float
    after: float
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class MapTable:
    """
    All maps that were tried.

    Attributes
    ----------
    gains : tuple of Gain
        By map and loss.
    best : str
        The map with the smallest loss after recalibration (of the first loss).
    failed : dict of str to str
        Maps that could not be fitted, and why.
    """

    gains: tuple[Gain, ...]
    best: str
    failed: dict[str, str]

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


def judge_maps(
    problem: Problem, losses: dict[str, ProperLoss], asked: Sequence[str | Calibrator], level: float
) -> MapTable:
    """
    Cross-fit every map on the folds of the decomposition, and set its loss beside that of the score.

    Parameters
    ----------
    problem : Problem
        Rows and folds.
    losses : dict of str to ProperLoss
        Losses to judge by; the first chooses the best map.
    asked : sequence of str or Calibrator
        Calibrators or their names; empty for `TRIED`.
    level : float
        Confidence level of the intervals.

    Returns
    -------
    MapTable
        Gains of all maps, and the best of them.
    """
    binary = problem.data.k == 2
    gains: list[Gain] = []
    failed: dict[str, str] = {}
    z = quantile(level, two_sided=True)
    for one in asked or TRIED[binary]:
        calibrator = get_calibrator(one)
        name = calibrator.name
        if not binary and not calibrator.multiclass:
            failed[name] = "it is a map of two classes"
            continue
        try:
            fits = fit_alone(problem, OwnMap(calibrator.name, calibrator)).fits
        except ScoreprismError as error:
            failed[name] = str(error)
            continue
        for loss_name, loss in losses.items():
            assert fits is not None  # noqa: S101 - whatever is fitted has them
            found = judged(problem.sheet, name, fits, loss, None)
            reach = z * found.std_error
            ends = (found.difference - reach, found.difference + reach)
            gains.append(Gain(name, loss_name, found.loss + found.difference, found.loss, found.difference, *ends))
    if not gains:
        refuse("at least one calibrator must fit these rows", f"{failed}", "Pass other names in calibrators=.")
    first = next(iter(losses))
    candidates = [gain for gain in gains if gain.loss == first]
    named = [gain for gain in candidates if gain.name != CHOOSER] or candidates
    return MapTable(tuple(gains), min(named, key=lambda gain: gain.after).name, failed)
