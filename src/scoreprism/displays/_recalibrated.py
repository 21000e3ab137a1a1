"""Scores after recalibration, each by a map that has not seen its row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from scoreprism._core.simplex import FloatArray
from scoreprism._fitting.chain_fit import parse_calibration
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import get_calibrator
from scoreprism.displays._inputs import Part

#: Folds that scores are recalibrated in.
_FOLDS = 5


def recalibrated(part: Part, calibrator: Any) -> Part:
    """The same model, recalibrated: out of fold, or by the calibration split where there is one."""
    chosen, sample, options = get_calibrator(calibrator), part.sample, dict(part.options)
    if options.get("calibration") is None:
        fresh = _out_of_fold(chosen, sample, options.get("random_state"))
    else:
        held = parse_calibration(options["calibration"], sample)
        fitted = clone(chosen).fit(held.prediction, held.y, held.weight)
        options["calibration"] = replace(held, predictions={held.name: fitted.calibrate(held.prediction)})
        fresh = fitted.calibrate(sample.prediction)
    return part._replace(sample=replace(sample, predictions={sample.name: fresh}), options=options)


def _out_of_fold(calibrator: Any, sample: Sample, seed: Any) -> FloatArray:
    """Every row by a map of the other folds; groups stay together."""
    score, weight = sample.prediction, sample.weight
    fresh = np.empty_like(score)
    if sample.groups is None:
        splits = KFold(_FOLDS, shuffle=True, random_state=None if seed is None else int(seed) % 2**32).split(score)
    else:
        splits = GroupKFold(_FOLDS).split(score, groups=sample.groups)
    for train, test in splits:
        mine = None if weight is None else weight[train]
        fresh[test] = clone(calibrator).fit(score[train], sample.y[train], mine).calibrate(score[test])
    return fresh
