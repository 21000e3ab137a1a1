"""From the scores of one method on one split to its numbers: losses, reliability, LCS and the noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._fitting.candidates import Problem, calibrate, fit_alone
from scoreprism._fitting.chain_fit import fitting_weights
from scoreprism._fitting.crossfit import FittedLaw, no_crossfit
from scoreprism._fitting.learners import MapLearner, parse_calibrator
from scoreprism._maps.parts import Map
from scoreprism._sample.fit_rows import Data
from scoreprism.decomposition._rows import Sheet, mean_loss, spread
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.pipelines._split_rows import LABELS

#: Draws of labels before giving up on both classes.
_DRAWS = 100


@dataclass(frozen=True)
class RegressionMap:
    """A regression of 0 and 1 on the score as a map, scikit-learn's ``IsotonicRegression`` for instance."""

    name: str
    estimator: Any

    def shared(self, data: Data) -> RegressionMap:
        """Nothing is shared."""
        return self

    def fitted(self, data: Data) -> Map:
        """The regression fitted on some rows; what it says beyond 0 and 1 is cut."""
        weighted = {} if data.weight is None else {"sample_weight": data.weight}
        model = clone(self.estimator).fit(data.score[:, None], data.y, **weighted)

        def law(score: FloatArray) -> FloatArray:
            found = np.asarray(model.predict(score[:, None]), dtype=np.float64).ravel()
            if not np.isfinite(found).all():
                remedy = "IsotonicRegression needs out_of_bounds='clip'."
                refuse("`calibrator` must give a number to every score", "NaN or infinities", remedy)
            return np.clip(found, 0.0, 1.0)

        return law


def parse_maps(calibrator: object, k: int) -> list[MapLearner]:
    """Candidate maps: those of `decompose`, and regressions of two classes."""
    regressor = not isinstance(calibrator, (str, type)) and hasattr(calibrator, "fit") and is_regressor(calibrator)
    if not regressor:
        return parse_calibrator(calibrator, k)
    if k > 2:
        refuse("a regression as calibrator must get two classes", f"{k} classes", "Use 'auto' or 'temperature'.")
    return [RegressionMap(type(calibrator).__name__, calibrator)]  # type: ignore[list-item]


@dataclass(frozen=True)
class Scored:
    """Scores of some rows, with what happened."""

    law: FloatArray
    codes: IntArray
    weight: FloatArray | None
    groups: IntArray | None = None

    @property
    def clusters(self) -> IntArray | None:
        """Clusters of the rows that calibrators see."""
        return self.groups if self.groups is None or self.weight is None else self.groups[self.weight > 0]

    def data(self, k: int) -> Data:
        """As calibrators see them: without rows of no weight."""
        data = Data(self.law, self.codes, fitting_weights(self.weight), k, "probability")
        return data if self.weight is None else data.part(np.flatnonzero(self.weight))


@dataclass(frozen=True)
class Judge:
    """How a method is judged."""

    maps: Sequence[MapLearner]  # candidate maps of the calibrator
    losses: dict[str, ProperLoss]  # losses
    clip: float | None  # how far laws are kept from 0 before a loss is taken
    redraws: int  # number of draws of the noise floor
    k: int  # number of classes

    def numbers(self, calibration: Scored, test: Scored, seed: Sequence[int]) -> list[dict[str, Any]]:
        """What the frame says of one method on one split."""
        problem = self._problem(calibration, test, seed)
        fitted = self._fitted(problem)
        floors = self._floors(problem, test, seed)
        lcs = mean_loss(get_loss("brier").divergence(test.law, fitted.law), test.weight)
        return [
            {"loss": name, **self._terms(loss, test, fitted), "lcs": lcs, "noise_floor": floors[name]}
            for name, loss in self.losses.items()
        ]

    def _problem(self, calibration: Scored, test: Scored, seed: Sequence[int]) -> Problem:
        data = Data(test.law, test.codes, fitting_weights(test.weight), self.k, "probability")
        return Problem(
            sheet=Sheet(test.codes, [test.law], [None], test.weight),
            data=data,
            plan=no_crossfit(data),
            maps=self.maps,
            reference=None,
            levels=(),
            calibration=calibration.data(self.k),
            calibration_groups=calibration.clusters,
            seed=int(np.random.default_rng(seed).integers(2**62)),
            n_jobs=None,
        )

    def _fitted(self, problem: Problem) -> FittedLaw:
        """The law C of `decompose`; a single map needs no likelihoods to be mixed by."""
        one = len(self.maps) == 1
        return (fit_alone(problem, self.maps[0]) if one else calibrate(problem, {}).winner).fitted

    def _terms(self, loss: ProperLoss, test: Scored, fitted: FittedLaw) -> dict[str, float]:
        """Losses before and after, and the reliability between them: plug-in and debiased."""
        score, law, folds = self._clipped(test.law), self._clipped(fitted.law), fitted.folds
        if self.clip is not None:
            folds = np.stack([clip_law(fold, self.clip) for fold in folds])
        before, after = loss.evaluate(score, test.codes), loss.evaluate(law, test.codes)
        raw, recalibrated = mean_loss(before, test.weight), mean_loss(after, test.weight)
        with np.errstate(invalid="ignore"):
            rows = before - after + spread(loss, folds, fitted.factor)
        return {
            "raw": raw,
            "recalibrated": recalibrated,
            "reliability_plugin": mean_loss(loss.divergence(score, law), test.weight),
            "reliability": mean_loss(rows, test.weight) if np.isfinite(recalibrated) else np.nan,
        }

    def _floors(self, problem: Problem, test: Scored, seed: Sequence[int]) -> dict[str, float]:
        """The mean plug-in reliability where labels of the calibration rows are drawn from the scores themselves."""
        rng = np.random.default_rng([*seed, LABELS])  # the same for every method: its scores alone make a difference
        found: dict[str, list[float]] = {name: [] for name in self.losses}
        score = self._clipped(test.law)
        for _ in range(self.redraws):
            drawn = self._drawn(problem, rng)
            if drawn is None:
                break
            law = self._clipped(self._law(drawn))
            for name, loss in self.losses.items():
                found[name].append(mean_loss(loss.divergence(score, law), test.weight))
        return {name: float(np.mean(values)) if values else np.nan for name, values in found.items()}

    def _drawn(self, problem: Problem, rng: np.random.Generator) -> Problem | None:
        """The problem with other labels; None where scores are so certain that two classes hardly ever occur."""
        rows = problem.calibration
        assert rows is not None  # noqa: S101 - there always is a calibration part
        for _ in range(_DRAWS):
            uniform = rng.random(rows.codes.size)
            if self.k == 2:
                codes = (uniform < rows.score).astype(np.intp)
            else:
                codes = (uniform[:, None] > np.cumsum(rows.score, axis=1)[:, :-1]).sum(axis=1)
            groups = problem.calibration_groups
            units = codes if groups is None else np.unique(groups * self.k + codes) % self.k
            counts = np.sort(np.bincount(units, minlength=self.k))
            if counts[-2] >= 2:  # refits leave some rows, or groups, out
                return replace(problem, calibration=replace(rows, codes=codes))
        return None

    def _law(self, problem: Problem) -> FloatArray:
        """The fitted map on the test rows; refits that only the spread needs are left out where one map is fitted."""
        if len(self.maps) > 1:
            return self._fitted(problem).law
        rows = problem.calibration
        assert rows is not None  # noqa: S101
        return self.maps[0].shared(rows).fitted(rows)(problem.data.score)

    def _clipped(self, law: FloatArray) -> FloatArray:
        return law if self.clip is None else clip_law(law, self.clip)
