"""Scores after recalibration, each by a map that has not seen its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from scoreprism._core.simplex import FloatArray
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import get_calibrator
from scoreprism.displays._inputs import Part

_FOLDS = 5


def recalibrated(part: Part, calibrator: Any) -> Part:
    """The same model, recalibrated: out of fold, or by the calibration split where there is one."""
    chosen, options = get_calibrator(calibrator), dict(part.options)
    labels = {key: options.pop(key) for key in ("pos_label", "classes") if key in options}
    rows = {key: options[key] for key in ("sample_weight", "groups") if key in options}
    sample = Sample.of(part.y_true, part.y_proba, **labels, **rows)
    if options.get("calibration") is None:
        fresh = _out_of_fold(chosen, sample, options.get("random_state"))
    else:
        scores, outcomes, *weight = options["calibration"]
        held = Sample.of(outcomes, scores, sample_weight=weight[0] if weight else None, **labels)
        fitted = clone(chosen).fit(held.prediction, held.y, held.weight)
        kept = () if held.weight is None else (held.weight,)
        options["calibration"] = (fitted.calibrate(held.prediction), held.y, *kept)
        fresh = fitted.calibrate(sample.prediction)
    # options of rows are as long as they came: rows without weight get some outcome and some probability
    y, law = sample.by_given_row(sample.y, 0), sample.by_given_row(fresh, 1.0 / sample.k)
    return part._replace(y_true=y, y_proba=law, options=options)


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
