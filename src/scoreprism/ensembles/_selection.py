"""The result of choosing a stage: both choices, both curves, and what the choice gains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray
from scoreprism._document.result_json import encode
from scoreprism._document.tables import Drawable, TermTable
from scoreprism.ensembles._stage_results import Amount
from scoreprism.ensembles._stage_tables import StageColumns, counted, plural
from scoreprism.losses import ProperLoss


@dataclass(frozen=True, eq=False, repr=False)
class SelectionTable(StageColumns):
    """
    What a stage was selected by: losses as they are and after recalibration, for every stage.

    Attributes
    ----------
    numbers : array of shape (T,)
        Number of each stage.
    raw_loss, raw_std_error : array of shape (T,)
        Loss of the stage as it is.
    recalibrated_loss, recalibrated_std_error : array of shape (T,)
        Loss after a cross-fitted recalibration.
    behind, behind_std_error : array of shape (T,)
        How much more that is than at the stage where it is least, and the paired standard error.

    Examples
    --------
    >>> one = np.ones(1)
    >>> SelectionTable(one, one, one, one, one, one, one, None)
    SelectionTable: 1 stage, number 1
      stage  raw loss  raw std error  recalibrated loss   behind  behind std error
      1       1.00000        1.00000            1.00000  1.00000           1.00000
    """

    numbers: NDArray[Any]
    raw_loss: FloatArray
    raw_std_error: FloatArray
    recalibrated_loss: FloatArray
    recalibrated_std_error: FloatArray
    behind: FloatArray
    behind_std_error: FloatArray
    _backend: str | None

    def _title(self) -> str:
        return f"SelectionTable: {counted(self.numbers)}"

    def _shown(self) -> dict[str, list[Any]]:
        return self._lines("raw_loss", "raw_std_error", "recalibrated_loss", "behind", "behind_std_error")


@dataclass(frozen=True, eq=False, repr=False)
class StageSelection(Drawable, TermTable):
    """
    The stage to stop at, by loss after recalibration and by raw loss.

    Made by `select_stage`.

    Attributes
    ----------
    names : tuple of str
        "refined" and "raw": the two choices.
    stage : int or float
        The stage chosen by the loss after recalibration; stages are integers unless fractions were passed.
    raw_stage : int or float
        The stage with the smallest raw loss.
    stages : SelectionTable
        Both curves.
    gain : Amount
        Loss at the raw choice minus loss at the refined choice, both recalibrated; choices and maps are made without
        the rows they are judged by, so that it is what the procedure gains on new rows. It need not be 0 where
        `stage` and `raw_stage` are the same: without a fold the choices may differ (`chosen`).
    gain_over_raw : Amount
        The same against the raw choice without recalibration.
    alike : tuple of int or float
        Stages whose loss after recalibration is not told apart from the smallest.
    chosen : tuple of pairs
        The refined and the raw choice without each fold.
    rule, calibrator : str
        How the stage was taken from the curve, and the map.
    loss : ProperLoss
        The loss.
    level : float
        Confidence level.
    n : int
        Number of rows.
    notes : tuple of str
        What a reader must know.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import select_stage
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(500)
    >>> y = rng.random(500) < q
    >>> bold = q**4 / (q**4 + (1 - q) ** 4)                           # knows all there is, and overstates it
    >>> found = select_stage([0.5 + 0.5 * (q - 0.5) + 0.2 * (rng.random(500) - 0.5), bold], y, random_state=0)
    >>> found.stage, found.raw_stage
    (2, 1)
    """

    stage: float
    raw_stage: float
    stages: SelectionTable
    gain: Amount
    gain_over_raw: Amount
    alike: tuple[float, ...]
    chosen: tuple[tuple[float, float], ...]
    rule: str
    calibrator: str
    loss: ProperLoss
    level: float
    n: int
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> dict[str, float]:
        """Loss after recalibration at both choices."""
        return dict(zip(self.names, (self._at(self.stage)[1], self._at(self.raw_stage)[1]), strict=True))

    def _at(self, stage: float) -> tuple[float, float]:
        i = int(np.flatnonzero(self.stages.numbers == stage)[0])
        return float(self.stages.raw_loss[i]), float(self.stages.recalibrated_loss[i])

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Choices, gains and curves; numbers that are not finite are strings.
        """
        plain = {key: getattr(self, key) for key in ("stage", "raw_stage", "rule", "calibrator", "level", "n")}
        found: dict[str, Any] = encode(
            plain
            | {"loss": str(self.loss), "alike": list(self.alike), "chosen": [list(pair) for pair in self.chosen]}
            | {"gain": self.gain.to_dict(), "gain_over_raw": self.gain_over_raw.to_dict(), "notes": list(self.notes)}
            | {"stages": self.stages.to_dict()}
        )
        return found

    def _columns(self) -> dict[str, list[Any]]:
        pairs = [self._at(self.stage), self._at(self.raw_stage)]
        return {
            "choice": ["refined", "raw"],
            "stage": [f"{self.stage:g}", f"{self.raw_stage:g}"],
            "loss": [raw for raw, _ in pairs],
            "recalibrated": [after for _, after in pairs],
        }

    def _title(self) -> str:
        how = {
            "one-se": "within one standard error of the least",
            "guarded": "the least clearly below the raw choice's",
        }
        words = f"{how.get(self.rule, 'the least')} {self.loss!s} loss after recalibration"
        size = f"{plural(self.stages.numbers.size, 'stage')} on {self.n} rows"
        raw = f"stage {self.raw_stage:g} has the least raw loss"
        return f"Stage {self.stage:g}: {words}\n  [{self.calibrator}, cross-fitted; {size}; {raw}]"

    def _footer(self) -> list[str]:
        return [*self._gained(), *self._like_the_best(), *self.notes]

    def _gained(self) -> list[str]:
        """The nested gain, in words that do not contradict the choices above it."""
        folds = plural(len(self.chosen), "fold")
        if all(refined == raw for refined, raw in self.chosen):
            where = _span(refined for refined, _ in self.chosen)
            return [f"both choices are the same without any of the {folds} ({where}): nothing is gained, nothing lost"]
        refined, raw = (_span(pair[side] for pair in self.chosen) for side in (0, 1))
        g = f"{self.gain.value:.5f} [{self.gain.low:.5f}, {self.gain.high:.5f}]"
        return [
            f"on rows it has not seen, choosing by recalibrated loss gains {g} after recalibration",
            f"  (nested: the choices without each of {folds} were {refined} refined and {raw} raw)",
        ]

    def _like_the_best(self) -> list[str]:
        count, all_of_them = len(self.alike), self.stages.numbers.size
        if all_of_them == 1:
            return []
        if count == 1:
            return [f"all other stages are told apart from the best, {self.alike[0]:g}"]
        low, high = min(self.alike), max(self.alike)
        return [f"{count} of {all_of_them} stages, {low:g} to {high:g}, cannot be told apart from the best"]


def _span(stages: Iterable[float]) -> str:
    """Stages from the least to the greatest: all of them where they are few."""
    found = sorted(set(stages))
    if len(found) <= 3:
        return ", ".join(f"{stage:g}" for stage in found)
    return f"{found[0]:g} to {found[-1]:g}"
