"""Losses of the user's own: from an entropy, from a function, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from scoreprism import Chain, Level, compare, decompose, make_report, resolution_decomposition
from scoreprism.calibrators import SelectedCalibrator
from scoreprism.ensembles import aggregation_decomposition
from scoreprism.exceptions import ImproperLossError, InputError
from scoreprism.losses import (
    LOSSES,
    Brier,
    LogLoss,
    RankedProbability,
    Tsallis,
    check_proper,
    from_entropy,
    from_loss,
    get_loss,
)
from tests.conftest import EVERY_LOSS


def shannon(q):
    return -np.where(q > 0, q * np.log(np.where(q > 0, q, 1.0)), 0.0).sum(axis=1)


def gini(q):
    return 1 - (q**2).sum(axis=1)


def test_entropy_with_gradient_is_exact():
    rng = np.random.default_rng(0)
    p, q, y = rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    loss = from_entropy(gini, lambda q: -2 * q, name="gini")
    np.testing.assert_allclose(loss.loss(p, y), Brier().loss(p, y), atol=1e-14)
    np.testing.assert_allclose(loss.divergence(p, q), Brier().divergence(p, q), atol=1e-14)
    assert (str(loss), loss.strictly_proper, loss.symmetric) == ("gini", True, True)


@pytest.mark.parametrize(("entropy", "reference"), [(gini, Brier()), (shannon, LogLoss())], ids=["gini", "shannon"])
def test_entropy_without_gradient_has_ten_digits(entropy, reference):
    rng = np.random.default_rng(1)
    p, q, y = rng.dirichlet(np.ones(3), 200), rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200)
    loss = from_entropy(entropy)
    np.testing.assert_allclose(loss.loss(p, y), reference.loss(p, y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(loss.entropy(q), reference.entropy(q), atol=1e-14)
    np.testing.assert_allclose(loss.divergence(p, q), reference.divergence(p, q), rtol=1e-8, atol=1e-9)


def test_numerical_derivative_on_the_boundary():
    """A smooth entropy has a slope there; an infinitely steep one an infinite loss, never a large number."""
    corners = np.array([[1.0, 0.0, 0.0], [0.0, 0.3, 0.7]])
    np.testing.assert_allclose(from_entropy(gini).loss(corners, [1, 0]), Brier().loss(corners, [1, 0]), atol=1e-9)
    np.testing.assert_allclose(from_entropy(gini).loss(corners, [0, 2]), Brier().loss(corners, [0, 2]), atol=1e-9)
    assert from_entropy(shannon).loss(corners, [1, 0]).tolist() == [np.inf, np.inf]
    np.testing.assert_allclose(from_entropy(shannon).loss(corners, [0, 2]), [0.0, -np.log(0.7)], atol=1e-9)


@pytest.mark.parametrize(("entropy", "reference"), [(gini, Brier()), (shannon, LogLoss())], ids=["gini", "shannon"])
def test_near_the_boundary_eight_digits_or_a_refusal(entropy, reference):
    """Closed forms at p = (e, …): never a silent loss of digits, never an infinity that is not there."""
    loss = from_entropy(entropy)
    refused = []
    for e in 10.0 ** -np.arange(1, 17):
        for p in (np.array([[e, 0.5 - e / 2, 0.5 - e / 2]]), np.array([[e, 1 - e]])):
            for y in range(p.shape[1]):
                exact = reference.loss(p, [y])[0] * (2 if p.shape[1] == 2 and entropy is gini else 1)
                try:
                    assert loss.loss(p, [y])[0] == pytest.approx(exact, rel=1e-8, abs=1e-8)
                except InputError:
                    refused.append((e, p.shape[1], y))
    if entropy is gini:  # smooth up to the boundary: nothing to refuse
        assert refused == []
    else:  # infinitely steep: rounding wins close to it, towards the rare class only
        assert {(k, y) for _, k, y in refused} == {(2, 0), (3, 0)}
        assert max(e for e, _, _ in refused) < 1e-4


def test_rough_boundary_asks_for_the_gradient():
    def rough(q):  # Tsallis 1.5: its slope is finite at 0, but approached like a square root
        return (1 - (q**1.5).sum(axis=1)) / 0.5

    loss, inside = from_entropy(rough), np.array([[0.2, 0.3, 0.5]])
    np.testing.assert_allclose(loss.loss(inside, [1]), Tsallis(1.5).loss(inside, [1]), rtol=1e-9)
    message = (
        "must have a numerical derivative of eight digits; got fewer at 0, on or near the boundary .* Pass gradient="
    )
    with pytest.raises(InputError, match=message):
        loss.loss([[1.0, 0.0]], [1])
    exact = from_entropy(rough, lambda q: -3 * np.sqrt(q))
    np.testing.assert_allclose(exact.loss([[1.0, 0.0]], [1]), Tsallis(1.5).loss([[1.0, 0.0]], [1]))


def test_convex_functions_are_not_entropies():
    with pytest.raises(ImproperLossError, match="the loss is not proper"):
        from_entropy(lambda q: (q**2).sum(axis=1))


def test_function_of_two_classes_in_either_form():
    vector = from_loss(lambda p, y: (p - y) ** 2)
    matrix = from_loss(lambda p, y: ((p - np.eye(2)[y]) ** 2).sum(axis=1) / 2, name="wide")
    p, q = np.array([0.1, 0.5, 1.0]), np.array([0.3, 0.5, 0.2])
    for loss in (vector, matrix):
        np.testing.assert_allclose(loss.loss(p, [0, 1, 1]), Brier().loss(p, [0, 1, 1]), atol=1e-15)
        np.testing.assert_allclose(loss.divergence(p, q), Brier().divergence(p, q), atol=1e-15)
        np.testing.assert_allclose(loss.weight([0.2, 0.7]), 2.0, rtol=1e-6)
        assert loss.strictly_proper
        assert loss.symmetric


def test_function_of_three_classes():
    loss = from_loss(lambda p, y: -np.log(p[np.arange(len(y)), y]), n_classes=3)
    p = np.array([[0.2, 0.3, 0.5]])
    assert loss.loss(p, [2])[0] == pytest.approx(np.log(2))
    with pytest.raises(InputError, match="is for 3 classes; got p with 2"):
        loss.loss([0.5], [1])
    ordered = from_loss(lambda p, y: RankedProbability().loss(p, y), n_classes=3)
    assert not ordered.symmetric


def test_a_loss_that_is_not_strict_is_noticed():
    loss = from_loss(lambda p, y: np.where(y == 1, 0.7 * (p <= 0.3), 0.3 * (p > 0.3)))
    assert not loss.strictly_proper
    assert not loss.symmetric


def class_weighted_log(p, y):
    return -np.where(y == 1, 5 * np.log(p), np.log1p(-p))


def focal(p, y):
    hit = np.where(y == 1, p, 1 - p)
    return -((1 - hit) ** 2) * np.log(hit)


def absolute(p, y):
    return np.abs(p - y)


@pytest.mark.parametrize("function", [class_weighted_log, focal, absolute])
def test_improper_losses_are_refused_with_a_reason(function):
    pattern = (
        r"the loss is not proper: when P\(Y=1\) = [\d.]+, predicting [\d.]+ has expected loss [\d.]+, less than the [\d.]+ of "
        r"predicting [\d.]+ itself\. A decomposition would credit miscalibration; use a proper loss such as 'brier' or 'log'\."
    )
    for attempt in (check_proper, from_loss):
        with pytest.raises(ImproperLossError, match=pattern):
            attempt(function)


def test_improper_with_three_classes():
    def weighted(p, y):
        return -np.array([1.0, 2.0, 4.0])[y] * np.log(p[np.arange(len(y)), y])

    with pytest.raises(ImproperLossError, match=r"when the distribution of Y = \("):
        check_proper(weighted, n_classes=3)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
def test_every_loss_of_the_table_is_proper(loss):
    for k in (2, 3, 5):
        check_proper(loss, n_classes=k)


def test_bad_functions_are_refused():
    with pytest.raises(InputError, match=r"must return one number per row, shape \(\d+,\); got shape \(\)"):
        from_loss(lambda p, y: np.mean((p - y) ** 2))
    with pytest.raises(InputError, match="the loss function must not return NaN"):
        from_loss(lambda p, y: np.full(len(y), np.nan))
    with pytest.raises(InputError, match="the loss function must return numbers; got str"):
        from_loss(lambda p, y: "loss")
    with pytest.raises(
        InputError,
        match=r"must take two-class probabilities of shape \(n,\) or \(n, 2\) and class codes; got IndexError",
    ):
        from_loss(lambda p, y: p[:, 7])
    with pytest.raises(InputError, match="function must be callable"):
        from_loss("brier")
    with pytest.raises(InputError, match="n_classes must be a whole number of at least 2; got 1"):
        from_loss(absolute, n_classes=1)
    with pytest.raises(InputError, match="entropy must be callable"):
        from_entropy(3)
    with pytest.raises(InputError, match="the entropy must return one number per row"):
        from_entropy(lambda q: q)
    with pytest.raises(InputError, match="the gradient must return an array of shape"):
        from_entropy(gini, lambda q: q.sum(axis=1))
    with pytest.raises(InputError, match="loss must be a ProperLoss or a function"):
        check_proper("log")


def test_functions_may_write_on_what_they_get():
    """The user's arrays stay as they are."""

    def clipping(p, y):
        np.clip(p, 1e-9, 1 - 1e-9, out=p)
        return -np.log(p[np.arange(len(y)), y])

    p = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    kept = p.copy()
    assert np.isfinite(from_loss(clipping, n_classes=3).loss(p, [1, 2])).all()
    np.testing.assert_array_equal(p, kept)

    def shifting(p, y):
        p -= y
        return p * p

    assert from_loss(shifting).loss([0.25], [1])[0] == 0.5625


def test_entropies_are_checked_beyond_two_classes():
    def broken(q):  # concave on two classes, convex from three on
        return (1 - (q**2).sum(axis=1)) * (1 if q.shape[1] == 2 else -1)

    with pytest.raises(ImproperLossError, match="the loss is not proper"):
        from_entropy(broken, lambda q: -2 * q * (1 if q.shape[1] == 2 else -1))

    def broken_at_four(q):
        return (1 - (q**2).sum(axis=1)) * (1 if q.shape[1] < 4 else -1)

    late = from_entropy(broken_at_four, lambda q: -2 * q * (1 if q.shape[1] < 4 else -1), name="late")
    with pytest.raises(ImproperLossError, match="the loss 'late' is not proper: predicting"):
        late.divergence([[0.7, 0.1, 0.1, 0.1]], [[0.1, 0.7, 0.1, 0.1]])


def test_entropy_of_two_classes_only():
    loss = from_entropy(lambda q: q[:, 0] * np.squeeze(q[:, 1:], axis=1))  # fails on three columns
    assert loss.loss([0.25], [1])[0] == pytest.approx(0.5625, abs=1e-9)


def test_check_proper_with_many_classes():
    check_proper(LogLoss(), n_classes=300)
    for bad in (1, 0, "3", 2.0, True):
        with pytest.raises(InputError, match="n_classes must be a whole number of at least 2"):
            check_proper(LogLoss(), n_classes=bad)


def test_get_loss():
    assert get_loss("tsallis", alpha=1.5) == Tsallis(1.5)
    assert get_loss("Ranked_Probability") == RankedProbability()
    assert get_loss(LogLoss()) == LogLoss()
    assert [get_loss(name).name for name in LOSSES] == list(LOSSES)
    for arguments, message in [
        (("logg",), r"loss must be one of brier, log, .* got 'logg'. Did you mean 'log'\?"),
        ((3,), "loss must be one of .* got 3. Pass its name."),
        ((np.square,), r"loss must be a loss or its name; got the function square. Make a loss of it with from_loss."),
    ]:
        with pytest.raises(InputError, match=message):
            get_loss(*arguments)
    with pytest.raises(InputError, match="the tsallis loss takes the parameters: alpha; got beta"):
        get_loss("tsallis", beta=2)
    with pytest.raises(InputError, match="parameters must go with the name of a loss"):
        get_loss(LogLoss(), alpha=1)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("tsallis", {"alpha": 1}, "alpha must be above 0 and not 1"),
        ("tsallis", {"alpha": -1}, "alpha must be above 0"),
        ("pseudo-spherical", {"alpha": 1}, "alpha must be above 1; got 1"),
        ("beta", {"a": -1, "b": 0}, "a must be above −1; got -1"),
        ("elementary", {"theta": 1}, "theta must be between 0 and 1; got 1"),
        ("cost-weighted", {"fp": 0, "fn": 1}, "fp must be a cost above 0; got 0"),
        ("tsallis", {"alpha": "x"}, "alpha must be above 0 and not 1 .* got 'x'. Pass a number."),
        ("tsallis", {"alpha": float("nan")}, "got nan"),
    ],
)
def test_bad_parameters(name, parameters, message):
    with pytest.raises(InputError, match=message):
        get_loss(name, **parameters)


def test_binary_losses_refuse_three_classes():
    three = np.full((1, 3), 1 / 3)
    for name in ("beta", "elementary", "cost-weighted"):
        with pytest.raises(
            InputError,
            match=rf"the {name} loss is for two classes, so p must have shape \(n,\) or \(n, 2\); got shape \(1, 3\)",
        ):
            get_loss(name).loss(three, [0])


@pytest.mark.parametrize("clip", [None, 1e-3])
def test_a_loss_of_two_classes_is_refused_wherever_it_meets_three(clip):
    """Losses are evaluated unchecked inside: every door must have looked at the classes."""
    rng = np.random.default_rng(0)
    law, other, y, X = (
        rng.dirichlet([2, 2, 2], 60),
        rng.dirichlet([2, 2, 2], 60),
        np.arange(60) % 3,
        rng.random((60, 2)),
    )
    loss, chain = get_loss("elementary"), Chain(y, [Level("S", law), Level("C", other)])
    calls = [
        lambda: chain.decompose(loss, clip=clip),
        lambda: chain.level_losses(loss),
        lambda: chain.level_spreads(loss),
        lambda: chain.divergences(loss),
        lambda: chain.levels[0].losses(loss, y),
        lambda: chain.sample.has_infinite(loss),
        lambda: decompose(y, law, X, loss=loss, clip=clip),
        lambda: decompose(y, law).chain.decompose(loss, "plugin", clip=clip),
        lambda: compare(y, {"a": law, "b": other}, loss=loss, clip=clip),
        lambda: resolution_decomposition(y, law, other, loss=loss, clip=clip),
        lambda: make_report(y, law, loss=loss, clip=clip),
        lambda: aggregation_decomposition(y, {"a": law, "b": other}, loss=loss, clip=clip),
        lambda: SelectedCalibrator(loss=loss).fit(law, y),
    ]
    for call in calls:
        with pytest.raises(InputError) as refused:
            call()
        assert str(refused.value) == (
            "the elementary loss is for two classes, so p must have shape (n,) or (n, 2); got shape (60, 3). "
            "Use brier, log, spherical, tsallis or ranked-probability for more classes."
        )


def test_rounding_of_a_large_loss_is_no_impropriety():
    """A Brier loss in cents of billions: risks of neighbouring laws differ by rounding, 1e-16 of their size."""
    q = np.random.default_rng(0).uniform(0.05, 0.95, 2000)
    loss = from_loss(lambda p, y: 1e11 * (p - y) ** 2)
    near = np.nextafter(q, 1.0)
    assert (loss.risk(near, q) - loss.entropy(q)).min() < -1e-6  # less than nothing, by rounding alone
    assert loss.divergence(near, q).max() < 1e-4
