"""Laws that every loss of the table obeys, on random laws of the outcome (hypothesis)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoreprism.losses import Elementary, ProperLoss, get_loss
from tests.conftest import EVERY_LOSS, classes_of, laws

every_loss = pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
few = settings(max_examples=25)  # of each of 18 losses, with several laws each


def close(a, b, tolerance=1e-12):
    """Equal up to rounding; infinities must be in the same places."""
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def pair(data, loss, *, interior=False):
    k = data.draw(st.sampled_from(classes_of(loss, 2, 3, 5)))
    return data.draw(laws(k, 4, interior=interior)), data.draw(laws(k, 4, interior=interior))


@every_loss
@few
@given(data=st.data())
def test_propriety(loss, data):
    p, q = pair(data, loss)
    assert (loss.risk(p, q) >= loss.entropy(q) - 1e-12).all()


@every_loss
@few
@given(data=st.data())
def test_divergence_is_nonnegative_and_zero_at_the_truth(loss, data):
    p, q = pair(data, loss)
    assert (loss.divergence(p, q) >= 0).all()
    assert (loss.divergence(p, p) == 0).all()
    if loss.strictly_proper:
        apart = np.abs(p - q).max(axis=1) > 1e-3
        assert (loss.divergence(p, q)[apart] > 0).all()


@every_loss
@few
@given(data=st.data(), share=st.floats(0, 1))
def test_entropy_is_concave_and_zero_at_certainty(loss, data, share):
    p, q = pair(data, loss)
    mixed = share * p + (1 - share) * q
    assert (loss.entropy(mixed) >= share * loss.entropy(p) + (1 - share) * loss.entropy(q) - 1e-12).all()
    close(loss.entropy(np.eye(p.shape[1])), 0.0)


@every_loss
@few
@given(data=st.data())
def test_two_columns_equal_one(loss, data):
    p, q = data.draw(laws(2, 5)), data.draw(laws(2, 5))
    y = np.array(data.draw(st.lists(st.integers(0, 1), min_size=5, max_size=5)))
    close(loss.loss(p, y), loss.loss(p[:, 1], y))
    close(loss.risk(p, q), loss.risk(p[:, 1], q[:, 1]))
    close(loss.entropy(q), loss.entropy(q[:, 1]))
    close(loss.divergence(p, q), loss.divergence(p[:, 1], q[:, 1]))
    close(loss.divergence(p, q[:, 1]), loss.divergence(p, q))  # mixed forms


@every_loss
@few
@given(data=st.data())
def test_symmetric_losses_do_not_know_the_classes(loss, data):
    p, q = pair(data, loss)
    k = p.shape[1]
    order = np.array(data.draw(st.permutations(range(k))))
    y = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=4, max_size=4)))
    place = np.argsort(order)  # class c of p is column place[c] of p[:, order]
    if loss.symmetric:
        close(loss.loss(p[:, order], place[y]), loss.loss(p, y))
        close(loss.divergence(p[:, order], q[:, order]), loss.divergence(p, q))


@every_loss
def test_asymmetric_losses_say_so(loss):
    """Some exchange of classes changes the loss exactly where `symmetric` is False."""
    p = np.array([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3], [0.1, 0.9]])
    changed = not np.allclose(loss.loss(p, [0, 0, 0, 0]), loss.loss(p[:, ::-1], [1, 1, 1, 1]))
    if loss.name == "ranked-probability":  # symmetric at two classes, ordered from three on
        three = np.array([[0.2, 0.3, 0.5]])
        changed = not np.allclose(loss.loss(three, [0]), loss.loss(three[:, [1, 0, 2]], [1]))
    assert changed is not loss.symmetric


@every_loss
@few
@given(data=st.data())
def test_overrides_equal_the_definition(loss, data):
    """Risk, entropy and divergence against `ProperLoss`, which derives them from the loss alone."""
    p, q = pair(data, loss)
    p, q = loss._layout(p), loss._layout(q)
    with np.errstate(all="ignore"):
        risk = ProperLoss._risk(loss, p, q)
        entropy = ProperLoss._risk(loss, q, q)
        divergence = np.maximum(risk - entropy, 0)
        close(loss._risk(p, q), risk)
        close(loss._entropy(q), entropy)
        close(loss._divergence(p, q), divergence, 2e-12)


@every_loss
@few
@given(data=st.data())
def test_risk_is_the_mean_of_the_loss(loss, data):
    p, q = pair(data, loss, interior=True)
    k = p.shape[1]
    mean = sum(q[:, c] * loss.loss(p, np.full(4, c)) for c in range(k))
    close(loss.risk(p, q), mean)


@every_loss
def test_weight_is_minus_the_second_derivative_of_the_entropy(loss):
    """Against central differences of the entropy (ProperLoss._weight), away from a kink."""
    c = np.array([0.05, 0.23, 0.4, 0.55, 0.62, 0.9])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(loss.weight(c), ProperLoss._weight(loss, c), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loss", [loss for loss in EVERY_LOSS if loss.strictly_proper], ids=str)
def test_loss_is_the_integral_of_its_weight(loss):
    """ℓ(p,1) = ∫_p^1 (1−c) w(c) dc and ℓ(p,0) = ∫_0^p c w(c) dc, by Gauss–Legendre on a bounded stretch."""
    x, share = np.polynomial.legendre.leggauss(60)
    low, high = 0.15, 0.8
    c = low + (high - low) * (x + 1) / 2
    step = (high - low) / 2 * share
    gain = loss.loss([low, high], [1, 1])
    close(gain[0] - gain[1], step @ ((1 - c) * loss.weight(c)), 1e-11)
    cost = loss.loss([low, high], [0, 0])
    close(cost[1] - cost[0], step @ (c * loss.weight(c)), 1e-11)


@pytest.mark.parametrize("name", ["brier", "log", "spherical"])
def test_losses_are_mixtures_of_elementary_ones(name):
    """∫ ℓ_θ(p, y) w(θ) dθ = ℓ(p, y), by Gauss–Legendre on either side of the jump at θ = p."""
    loss, p = get_loss(name), 0.37
    x, share = np.polynomial.legendre.leggauss(80)
    for y, (low, high) in ((1, (p, 1.0)), (0, (0.0, p))):
        theta = low + (high - low) * (x + 1) / 2
        values = np.array([Elementary(t).loss(p, y)[0] for t in theta])
        close((high - low) / 2 * share @ (values * loss.weight(theta)), loss.loss(p, y)[0], 1e-10)


@every_loss
def test_a_single_law_is_broadcast(loss):
    p = np.array([0.2, 0.6, 0.9])
    close(loss.divergence(0.5, p), loss.divergence([0.5, 0.5, 0.5], p))
    close(loss.loss(0.5, [0, 1, 1]), loss.loss([0.5] * 3, [0, 1, 1]))


@every_loss
def test_blocks_change_nothing(loss):
    """More rows than fit in one block give the same numbers as one row at a time would."""
    rng = np.random.default_rng(3)
    p, q = rng.random((2, 140_000))
    y = rng.integers(0, 2, 140_000)
    some = rng.integers(0, 140_000, 50)
    close(loss.loss(p, y)[some], [loss.loss(p[i], y[i])[0] for i in some], 0)
    close(loss.divergence(p, q)[some], [loss.divergence(p[i], q[i])[0] for i in some], 1e-14)
