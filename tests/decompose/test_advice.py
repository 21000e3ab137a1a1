"""Sentences of advice: what they promise, under which condition, and that rounding promises nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism import Chain, Level, scale
from scoreprism.losses import get_loss
from tests.findings import amount


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
    assert not {"recalibrate", "recalibrate_size_open", "not_material"} & {one.kind for one in found.summary().findings}


def test_a_gain_of_exactly_nothing_is_no_gain():
    """Laws that are the same in every row: also where any gain would do, none is promised, and no loss below this."""
    rng = np.random.default_rng(0)
    law = rng.uniform(0.1, 0.9, 200)
    chain = Chain((rng.random(200) < law).astype(int), [Level(name, law) for name in "SCQ"])
    found = chain.decompose("brier")
    assert found.lower_bound("reliability").value == found.lower_bound("grouping").value == 0.0
    kinds = [one.kind for one in found.conclusions(min_gain=0.0)]
    assert kinds == ["no_miscalibration", "no_information_gain", "no_lower_loss", "inconclusive"]


def test_a_gain_that_a_bound_shows_to_be_small_is_not_called_none():
    """Above 0 and below a fifth of the loss, whatever the shape: no test has to be run to say that it is there."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.05, 0.95, 3000)
    y = (rng.random(3000) < 0.15 + 0.7 * s).astype(int)
    found = scoreprism.decompose(y, s, loss="brier", calibrator="platt")
    low, high = found.lower_bound("reliability").value, found.interval("reliability").high
    assert 0.0 < low < high < 0.2 * found.risk
    first = found.conclusions(min_gain=0.2)[0]
    assert (first.kind, first.low, first.high) == ("not_material", low, high)


def test_what_is_not_known_for_any_shape_is_not_said_of_any_shape():
    """A loss without a continuous weight has an end for smooth curves only, and both sentences say so."""
    rng = np.random.default_rng(1)
    s = rng.uniform(0.02, 0.98, 400)
    y = (rng.random(400) < s).astype(int)
    found = scoreprism.decompose(y, s, loss=get_loss("elementary", theta=0.4))
    smooth = found.interval("reliability", method="smooth").high
    for p, kind in ((0.5, "no_miscalibration"), (0.01, "recalibrate_size_open")):
        first = replace(found, _calibration=lambda p=p: p).summary().findings[0]
        assert (first.kind, first.pvalue, first.high) == (kind, p, smooth)
        assert first.facts["ends"] == [["smooth", smooth]]
        assert f"{amount(smooth)} (" in first.text
        assert "if the calibration curve is smooth" in first.text


def test_sentences_give_the_end_that_holds_for_any_shape():
    y, s = rough()
    found = scoreprism.decompose(y, s, loss="brier")
    assert found.lower_bound("reliability").value == 0.0
    smooth, widest = (found.interval("reliability", method=how).high for how in ("smooth", "any-shape"))
    assert widest > 1.2 * smooth
    doubtful = replace(found, _calibration=lambda: 0.003).summary().findings[0]
    assert (doubtful.kind, doubtful.low, doubtful.high) == ("recalibrate_size_open", 0.0, widest)
    assert doubtful.text.startswith("The scores are miscalibrated (p = 0.003), but the size of the gain is open: ")
    assert f"recalibrating gains between 0 and {amount(widest)} (" in doubtful.text
    assert "smooth" not in doubtful.text
    calm = replace(found, _calibration=lambda: 0.4).summary().findings[0]
    assert (calm.kind, calm.high) == ("no_miscalibration", widest)
    assert f"at most {amount(smooth)} (" in calm.text
    assert f"at most {amount(widest)} (" in calm.text
    assert "whatever its shape" in calm.text


def test_sums_and_rows_say_the_same():
    y, s = rough()
    sums = scale.aggregate(pl.DataFrame({"y": y, "s": s}), target="y", score="s")
    for loss in ("brier", "log"):
        found, rows = sums.decompose(loss), scoreprism.decompose(y, s, loss=loss)
        kinds = [[(one.kind, one.term) for one in each.summary().findings] for each in (found, rows)]
        assert kinds[0] == kinds[1]
        assert found.calibration_pvalue == pytest.approx(rows.calibration_pvalue, abs=0.05)


def test_maps_of_several_classes_by_passes_claim_smooth_laws_only():
    """Scaling by sums of gradients knows no neighbours, so there is no end that holds whatever the shape."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1, 1, 1], 2000)
    y = (rng.random((2000, 1)) > law.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    frame = pl.DataFrame({f"p_{k}": law[:, k] for k in range(3)}).with_columns(y=pl.Series(y), id=pl.int_range(2000))
    score = ["p_0", "p_1", "p_2"]
    found = scale.decompose(frame, target="y", score=score, loss="log", calibrator="temperature", fold_key="id")
    assert found.interval("reliability").method == "bracket"
    first = found.summary().findings[0]
    assert [where for where, _ in first.facts["ends"]] == ["smooth"]
    assert "if the calibration curve is smooth" in first.text
