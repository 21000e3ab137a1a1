"""The cost of moving scores: against closed forms, scipy, and numbers of POT."""

import math

import numpy as np
import pytest
from scipy.stats import wasserstein_distance_nd

from scoreprism.calibrators import IsotonicCalibrator
from scoreprism.exceptions import InputError, UnavailableError
from scoreprism.metrics import transport_cost
from tests.metrics.test_metric_peers import S, W, Y, three

LAW = three()[1]
SHARPER = LAW**1.3 / (LAW**1.3).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weight", [None, W])
def test_a_nondecreasing_map_moves_every_score_to_its_image(p, weight):
    for moved in (S**1.5, IsotonicCalibrator().fit(S, Y).calibrate(S)):
        direct = np.average(np.abs(S - moved) ** p, weights=weight) ** (1 / p)
        assert transport_cost(S, moved, p=p, sample_weight=weight) == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("p", [1, 2])
def test_a_map_that_turns_scores_around_costs_less_than_it_moves(p):
    # 1 − S has the law of S for scores that are symmetric: nothing needs to move
    s = np.linspace(0, 1, 101)
    assert transport_cost(s, 1 - s, p=p) == pytest.approx(0.0, abs=1e-15)
    turned = np.sin(3 * S) ** 2
    assert 0 < transport_cost(S, turned, p=p) < (np.abs(S - turned) ** p).mean() ** (1 / p)


def test_scipy_and_pot_in_one_dimension():
    """scipy.stats.wasserstein_distance(s, g, w, w); ot.wasserstein_1d(s, g, w, w, p=2) ** 0.5 (POT 0.9.7)."""
    turned = np.sin(3 * S) ** 2
    assert transport_cost(S, S**1.5) == pytest.approx(0.10274857151880978, rel=1e-12)
    assert transport_cost(S, turned, sample_weight=W) == pytest.approx(0.16029850617733765, rel=1e-12)
    assert transport_cost(S, turned, p=2, sample_weight=W) == pytest.approx(0.20636150700478748, rel=1e-12)
    from scipy.stats import wasserstein_distance

    assert transport_cost(S, turned) == pytest.approx(wasserstein_distance(S, turned), rel=1e-12)


def test_pot_on_the_simplex():
    """ot.emd2([], [], M) ** (1/p) and with weights, M the Euclidean distances to the power p of 60 rows (POT 0.9.7)."""
    s, g, w = LAW[:60], SHARPER[:60], W[:60]
    assert transport_cost(s, g) == pytest.approx(0.08082524692121393, rel=1e-12)
    assert transport_cost(s, g, p=2) == pytest.approx(0.08334298235680337, rel=1e-12)
    # HiGHS holds constraints to 1e-7
    assert transport_cost(s, g, sample_weight=w) == pytest.approx(0.08152177111799988, rel=1e-6)
    assert transport_cost(s, g, p=2, sample_weight=w) == pytest.approx(0.0837003092382966, rel=1e-6)


def test_pot_sliced():
    """ot.sliced_wasserstein_distance(S, G, projections=D.T, p=p) (POT 0.9.7) with the directions of seed 0."""
    sliced = {"method": "sliced", "n_projections": 50, "random_state": 0}
    weight = W[:300].astype(float)
    assert transport_cost(LAW, SHARPER, **sliced) == pytest.approx(0.050671129982619426, rel=1e-10)
    assert transport_cost(LAW, SHARPER, p=2, **sliced) == pytest.approx(0.05870930302649204, rel=1e-10)
    weighted = sliced | {"sample_weight": weight}
    assert transport_cost(LAW, SHARPER, **weighted) == pytest.approx(0.050757391682198616, rel=1e-10)
    assert transport_cost(LAW, SHARPER, p=2, **weighted) == pytest.approx(0.05877054316651351, rel=1e-10)


def test_the_assignment_is_the_linear_program():
    s, g = LAW[:25], SHARPER[24::-1]
    almost = np.ones(25)
    almost[0] += 1e-12  # unequal, so that the program is solved
    for p in (1, 2):
        # HiGHS holds constraints to 1e-7
        assert transport_cost(s, g, p=p) == pytest.approx(transport_cost(s, g, p=p, sample_weight=almost), rel=1e-6)


def test_scipy_on_the_simplex():
    value = wasserstein_distance_nd(LAW[:15], SHARPER[:15])
    assert transport_cost(LAW[:15], SHARPER[:15]) == pytest.approx(value, rel=1e-6)  # it too solves a linear program


def test_two_columns_are_one():
    both = np.column_stack([1 - S, S]), np.column_stack([1 - S**2, S**2])
    assert transport_cost(*both) == pytest.approx(transport_cost(S, S**2), rel=1e-12)


def test_a_shift_along_one_direction_is_seen_by_every_method():
    rng = np.random.default_rng(0)
    s = 0.2 + 0.1 * rng.dirichlet([1, 1, 1], 300) * 4
    moved = s + np.array([0.05, -0.05, 0.0])
    length = 0.05 * math.sqrt(2)
    assert transport_cost(s, moved, p=2) == pytest.approx(length, rel=1e-9)
    # the mean of cos² over directions of a plane is 1/2, and 4000 of them give it within 1.5 %
    sliced = transport_cost(s, moved, p=2, method="sliced", n_projections=4000)
    assert sliced == pytest.approx(length / math.sqrt(2), rel=0.03)


@pytest.mark.parametrize("before", [S[:300], LAW])
def test_equal_weights_are_none(before):
    moved = before**1.5 if before.ndim == 1 else SHARPER
    plain, equal = (transport_cost(before, moved, method="sliced", sample_weight=w) for w in (None, np.full(300, 0.7)))
    assert float(plain) == float(equal)
    assert plain.interval(n_resamples=20, random_state=0) == equal.interval(n_resamples=20, random_state=0)


def test_methods_and_intervals():
    assert transport_cost(LAW, SHARPER).method == "Wasserstein distance of order 1, exact on the simplex"
    with pytest.raises(UnavailableError) as error:
        transport_cost(LAW, SHARPER).interval()
    assert str(error.value) == (
        'this estimate has no interval: exact transport on the simplex is not resampled. Use method="sliced".'
    )
    sliced = transport_cost(LAW, SHARPER, method="sliced", n_projections=8)
    assert sliced.method == "Wasserstein distance of order 1, sliced along 8 directions"
    for value in (sliced, transport_cost(S, S**2), transport_cost(S, S**2, sample_weight=W)):
        interval = value.interval(n_resamples=60, random_state=0)
        assert interval.low < value < interval.high
        assert 0 < value.std_error < value


def test_the_standard_error_is_that_of_a_mean_for_a_nondecreasing_map():
    moved = np.abs(S - S**1.5)
    # 200 resamples know a standard error to some 5 %; three of these
    assert transport_cost(S, S**1.5).std_error == pytest.approx(moved.std() / math.sqrt(1000), rel=0.15)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: transport_cost(S, S[:5]),
            "recalibrated and y_proba must have the same number of rows; got 5 and 1000.",
        ),
        (
            lambda: transport_cost(S[:300], LAW),
            "recalibrated must have as many classes as y_proba; got shapes (300, 3)",
        ),
        (lambda: transport_cost(S, S, p=3), "p must be 1 or 2; got 3. Pass one of these."),
        (lambda: transport_cost(S, S, method="best"), "method must be one of auto, exact, sliced; got 'best'."),
        (
            lambda: transport_cost(np.full((4001, 3), 1 / 3), np.full((4001, 3), 1 / 3), method="exact"),
            (
                'method="exact" must have at most 4000 rows, because its time grows with their cube; got 4001 rows. '
                'Use method="sliced", or draw that many rows.'
            ),
        ),
        (
            lambda: transport_cost(
                np.full((1001, 3), 1 / 3), np.full((1001, 3), 1 / 3), method="exact", sample_weight=np.arange(1, 1002)
            ),
            'method="exact" must have at most 1000 rows with weights',
        ),
        (lambda: transport_cost(S, S + 1), "recalibrated must hold probabilities between 0 and 1"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(text)
