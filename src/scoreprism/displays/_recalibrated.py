"""Scores after recalibration, each by a map that has not seen its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from scoreprism._validation import GivenLaw, parse_law
from scoreprism.calibrators import get_calibrator
from scoreprism.decomposition._rows import Sheet
from scoreprism.displays._base import Part
from scoreprism.frames import column_names


def recalibrated(part: Part, calibrator: Any) -> Part:
    """
    The same model with scores recalibrated out of fold, or by the calibration split where there is one.

    Parameters
    ----------
    part : Part
        A model.
    calibrator : str or Calibrator
        How to recalibrate.

    Returns
    -------
    Part
        With other scores.
    """
    chosen, options = get_calibrator(calibrator), part.options
    given = GivenLaw("y_proba", parse_law(part.y_proba, "y_proba"), None, column_names(part.y_proba))
    keys = ("sample_weight", "pos_label", "classes")
    sheet = Sheet.of(part.y_true, [given], **{key: options[key] for key in keys if key in options})
    score, weight = sheet.laws[0], sheet.weight
    fresh = np.empty_like(score)
    for train, test in KFold(5, shuffle=True, random_state=options["random_state"] % 2**32).split(score):
        mine = None if weight is None else weight[train]
        fresh[test] = clone(chosen).fit(score[train], sheet.y[train], mine).calibrate(score[test])
    return part._replace(y_proba=fresh, y_true=sheet.y, options={k: v for k, v in options.items() if k not in keys[1:]})
