"""Sentences of advice: what they promise, under which condition, and that rounding promises nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism import scale
from scoreprism.losses import get_loss


def rough(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A saw: calibrated on average in every tenth, off by 0.04 either way from one hundredth to the next."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.1, 0.9, n).round(2)
    c = s + 0.04 * np.where(np.round(100 * s) % 2 == 0, 1.0, -1.0)
    return (rng.random(n) < c).astype(int), s


@pytest.mark.parametrize("theta", [0.3, 0.45, 0.7])
@pytest.mark.parametrize("n", [500, 3001])
def test_rounding_promises_nothing(theta, n):
    """Scores on the side of θ where their rates are: elementary losses of S and C are the same in every row."""
    rng = np.random.default_rng(0)
    s = rng.choice([0.1, 0.15, 0.8, 0.9], n)
    y = (rng.random(n) < s).astype(int)
    found = scoreprism.decompose(y, s, loss=get_loss("elementary", theta=theta))
    assert found.terms["reliability"] == found.std_error["reliability"] == 0.0
    assert not any("gains at least" in line for line in found.summary().advice)


def test_what_is_not_known_for_any_shape_is_not_said_of_any_shape():
    """A loss without a continuous weight has an end for smooth curves only, and both sentences say so."""
    rng = np.random.default_rng(1)
    s = rng.uniform(0.02, 0.98, 400)
    y = (rng.random(400) < s).astype(int)
    found = scoreprism.decompose(y, s, loss=get_loss("elementary", theta=0.4))
    smooth = found.interval("reliability", method="smooth").high
    for p, words in ((0.5, "recalibration gains at most"), (0.01, "(p = 0.01), but that recalibration lowers")):
        first = replace(found, _calibration=lambda p=p: p).summary().advice[0]
        assert words in first
        assert f"{smooth:.3g} (" in first
        assert "if the calibration curve is smooth" in first


def test_sentences_give_the_end_that_holds_for_any_shape():
    y, s = rough()
    found = scoreprism.decompose(y, s, loss="brier")
    assert found.lower_bound("reliability").value == 0.0
    smooth, widest = (found.interval("reliability", method=how).high for how in ("smooth", "any-shape"))
    assert widest > 1.2 * smooth
    doubtful = replace(found, _calibration=lambda: 0.003).summary().advice[0]
    assert doubtful.startswith("The scores are not calibrated (p = 0.003), but that recalibration lowers the loss")
    assert f"it gains between 0 and {widest:.3g} (" in doubtful
    assert "smooth" not in doubtful
    calm = replace(found, _calibration=lambda: 0.4).summary().advice[0]
    assert f"at most {smooth:.3g} (" in calm
    assert f"at most {widest:.3g} (" in calm
    assert "whatever its shape" in calm


def test_sums_and_rows_say_the_same():
    y, s = rough()
    rows = scoreprism.decompose(y, s, loss=["brier", "log"])
    sums = scale.decompose(pl.DataFrame({"y": y, "s": s}), target="y", score="s", loss=["brier", "log"])
    for name, found in sums.items():
        beginning = [[re.split("[:(,]", line)[0] for line in one.summary().advice] for one in (found, rows[name])]
        assert beginning[0] == beginning[1]
        assert found.calibration_pvalue == pytest.approx(rows[name].calibration_pvalue, abs=0.05)


def test_maps_of_several_classes_by_passes_claim_smooth_laws_only():
    """Scaling by sums of gradients knows no neighbours, so there is no end that holds whatever the shape."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1, 1, 1], 2000)
    y = (rng.random((2000, 1)) > law.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    frame = pl.DataFrame({f"p_{k}": law[:, k] for k in range(3)}).with_columns(y=pl.Series(y), id=pl.int_range(2000))
    score = ["p_0", "p_1", "p_2"]
    found = scale.decompose(frame, target="y", score=score, loss="log", calibrator="temperature", key="id")
    assert found.interval("reliability").method == "bracket"
    assert "if the calibration curve is smooth" in found.summary().advice[0]
