"""Scores after recalibration, each by a map that has not seen its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from scoreprism._core.arrays import parse_law
from scoreprism._core.frames import column_names
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import FloatArray
from scoreprism.calibrators import get_calibrator
from scoreprism.decomposition._rows import Sheet
from scoreprism.displays._inputs import Part

_FOLDS = 5


def recalibrated(part: Part, calibrator: Any) -> Part:
    """The same model, recalibrated: out of fold, or by the calibration split where there is one."""
    chosen, options = get_calibrator(calibrator), dict(part.options)
    labels = {key: options.pop(key) for key in ("pos_label", "classes") if key in options}
    sheet = _parsed(part.y_true, part.y_proba, labels | {k: options[k] for k in _BY_ROW if k in options})
    if options.get("calibration") is None:
        return part._replace(
            y_true=sheet.y, y_proba=_out_of_fold(chosen, sheet, options.get("random_state")), options=options
        )
    scores, outcomes, *weight = options["calibration"]
    held = _parsed(outcomes, scores, labels | {"sample_weight": weight[0] if weight else None})
    fitted = clone(chosen).fit(held.laws[0], held.y, held.weight)
    options["calibration"] = (fitted.calibrate(held.laws[0]), held.y, *weight)
    return part._replace(y_true=sheet.y, y_proba=fitted.calibrate(sheet.laws[0]), options=options)


#: Options that belong to rows and matter here.
_BY_ROW = ("sample_weight", "groups")


def _parsed(y_true: Any, y_proba: Any, options: dict[str, Any]) -> Sheet:
    given = GivenLaw("y_proba", parse_law(y_proba, "y_proba"), None, column_names(y_proba))
    return Sheet.of(y_true, [given], **options)


def _out_of_fold(calibrator: Any, sheet: Sheet, seed: Any) -> FloatArray:
    """Every row by a map of the other folds; groups stay together."""
    score, weight = sheet.laws[0], sheet.weight
    fresh = np.empty_like(score)
    if sheet.groups is None:
        splits = KFold(_FOLDS, shuffle=True, random_state=None if seed is None else int(seed) % 2**32).split(score)
    else:
        splits = GroupKFold(_FOLDS).split(score, groups=sheet.groups)
    for train, test in splits:
        mine = None if weight is None else weight[train]
        fresh[test] = clone(calibrator).fit(score[train], sheet.y[train], mine).calibrate(score[test])
    return fresh
