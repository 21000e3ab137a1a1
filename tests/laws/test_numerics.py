"""Log-odds, sigmoids and softmax against scipy, and what each variant does where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit, softmax

from scoreprism._core import numerics


@pytest.mark.parametrize("name", ["sigmoid", "clipped_sigmoid", "rising_sigmoid"])
def test_sigmoids_differ_only_far_out(name):
    function = getattr(numerics, name)
    x = np.linspace(-36.0, 36.0, 1001)
    np.testing.assert_allclose(function(x), expit(x), rtol=1e-14)
    low, high = function(np.array([-np.inf, np.inf]))
    assert (low == 0.0, high == 1.0) == {
        "sigmoid": (True, True),
        "clipped_sigmoid": (False, True),
        "rising_sigmoid": (False, False),
    }[name]


def test_log_odds_invert_the_sigmoid_up_to_their_edge():
    p = np.array([0.0, 1e-300, 1e-12, 0.3, 0.5, 1.0])
    np.testing.assert_allclose(numerics.log_odds(p[1:5]), logit(p[1:5]), rtol=1e-15)
    np.testing.assert_allclose(numerics.log_odds(p, 1e-9), logit(np.clip(p, 1e-9, 1 - 1e-9)), rtol=1e-14)
    assert numerics.rate_log_odds(0.3) == pytest.approx(logit(0.3), rel=1e-15)


@pytest.mark.parametrize("law", [np.array([0.0, 0.2, 0.999, 1.0]), np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])])
def test_logits_of_a_law_give_the_law(law):
    assert np.isfinite(numerics.law_logits(law)).all()
    assert numerics.law_of_logits(numerics.law_logits(law)) == pytest.approx(law, abs=3e-12)


def test_softplus_and_softmax_do_not_overflow():
    x = np.array([-800.0, -30.0, -1.0, 0.0, 1.0, 30.0, 800.0])
    np.testing.assert_allclose(numerics.softplus(x), np.logaddexp(0.0, x), rtol=1e-14)
    np.testing.assert_array_equal(numerics.softplus(x, np.exp(-np.abs(x))), numerics.softplus(x))
    eta = np.stack([x, x[::-1], np.zeros(7)], axis=1)
    np.testing.assert_allclose(numerics.log_softmax(eta), log_softmax(eta, axis=1), rtol=1e-14)
    np.testing.assert_allclose(numerics.softmax(eta), softmax(eta, axis=1), rtol=1e-14)


def test_scaled_axes_leave_out_what_does_not_vary():
    """[[4, 6, 0], [6, 9, 0], [0, 0, 0]] is (2, 3, 0)ᵀ(2, 3, 0): one axis (1, 1, 0)/√2 with eigenvalue 2."""
    row = np.array([2.0, 3.0, 0.0])
    scale, values, axes = numerics.scaled_axes(np.outer(row, row), 1e-9)
    assert scale.tolist() == [2.0, 3.0, np.inf]
    assert values == pytest.approx([2.0], rel=1e-15)
    assert np.abs(axes[:, 0]) == pytest.approx([0.5**0.5, 0.5**0.5, 0.0], abs=1e-15)
