"""Measures of one method on one split: losses, reliability, LCS and the noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor

from scoreprism._core.checks import refuse
from scoreprism._core.resampling import draw_classes, draw_events
from scoreprism._core.simplex import FloatArray, clip_law
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.crossfit import no_crossfit
from scoreprism._fitting.parse_learners import MapLearner, parse_calibrator
from scoreprism._maps.parts import Map
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.pipelines._split_plan import LABELS

#: Attempts to draw labels of both classes.
_DRAWS = 100


@dataclass(frozen=True)
class RegressionMap:
    """A regression of 0 and 1 on the score as a map, for instance scikit-learn's ``IsotonicRegression``."""

    name: str
    estimator: Any

    def share(self, data: FitRows) -> RegressionMap:
        """Nothing is shared."""
        return self

    def fit(self, data: FitRows) -> Map:
        """Fit the regression on some rows; its predictions are clipped to [0, 1]."""
        weighted = {} if data.weight is None else {"sample_weight": data.weight}
        model = clone(self.estimator).fit(data.score[:, None], data.y, **weighted)

        def law(score: FloatArray) -> FloatArray:
            values = np.asarray(model.predict(score[:, None]), dtype=np.float64).ravel()
            if not np.isfinite(values).all():
                remedy = "IsotonicRegression needs out_of_bounds='clip'."
                refuse("`calibrator` must give a number to every score", "NaN or infinities", remedy)
            return np.clip(values, 0.0, 1.0)

        return law


def parse_maps(calibrator: object, k: int, n: int) -> list[MapLearner]:
    """Candidate maps: those of `decompose`, and regressions of two classes."""
    regressor = not isinstance(calibrator, (str, type)) and hasattr(calibrator, "fit") and is_regressor(calibrator)
    if not regressor:
        return parse_calibrator(calibrator, k, n)
    if k > 2:
        refuse("a regression as calibrator must get two classes", f"{k} classes", "Use 'auto' or 'temperature'.")
    return [RegressionMap(type(calibrator).__name__, calibrator)]  # type: ignore[list-item]


@dataclass(frozen=True)
class Judge:
    """How a method is evaluated."""

    maps: Sequence[MapLearner]  # candidate maps of the calibrator
    losses: dict[str, ProperLoss]  # losses
    clip: float | None  # least distance of probabilities from 0 before a loss is taken
    redraws: int  # number of draws of the noise floor

    def measure(self, calibration: Sample, test: Sample, seed: Sequence[int]) -> list[dict[str, Any]]:
        """The numbers of one method on one split."""
        rows = test.fit_rows()
        fit = ChainFit(
            sample=test,
            rows=rows,
            plan=no_crossfit(rows),
            maps=self.maps,
            reference=None,
            levels=(),
            calibration=calibration.fit_rows(),
            calibration_groups=calibration.groups,
            seed=int(np.random.default_rng(seed).integers(2**62)),
            n_jobs=None,
        )
        chain, floors = fit.link(fit.fit_score()[0], ()), self._find_noise_floors(fit, seed)
        lcs = test.mean(chain.divergences(get_loss("brier"))[0])
        used = chain.clip_at(self.clip)
        return [
            {"loss": name, **_measure(used, loss), "lcs": lcs, "noise_floor": floors[name]}
            for name, loss in self.losses.items()
        ]

    def _find_noise_floors(self, fit: ChainFit, seed: Sequence[int]) -> dict[str, float]:
        """The mean plug-in reliability when labels of the calibration rows are drawn from the scores themselves."""
        rng = np.random.default_rng([*seed, LABELS])  # the same for every method, so that only its scores matter
        reliabilities: dict[str, list[float]] = {name: [] for name in self.losses}
        score = clip_law(fit.sample.prediction, self.clip)
        for _ in range(self.redraws):
            drawn = _redraw_labels(fit, rng)
            if drawn is None:
                break
            law = clip_law(self._fit_law(drawn), self.clip)
            for name, loss in self.losses.items():
                reliabilities[name].append(fit.sample.mean(loss.divergence(score, law)))
        return {name: float(np.mean(values)) if values else np.nan for name, values in reliabilities.items()}

    def _fit_law(self, fit: ChainFit) -> FloatArray:
        """The fitted map on the test rows; with a single map the refits for the spread are skipped."""
        if len(self.maps) > 1:
            law: FloatArray = fit.fit_score()[0].fitted.law
            return law
        rows = fit.calibration
        assert rows is not None  # noqa: S101 - there always is a calibration part
        return self.maps[0].share(rows).fit(rows)(fit.rows.score)


def _measure(chain: Chain, loss: ProperLoss) -> dict[str, float]:
    """Losses before and after, and the reliability between them: plug-in and debiased."""
    mean = chain.sample.mean
    before, after = chain.level_losses(loss)
    raw, recalibrated = mean(before), mean(after)
    with np.errstate(invalid="ignore"):
        rows = before - after + chain.level_spreads(loss)[1]
    return {
        "raw": raw,
        "recalibrated": recalibrated,
        "reliability_plugin": mean(chain.divergences(loss)[0]),
        "reliability": mean(rows) if np.isfinite(recalibrated) else np.nan,
    }


def _redraw_labels(fit: ChainFit, rng: np.random.Generator) -> ChainFit | None:
    """The fit to redrawn labels; None if scores are so certain that both classes hardly ever occur."""
    rows, groups = fit.calibration, fit.calibration_groups
    assert rows is not None  # noqa: S101 - there always is a calibration part
    for _ in range(_DRAWS):
        codes = draw_events(rng, rows.score).astype(np.intp) if rows.k == 2 else draw_classes(rng, rows.score)
        units = codes if groups is None else np.unique(groups * rows.k + codes) % rows.k
        counts = np.sort(np.bincount(units, minlength=rows.k))
        if counts[-2] >= 2:  # refits omit some rows or groups
            return replace(fit, calibration=replace(rows, codes=codes))
    return None
