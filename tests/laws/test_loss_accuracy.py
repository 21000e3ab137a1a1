"""Losses against 50-digit arithmetic (mpmath), including 0, 1, 1e-300 and laws one ulp apart.

The formulas are those of the literature, written once more here in mpmath; nothing of scoreprism is used for them.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest

from scoreprism.losses import (
    LOSSES,
    BetaLoss,
    Brier,
    CostWeighted,
    Elementary,
    LogLoss,
    PseudoSpherical,
    RankedProbability,
    Spherical,
    Tsallis,
)

VALUES = [
    0.0,
    1e-300,
    1e-20,
    1e-8,
    0.1,
    0.25,
    np.nextafter(0.25, 1),
    0.5,
    np.nextafter(0.5, 0),
    0.7,
    1 - 1e-8,
    np.nextafter(1, 0),
    1.0,
]
PAIRS = np.array(list(itertools.product(VALUES, VALUES)))


def entropy_of(function):
    """Loss and risk of a proper loss from its exact loss function."""

    def risk(p, q):
        return mp.fsum(q_k * function(p, k) for k, q_k in enumerate(q) if q_k > 0)

    return risk


def brier(p, y):
    if len(p) == 2:
        return (p[1] - y) ** 2
    return mp.fsum((p_k - (k == y)) ** 2 for k, p_k in enumerate(p))


def log(p, y):
    return mp.inf if p[y] == 0 else -mp.log(p[y])


def spherical(p, y):
    return 1 - p[y] / mp.sqrt(mp.fsum(x * x for x in p))


def pseudo_spherical(alpha):
    a = mp.mpf(alpha)
    return lambda p, y: 1 - (p[y] / mp.fsum(x**a for x in p) ** (1 / a)) ** (a - 1)


def tsallis(alpha):
    a = mp.mpf(alpha)

    def loss(p, y):
        if p[y] == 0 and a < 1:
            return mp.inf
        return (1 - a * p[y] ** (a - 1) + (a - 1) * mp.fsum(x**a for x in p)) / (a - 1)

    return loss


def incomplete(x, a, b):
    """∫_0^x t^{a−1}(1−t)^{b−1} dt by the hypergeometric series."""
    if x == 0:
        return mp.mpf(0)
    if (a, b) == (1, 0):  # the series is slow there
        return mp.inf if x == 1 else -mp.log(1 - x)
    if x == 1:
        return mp.inf if b <= 0 else mp.beta(a, b)
    return x**a / a * mp.hyp2f1(a, 1 - b, a + 1, x)


def beta(a, b):
    a, b = mp.mpf(a), mp.mpf(b)
    return lambda p, y: incomplete(p[0], b + 1, a) if y == 1 else incomplete(p[1], a + 1, b)


def elementary(theta):
    t = mp.mpf(theta)
    return lambda p, y: ((1 - t) if p[1] <= t else mp.mpf(0)) if y == 1 else (t if p[1] > t else mp.mpf(0))


def cost_weighted(fp, fn):
    t = mp.mpf(fp) / (mp.mpf(fp) + mp.mpf(fn))
    return lambda p, y: (mp.mpf(fn) if p[1] <= t else mp.mpf(0)) if y == 1 else (mp.mpf(fp) if p[1] > t else mp.mpf(0))


def ranked(p, y):
    return mp.fsum((mp.fsum(p[: j + 1]) - (y <= j)) ** 2 for j in range(len(p) - 1))


CASES = [
    (Brier(), brier),
    (LogLoss(), log),
    (Spherical(), spherical),
    (PseudoSpherical(3), pseudo_spherical(3)),
    (PseudoSpherical(1.3), pseudo_spherical(1.3)),
    (Tsallis(1.5), tsallis(1.5)),
    (Tsallis(0.5), tsallis(0.5)),
    (Tsallis(1 + 2**-30), tsallis(1 + 2**-30)),
    (Tsallis(1 - 2**-40), tsallis(1 - 2**-40)),
    (Tsallis(4.2), tsallis(4.2)),
    (BetaLoss(-0.5, -0.5), beta(-0.5, -0.5)),
    (BetaLoss(0, 0), beta(0, 0)),
    (BetaLoss(2.5, 1), beta(2.5, 1)),
    (BetaLoss(1e-9, -0.9), beta(1e-9, -0.9)),
    (BetaLoss(12.3, 0), beta(12.3, 0)),
    (BetaLoss(20, 9), beta(20, 9)),
    (Elementary(0.25), elementary(0.25)),
    (Elementary(0.3), elementary(0.3)),
    (CostWeighted(1, 4), cost_weighted(1, 4)),
    (RankedProbability(), ranked),
]
#: Divergences of these must be right to 1e-13 relatively, all else to 1e-13 absolutely (relatively above 1).
RELATIVE = (Brier, LogLoss)


def test_no_loss_of_the_table_is_left_out():
    assert {type(loss) for loss, _ in CASES} == set(LOSSES.values())


def assert_close(ours, exact, *, relative=False):
    for i, (a, b) in enumerate(zip(ours, exact, strict=True)):
        if mp.isinf(b):
            assert a == np.inf, (i, a, b)
            continue
        assert np.isfinite(a), (i, a, b)
        scale = abs(b) if relative else max(1, abs(b))
        # below 1e-290 a product underflows: no double is close to the exact value
        assert abs(mp.mpf(float(a)) - b) <= mp.mpf("1e-13") * scale + mp.mpf("1e-290"), (i, a, mp.nstr(b, 20))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize(("loss", "exact"), CASES, ids=lambda c: str(c) if not callable(c) else "")
def test_binary(loss, exact):
    # 1 − 1e-300 must not round to 1 in the reference
    with mp.workdps(360 if isinstance(loss, BetaLoss) else 320):
        pairs = PAIRS if not isinstance(loss, BetaLoss) else PAIRS[::3]
        as_law = {v: (1 - mp.mpf(v), mp.mpf(v)) for v in VALUES}
        value = {(v, y): exact(as_law[v], y) for v in VALUES for y in (0, 1)}

        def risk(p, q):
            return mp.fsum(as_law[q][y] * value[p, y] for y in (0, 1) if as_law[q][y] > 0)

        p, q = pairs.T
        for y in (0, 1):
            assert_close(loss.loss(VALUES, [y] * len(VALUES)), [value[v, y] for v in VALUES])
        assert_close(loss.entropy(VALUES), [risk(v, v) for v in VALUES])
        risks = [risk(a, b) for a, b in pairs]
        divergences = [r if mp.isinf(r) else r - risk(b, b) for r, (_, b) in zip(risks, pairs, strict=True)]
        assert_close(loss.risk(p, q), risks)
        assert_close(loss.divergence(p, q), divergences, relative=isinstance(loss, RELATIVE))


def rows_of_three():
    rng = np.random.default_rng(0)
    special = [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5], [1e-300, 1e-8, 1 - 1e-8], [1 / 3, 1 / 3, 1 / 3], [0.2, 0.3, 0.5]]
    return np.concatenate([special, rng.dirichlet([0.3, 0.3, 0.3], 6), rng.dirichlet([5, 5, 5], 4)])


@pytest.mark.parametrize(
    ("loss", "exact"), [c for c in CASES if not c[0].binary_only], ids=lambda c: str(c) if not callable(c) else ""
)
def test_three_classes(loss, exact):
    laws = rows_of_three()
    exact_laws = [
        [mp.mpf(v) / mp.fsum(map(mp.mpf, row)) for v in row] for row in laws
    ]  # floats sum to 1 up to rounding
    risk = entropy_of(exact)
    pairs = list(itertools.product(range(len(laws)), repeat=2))
    p, q = laws[[i for i, _ in pairs]], laws[[j for _, j in pairs]]
    for y in range(3):
        assert_close(loss.loss(laws, [y] * len(laws)), [exact(row, y) for row in exact_laws])
    assert_close(loss.entropy(laws), [risk(row, row) for row in exact_laws])
    risks = [risk(exact_laws[i], exact_laws[j]) for i, j in pairs]
    divergences = [
        r if mp.isinf(r) else r - risk(exact_laws[j], exact_laws[j]) for r, (_, j) in zip(risks, pairs, strict=True)
    ]
    assert_close(loss.risk(p, q), risks)
    assert_close(loss.divergence(p, q), divergences)


@pytest.mark.parametrize("loss", [Brier(), LogLoss()], ids=str)
@pytest.mark.parametrize("gap", [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.03, 0.2])
def test_nearby_laws_of_three_classes_relatively(loss, gap):
    """Move mass between two classes so that both rows sum to one exactly in binary: relative accuracy is then defined."""
    base = np.array([0.25, 0.5, 0.25])
    step = np.ldexp(np.round(np.ldexp(gap * 0.25, 60)), -60) if gap > 1e-12 else np.ldexp(1.0, -52)
    other = base + np.array([step, -step, 0.0])
    assert mp.fsum(map(mp.mpf, other)) == 1
    p, q = [mp.mpf(v) for v in other], [mp.mpf(v) for v in base]
    if isinstance(loss, Brier):
        exact = mp.fsum((a - b) ** 2 for a, b in zip(p, q, strict=True))
    else:
        exact = mp.fsum(b * mp.log(b / a) for a, b in zip(p, q, strict=True))
    assert_close(loss.divergence(other[None], base[None]), [exact], relative=True)


@pytest.mark.parametrize("p", [0.25, 0.5, 0.9, 1e-8])
def test_two_columns_one_ulp_apart_equal_one_column(p):
    """[1 − p, p] rounds away half of the difference of two neighbouring floats; the other column still knows it."""
    q = np.nextafter(p, 1)
    wide = LogLoss().divergence([[1 - p, p]], [[1 - q, q]])
    np.testing.assert_allclose(wide, LogLoss().divergence([p], [q]), rtol=1e-10, atol=0)
    mirrored = LogLoss().divergence([[p, 1 - p]], [[q, 1 - q]])
    np.testing.assert_allclose(mirrored, wide, rtol=1e-10)


@pytest.mark.parametrize(
    "loss",
    [case[0] for case in CASES] + [Tsallis(0.001), BetaLoss(-0.99, 0.5), BetaLoss(-0.99, 2), BetaLoss(3, -0.99)],
    ids=str,
)
def test_subnormal_probabilities_give_no_nan(loss):
    """An overflow is an infinite loss, a divergence of a law from itself is zero."""
    tiny = np.array([0.0, 5e-324, 1e-320, 1e-310, 2e-308, 1e-300, 0.5, 1.0])
    p, q = (v.ravel() for v in np.meshgrid(tiny, tiny))
    wide = np.stack([p, 1 - p], axis=1), np.stack([q, 1 - q], axis=1)
    for a, b in ((p, q), wide):
        for values in (
            loss.risk(a, b),
            loss.entropy(b),
            loss.divergence(a, b),
            loss.loss(a, np.zeros(p.size, dtype=int)),
            loss.loss(a, np.ones(p.size, dtype=int)),
        ):
            assert not np.isnan(values).any()
            assert (values >= 0).all()
        assert (loss.divergence(a, a) == 0).all()


def test_the_boosting_loss_has_its_closed_form():
    """Buja, Stuetzle & Shen (2005): a = b = −1/2 gives ℓ(p,1) = 2·sqrt((1−p)/p) and ℰ(q) = 4·sqrt(q(1−q))."""
    p = np.array([0.01, 0.2, 0.5, 0.93])
    np.testing.assert_allclose(BetaLoss(-0.5, -0.5).loss(p, [1, 1, 1, 1]), 2 * np.sqrt((1 - p) / p), rtol=1e-13)
    np.testing.assert_allclose(BetaLoss(-0.5, -0.5).entropy(p), 4 * np.sqrt(p * (1 - p)), rtol=1e-13)


def test_family_members_coincide():
    """Tsallis 2 = twice binary Brier; beta (1,1) = half Brier, (0,0) = log; pseudo-spherical 2 = spherical; RPS at K=2 = Brier."""
    p, y = np.array([0.0, 0.1, 0.5, 0.8]), np.array([0, 1, 1, 0])
    for ours, other, factor in [
        (Tsallis(2), Brier(), 2.0),
        (BetaLoss(1, 1), Brier(), 0.5),
        (BetaLoss(0, 0), LogLoss(), 1.0),
        (PseudoSpherical(2), Spherical(), 1.0),
        (RankedProbability(), Brier(), 1.0),
        (CostWeighted(0.3, 0.7), Elementary(0.3), 1.0),
    ]:
        np.testing.assert_allclose(ours.loss(p, y), factor * other.loss(p, y), rtol=1e-14, atol=1e-15)


def test_pseudo_spherical_of_high_order_does_not_underflow():
    """‖p‖_α of the uniform law over K classes is K^{1/α − 1} (closed form)."""
    law = np.full((1, 1000), 1e-3)
    np.testing.assert_allclose(PseudoSpherical(400).entropy(law), 1 - 1000 ** (1 / 400 - 1), rtol=1e-12)
