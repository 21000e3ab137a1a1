"""What the evidence of a monitor guarantees: exactly on all outcomes of short streams, and by simulation on long ones."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit, logit
from scipy.stats import binom, hypergeom, nchypergeom_fisher

from scoreprism.losses import get_loss
from scoreprism.monitoring import _alarm, _alternatives, _bounds, _evidence, _periods, _stream

PRIOR = _evidence.StartPrior(0.1)
ROWS = 12
#: Every outcome of 12 rows.
OUTCOMES = np.array(list(itertools.product((0.0, 1.0), repeat=ROWS)))


def count(alternatives, score, y, weight=None):
    """Counts of runs, (R, T, n) each, row by row."""
    shape = (*y.shape[:-1], alternatives.bins)
    sums = [np.zeros(shape) for _ in range(4)]
    score = np.broadcast_to(score, y.shape)
    weight = np.broadcast_to(1.0 if weight is None else weight, y.shape)
    home = alternatives.find_bins(_alternatives.find_grid_cells(score))
    for target, value in zip(sums, (weight, weight * y, weight * score, weight * score**2), strict=True):
        for i in range(y.shape[-1]):
            np.put_along_axis(
                target,
                home[..., i : i + 1],
                np.take_along_axis(target, home[..., i : i + 1], -1) + value[..., i : i + 1],
                -1,
            )
    return _evidence.Counts(*sums)


def chance_of(outcomes, chance):
    """The probability of each outcome, (R,)."""
    return np.where(outcomes > 0.0, chance, 1.0 - chance).prod(axis=-1)


def simulate(seed, runs, days, rows, law=lambda x: x, after=None, change=None):
    """Streams of a law that maps log-odds, which may change; with bins of their own first day."""
    rng = np.random.default_rng(seed)
    x = rng.normal(-1.0, 1.2, (runs, days, rows))
    moved = law(x)
    if after is not None:
        moved[:, change:] = after(x[:, change:])
    y = (rng.random(x.shape) < expit(moved)).astype(float)
    alternatives = _alternatives.Alternatives.of(expit(rng.normal(-1.0, 1.2, rows)))
    return alternatives, expit(x), y


def stop(log_e, rule):
    """E where a rule of the past and the present first holds, at the end otherwise."""
    hit = rule(np.exp(log_e))
    at = np.where(hit.any(axis=1), hit.argmax(axis=1), log_e.shape[1] - 1)
    return np.exp(log_e[np.arange(len(log_e)), at])


STOPS = {
    "fixed": lambda e: np.broadcast_to(np.arange(e.shape[1]) == 3, e.shape),
    "high": lambda e: e >= 2.0,
    "low": lambda e: e <= 0.7,
    "fell": lambda e: np.diff(e, axis=1, prepend=1.0) < 0.0,
}

# ── exactly, on all outcomes ────────────────────────────────────────────────────────────────────────

EQUAL = np.tile([0.1, 0.7, 0.1], 4)
VARIED = np.array([0.02, 0.08, 0.11, 0.3, 0.33, 0.31, 0.7, 0.74, 0.9, 0.93, 0.05, 0.72])


@pytest.mark.parametrize("periods", [12, 4])
@pytest.mark.parametrize("name", ["equal", "varied"])
def test_calibrated_scores_on_all_outcomes(name, periods):
    # Ville's inequality and optional stopping, by summing over all 2^12 outcomes with their probabilities
    score = {"equal": EQUAL, "varied": VARIED}[name]
    typical = score if name == "equal" else np.array([0.05, 0.3, 0.8])
    alternatives = _alternatives.Alternatives.of(typical)
    mass = chance_of(OUTCOMES, score)
    counts = count(alternatives, score.reshape(periods, -1), OUTCOMES.reshape(-1, periods, ROWS // periods))
    log_e = _evidence.follow_calibration(alternatives, counts, PRIOR)
    means = mass @ np.exp(log_e)
    if name == "equal":  # a martingale
        np.testing.assert_allclose(means, 1.0, atol=1e-12)
    else:  # scores of a bin differ: at most a martingale
        assert (np.diff(means, prepend=1.0) <= 1e-12).all()
        assert means[-1] == pytest.approx(1.0, abs=1e-12) if periods == ROWS else means[-1] < 1.0 - 1e-4
    for rule in STOPS.values():
        assert mass @ stop(log_e, rule) <= 1.0 + 1e-12
    for alpha in (0.5, 0.2, 0.05):
        rings = mass @ (log_e.max(axis=1) >= -np.log(alpha))
        assert 0.0 < rings <= alpha


@pytest.mark.parametrize("periods", [12, 6])
@pytest.mark.parametrize("chances", [(0.1, 0.1), (0.5, 0.9), (0.05, 0.7)])
def test_a_constant_map_on_all_outcomes(chances, periods):
    # whatever the chances are, and whatever the score says
    alternatives = _alternatives.Alternatives.of(EQUAL)
    score = EQUAL.reshape(periods, -1)
    mass = chance_of(OUTCOMES, np.where(EQUAL < 0.5, *chances))
    counts = count(alternatives, score, OUTCOMES.reshape(-1, periods, ROWS // periods))
    log_e = _evidence.follow_change(alternatives, counts, _evidence.StartPrior(0.3), 2).log_e
    assert (np.diff(log_e, axis=1) >= 0.0).all()
    # it only grows: its mean in the end is the largest of all stopping times
    best = np.exp(log_e[:, -1])
    assert mass @ best <= 1.0
    assert best.max() > 1.2 * best.min()
    for begin, end in ((periods // 2, periods), (periods // 3, periods)):
        e = np.exp(_evidence.compare_windows(alternatives, counts, np.array([begin]), np.array([end]))[:, 0])
        assert mass @ e <= 1.0 + 1e-12
        for alpha in (0.5, 0.2, 0.05):
            assert mass @ (e >= 1.0 / alpha) <= alpha
        assert e.max() > 1.2


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 1.5])
def test_a_constant_map_on_all_outcomes_where_scores_of_a_bin_change(slope):
    # the first periods have low scores, the last ones high scores, of the same bin: the case mix changes
    score = np.repeat([0.2, 0.35], ROWS // 2)
    alternatives = _alternatives.Alternatives(np.array([], dtype=int), -1.0, 1.0, np.zeros(1), 2.0)
    mass = chance_of(OUTCOMES, expit(slope * logit(score) + 0.3))
    counts = count(alternatives, score.reshape(6, 2), OUTCOMES.reshape(-1, 6, 2))
    best = np.exp(_evidence.follow_change(alternatives, counts, _evidence.StartPrior(0.3), 2).log_e[:, -1])
    assert mass @ best <= 1.0
    for window in ((3, 6), (2, 5), (4, 6)):
        e = np.exp(_evidence.compare_windows(alternatives, counts, np.array([window[0]]), np.array([window[1]]))[:, 0])
        assert mass @ e <= 1.0
        assert e.max() > 1.5


def test_dependent_and_weighted_rows_on_all_outcomes():
    # groups of rows with the same outcome, each with weight 1 / rows (Hölder), and importance weights (Jensen)
    alternatives = _alternatives.Alternatives.of(EQUAL)
    score = np.repeat(EQUAL[:6], 2)
    groups = np.array(list(itertools.product((0.0, 1.0), repeat=6)))
    mass = chance_of(groups, EQUAL[:6])
    twice = np.repeat(groups, 2, axis=1).reshape(-1, 6, 2)
    means = mass @ np.exp(
        _evidence.follow_calibration(alternatives, count(alternatives, score.reshape(6, 2), twice, 0.5), PRIOR)
    )
    np.testing.assert_allclose(means, 1.0, atol=1e-12)  # of two equal rows each half
    wrong = mass @ np.exp(
        _evidence.follow_calibration(alternatives, count(alternatives, score.reshape(6, 2), twice), PRIOR)
    )
    assert wrong[-1] > 1.05  # as if they were independent: no guarantee
    weight = np.linspace(0.1, 1.0, ROWS).reshape(6, 2)
    counts = count(alternatives, EQUAL.reshape(6, 2), OUTCOMES.reshape(-1, 6, 2), weight)
    means = chance_of(OUTCOMES, EQUAL) @ np.exp(_evidence.follow_calibration(alternatives, counts, PRIOR))
    assert (np.diff(means, prepend=1.0) < 0.0).all()


def test_the_detector_on_all_outcomes():
    # the mean of the Shiryaev–Roberts sum after t periods is t
    alternatives = _alternatives.Alternatives.of(EQUAL)
    counts = count(alternatives, EQUAL.reshape(ROWS, 1), OUTCOMES[:, :, None])
    means = chance_of(OUTCOMES, EQUAL) @ np.exp(_evidence.follow_detector(alternatives, counts))
    np.testing.assert_allclose(means, np.arange(1, ROWS + 1), rtol=1e-12)


# ── by hand ─────────────────────────────────────────────────────────────────────────────────────────


def test_evidence_of_calibration_by_hand():
    # one bin, so that every map is one move: the mixture of likelihood ratios, with loops over starts and rows
    s, y = 0.3, np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    alternatives = _alternatives.Alternatives.of(np.full(20, s))
    assert alternatives.bins == 1
    log_e = _evidence.follow_calibration(alternatives, count(alternatives, s, y[:, None]), PRIOR)

    def ratio(move, outcomes):
        moved = expit(logit(s) + move)
        return np.prod(np.where(outcomes > 0.0, moved / s, (1.0 - moved) / (1.0 - s)))

    maps = [(move, share) for (move,), share in zip(alternatives.moves, alternatives.prior, strict=True)]
    start = [0.25] + [0.75 * 0.1 * 0.9**i for i in range(500)]
    tree_start = sum(start[:30])
    for t in range(y.size):
        of_maps = sum(share * start[v] * ratio(move, y[v : t + 1]) for move, share in maps for v in range(t + 1))
        of_maps += sum(share for _, share in maps) * sum(start[t + 1 :])
        tree = 0.5 + 0.5 * np.mean([ratio(move, y[: t + 1]) for move in _alternatives.TREE_MOVES])
        expected = of_maps + _alternatives.TREES * (tree_start * tree + 1.0 - tree_start)
        assert np.exp(log_e[t]) == pytest.approx(expected, rel=1e-9)


def test_context_trees_by_hand():
    # two bins: ½ of a common move, ½ of a tree of each
    rng = np.random.default_rng(0)
    each = rng.normal(size=(2, 3))

    def own(logs):
        return 0.5 + 0.5 * np.exp(logs).mean()

    expected = 0.5 * own(each.sum(axis=0)) + 0.5 * own(each[0]) * own(each[1])
    assert np.exp(_evidence.log_trees(each)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("before", "rows"), [(10, 6), (200, 40), (12, 40)])
def test_windows_against_the_hypergeometric_law(before, rows):
    # ψ^k / E ψ^k is the e-value of one move given the margins (scipy's hypergeometric law); ours is at most that, and close to it
    alternatives = _alternatives.Alternatives.of(np.full(20, 0.3))
    moves = alternatives.moves[:, 0]
    share = alternatives.prior / alternatives.prior.sum()
    for events in (1, (before + rows) // 4, before + rows - 1):
        k = np.arange(max(0, events - before), min(rows, events) + 1)
        law = hypergeom(before + rows, events, rows)
        exact = np.exp(np.outer(k, moves)) / (law.pmf(k) @ np.exp(np.outer(k, moves))) @ share
        sums = np.array([[before, rows], [0, 0]]).T.astype(float)
        counts = _evidence.Counts(
            np.broadcast_to(sums[:, :1], (k.size, 2, 1)).copy(),
            np.stack([events - k, k], axis=1)[..., None].astype(float),
            np.broadcast_to(0.3 * sums[:, :1], (k.size, 2, 1)).copy(),
            np.broadcast_to(0.09 * sums[:, :1], (k.size, 2, 1)).copy(),
        )
        ours = np.exp(_evidence.compare_windows(alternatives, counts, np.array([1]), np.array([2]))[:, 0])
        assert (ours <= exact * (1.0 + 1e-9)).all()
        assert law.pmf(k) @ ours <= 1.0 + 1e-12
        assert law.pmf(k) @ ours > (0.8 if before >= rows else 0.3)


@pytest.mark.parametrize("slope", [0.0, 0.75, 1.5])
@pytest.mark.parametrize(("first", "later"), [(0.2, 0.35), (0.4, 0.3)])
def test_windows_where_the_case_mix_moves_within_a_bin(slope, first, later):
    # given the margins the events of the window follow Fisher's noncentral hypergeometric law (scipy), at the odds ratio of the map
    alternatives = _alternatives.Alternatives(np.array([], dtype=int), -1.0, 1.0, np.zeros(1), 2.0)
    before, rows = 300, 100
    odds = np.exp(slope * (logit(later) - logit(first)))
    for events in (20, 120, 300):
        k = np.arange(max(0, events - before), min(rows, events) + 1)
        law = nchypergeom_fisher(before + rows, events, rows, odds).pmf(k)
        held = np.broadcast_to(np.array([before, rows], dtype=float)[:, None], (k.size, 2, 1))
        score = np.array([first, later])[:, None]
        y = np.stack([events - k, k], axis=1)[..., None].astype(float)
        counts = _evidence.Counts(held, y, held * score, held * score**2)
        e = np.exp(_evidence.compare_windows(alternatives, counts, np.array([1]), np.array([2]))[:, 0])
        assert law @ e <= 1.0 + 1e-9


def test_extreme_shares_against_a_linear_programme():
    # the largest mean of log(1 + s·u) over all laws of s on a fine grid of [0, 1] with a mean and a variance (HiGHS)
    grid = np.linspace(0.0, 1.0, 401)
    for mean, variance in ((0.3, 0.05), (0.1, 0.02), (0.9, 0.03)):
        one, below = _evidence.find_extreme_shares(np.array(mean), np.array(variance))
        assert one + (1.0 - one) * below == pytest.approx(mean)
        assert one + (1.0 - one) * below**2 - mean**2 == pytest.approx(variance)
        for move in (0.5, 2.0):
            values = np.log1p(grid * np.expm1(move))
            law = linprog(-values, A_eq=[np.ones(401), grid, grid**2], b_eq=[1.0, mean, mean**2 + variance])
            ours = one * move + (1.0 - one) * np.log1p(below * np.expm1(move))
            assert ours == pytest.approx(-law.fun, abs=2e-5)
            assert ours >= -law.fun - 1e-9


# ── counts against rows ─────────────────────────────────────────────────────────────────────────────


def test_counts_never_say_more_than_rows():
    alternatives, score, y = simulate(1, 3, 5, 200, lambda x: 0.7 * x)
    counts = count(alternatives, score, y)
    by_counts = _evidence.log_ratios(alternatives, counts.rows, counts.events, counts.rate)
    moves = alternatives.moves[:, alternatives.find_bins(_alternatives.find_grid_cells(score))]
    by_rows = np.moveaxis((y * moves - np.log1p(score * np.expm1(moves))).sum(axis=-1), 0, -1)
    assert (by_counts <= by_rows + 1e-9).all()
    assert (by_counts < by_rows - 1e-3).any()
    pooled = counts.part(slice(0, 5)).pool()
    of_bins = _evidence.Counts(*(one[0] for one in pooled))
    # the largest likelihood that scores with these sums can have is at least that of the rows
    held = of_bins.rows > 0.0
    kept = _evidence.Counts(*(one[held] for one in of_bins))
    home = alternatives.find_bins(_alternatives.find_grid_cells(score[0])).ravel()
    for move in (-2.0, -0.3, 0.3, 2.0):
        each = y[0].ravel() * move - np.log1p(score[0].ravel() * np.expm1(move))
        rows = np.bincount(home, each, alternatives.bins)[held]
        most = _bounds.bound_likelihood(kept, np.full((rows.size, 1), move))[:, 0]
        assert (rows <= most + 1e-9).all()
        np.testing.assert_allclose(rows, most, atol=0.3)


def test_scores_of_a_bin_that_are_0_and_another_value_reach_the_bound():
    # 0 and the score that the mean and the variance leave: the law that attains it
    score, y = np.array([0.0, 0.4, 0.4, 0.4]), np.array([0.0, 1.0, 0.0, 1.0])
    counts = _evidence.Counts(*(np.array([value]) for value in (4.0, y.sum(), score.sum(), (score**2).sum())))
    expected = (y * 1.5 - np.log1p(score * np.expm1(1.5))).sum()
    assert _bounds.bound_likelihood(counts, np.array([[1.5]]))[0, 0] == pytest.approx(expected, rel=1e-12)


# ── by simulation ───────────────────────────────────────────────────────────────────────────────────


def most_hits(runs, alpha):
    """More hits than this come by chance once in a thousand times, if alpha is kept."""
    return binom.ppf(0.999, runs, alpha)


MAPS = {
    "calibrated": lambda x: x.copy(),
    "slope": lambda x: 0.8 * x + 0.2,
    "staircase": lambda x: logit((np.floor(expit(x) * 8.0) + 0.5) / 8.0),
}


@pytest.mark.parametrize("name", MAPS)
def test_ville_by_simulation(name):
    runs, alpha = 150, 0.05
    alternatives, score, y = simulate(3, runs, 45, 40, MAPS[name])
    counts = count(alternatives, score, y)
    prior = _evidence.StartPrior(1 / 30)
    processes = [_evidence.follow_change(alternatives, counts, prior, 10).log_e]
    if name == "calibrated":
        processes.append(_evidence.follow_calibration(alternatives, counts, prior))
    for log_e in processes:
        assert (log_e.max(axis=1) >= -np.log(alpha)).sum() <= most_hits(runs, alpha)
        # the mean of E at the last look is at most 1, up to chance
        last = np.exp(np.minimum(log_e[:, -1], 20.0))
        assert last.mean() <= 1.0 + 4.0 * last.std() / np.sqrt(runs)


def test_a_change_is_seen_and_a_score_that_was_always_off_is_not():
    always, score, y = simulate(4, 20, 60, 200, MAPS["staircase"])
    counts = count(always, score, y)
    assert (_evidence.follow_calibration(always, counts, PRIOR).max(axis=1) > np.log(20.0)).sum() > 14
    assert (_evidence.follow_change(always, counts, PRIOR, 20).log_e[:, -1] < np.log(20.0)).all()
    later, score, y = simulate(5, 20, 60, 200, MAPS["slope"], lambda x: 0.8 * x - 0.5, 40)
    log_e = _evidence.follow_change(later, count(later, score, y), PRIOR, 20).log_e
    assert (log_e[:, 39] < np.log(20.0)).all()
    assert (log_e[:, -1] > np.log(20.0)).all()


def to_stream(alternatives, counts, run, baseline=10):
    days = range(counts.rows.shape[1])
    sums = [
        _periods.PeriodSums(_evidence.Counts(*(one[run, t] for one in counts)), int(counts.rows[run, t].sum()), 0.0)
        for t in days
    ]
    return _stream.Stream(alternatives, _evidence.StartPrior(1 / 30), baseline, tuple(sums))


@pytest.mark.parametrize("name", ["calibrated", "slope"])
def test_bounds_of_the_reliability_hold_at_every_look(name):
    runs, loss = 40, get_loss("log")
    alternatives, score, y = simulate(6, runs, 30, 40, MAPS[name])
    counts = count(alternatives, score, y)
    chance = expit(MAPS[name](logit(score)))
    each = loss.divergence(score.ravel(), chance.ravel()).reshape(score.shape).sum(axis=-1)
    missed, low = 0, np.zeros(runs)
    for run in range(runs):
        stream = to_stream(alternatives, counts, run)
        for look in (1, 3, 10, 30):
            truth = each[run, :look].sum() / (40 * look)
            low[run], high = stream.bound(loss, 0.05, 0, look)
            if not low[run] <= truth + 1e-12 <= high + 1e-9:
                missed += 1
                break
    assert missed <= most_hits(runs, 0.05)
    assert (low > 0.0).mean() == pytest.approx({"calibrated": 0.0, "slope": 1.0}[name], abs=0.35)


def test_bounds_of_one_bin_against_a_grid():
    # all moves whose likelihood is at least that of the mixture, times alpha
    alternatives = _alternatives.Alternatives.of(np.full(20, 0.3))
    loss, need = get_loss("log"), 3.0
    counts = _evidence.Counts(*(np.array([value]) for value in (400.0, 160.0, 120.0, 36.0)))
    moves = np.linspace(-3.0, 3.0, 60_001)
    kept = 160.0 * moves - 400.0 * np.log1p(0.3 * np.expm1(moves)) >= need
    moved = expit(logit(0.3) + moves[kept])
    cost = loss.divergence(np.full(moved.size, 0.3), moved)
    low, high = _bounds.bound_reliability(counts, need, loss.divergence)
    assert low == pytest.approx(cost.min(), rel=0.02)
    assert high == pytest.approx(cost.max(), rel=0.02)
    assert low <= cost.min() * (1.0 + 1e-9)
    assert high >= cost.max() * (1.0 - 1e-9)
    assert alternatives.bins == 1


def test_when_it_began():
    alternatives, score, y = simulate(7, 12, 60, 300, MAPS["calibrated"], lambda x: x + 0.5, 40)
    counts = count(alternatives, score, y)
    for after_baseline in (False, True):
        found = [to_stream(alternatives, counts, run).find_start(after_baseline=after_baseline) for run in range(12)]
        assert np.median([abs(one.start - 40) for one in found]) <= 1
        assert sum(one.first <= 40 <= one.last for one in found) >= binom.ppf(0.001, 12, 0.9)
        assert np.median([one.last - one.first for one in found]) < 8


def test_lines_and_parts_of_an_alarm():
    # a slope of .8 and a shift of .3 from period 40 on; and the law's own parts of the change of the loss
    loss = get_loss("log")
    alternatives, score, y = simulate(9, 4, 80, 300, MAPS["calibrated"], lambda x: 0.8 * x + 0.3, 40)
    counts = count(alternatives, score, y)
    x = np.random.default_rng(0).normal(-1.0, 1.2, 100_000)
    before, after = expit(x), expit(0.8 * x + 0.3)
    for run in range(4):
        stream = to_stream(alternatives, counts, run)
        each = loss.evaluate(score[run].ravel(), y[run].ravel().astype(int)).reshape(80, -1).sum(axis=1)
        stream = replace(stream, sums=tuple(replace(a, loss=float(b)) for a, b in zip(stream.sums, each, strict=True)))
        line = stream.fit_line(0.05, 40)
        # in the coordinates of the line: x = center + spread · place
        expected = np.array([0.3 - 0.2 * alternatives.center, -0.2 * alternatives.spread])
        assert (line.low <= expected).all()
        assert (expected <= line.high).all()
        assert (line.high - line.low < 0.6).all()
        assert (line.low[1] < line.high[1] < 0.0) or abs(line.value[1] - expected[1]) < 0.1
        change, parts = _alarm.split_change(stream, 40, loss)
        assert sum(parts) == pytest.approx(change, abs=1e-12)
        truth = loss.divergence(before, after).mean(), (loss.entropy(after) - loss.entropy(before)).mean()
        assert parts[1] == pytest.approx(truth[0], abs=0.006)
        assert parts[2] == pytest.approx(truth[1], abs=0.02)
        assert parts[0] == pytest.approx(0.0, abs=0.02)
        nothing = _alarm.split_change(stream, 0, loss)
        assert np.isnan(nothing[0])


# ── safety ──────────────────────────────────────────────────────────────────────────────────────────

ODD = {
    "no rows at all": (np.zeros((40, 3)), np.zeros((40, 3))),
    "no events": (np.full((40, 3), 5.0), np.zeros((40, 3))),
    "events alone": (np.full((40, 3), 5.0), np.full((40, 3), 5.0)),
    "a period of three": (np.where(np.arange(40)[:, None] % 3, 0.0, 7.0) * np.ones(3), np.zeros((40, 3))),
    "a thousand million rows": (np.full((40, 3), 1e9), np.full((40, 3), 9.9e8)),
    "thousandths of rows": (np.full((40, 3), 1e-3), np.full((40, 3), 5e-4)),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("scores", [(0.1, 0.4, 0.8), (0.0, 0.5, 1.0)])
def test_odd_counts_give_finite_numbers(name, scores):
    rows, events = ODD[name]
    s = np.array(scores)
    alternatives = _alternatives.Alternatives.of(s)
    counts = _evidence.Counts(rows, events, rows * s, rows * s * s)
    for log_e in (
        _evidence.follow_calibration(alternatives, counts, PRIOR),
        _evidence.follow_detector(alternatives, counts),
        _evidence.follow_change(alternatives, counts, PRIOR, 10).log_e,
        _evidence.follow_change(alternatives, counts, PRIOR, 100).log_e,
    ):
        assert log_e.shape == (40,)
        assert np.isfinite(log_e).all()
    stream = to_stream(alternatives, _evidence.Counts(*(one[None] for one in counts)), 0)
    for loss in ("log", "brier"):
        low, high = stream.bound(get_loss(loss), 0.05)
        assert 0.0 <= low <= high
    if name == "no rows at all":
        np.testing.assert_allclose(_evidence.follow_calibration(alternatives, counts, PRIOR), 0.0, atol=1e-12)


def test_the_bounds_are_of_maps_that_reach_the_mixture():
    # evidence of one narrow bump is never more than that of the best map of the bounds: the set is not empty
    alternatives, score, y = simulate(8, 1, 40, 200, lambda x: x + 2.0 * ((x > 0.1) & (x < 0.3)))
    counts = count(alternatives, score, y)
    stream = to_stream(alternatives, counts, 0)
    pooled = _evidence.Counts(*(one[0] for one in counts)).pool()
    held = pooled.rows > 0.0
    kept = _evidence.Counts(*(one[held] for one in pooled))
    best = _bounds.bound_likelihood(kept, np.tile(np.linspace(-6.0, 6.0, 1201), (kept.rows.size, 1))).max(axis=1).sum()
    simple = _evidence.log_ratios(alternatives, counts.rows[0], counts.events[0], counts.rate[0]).sum(axis=0)
    bins = _evidence.move_bins(_evidence.Counts(*(one[0] for one in counts))).sum(axis=0)
    assert _evidence.mix_everything(simple, bins, alternatives) <= best
    low, high = stream.bound(get_loss("log"), 0.05)
    assert 0.0 < low < high


def test_sums_of_logs():
    logs = np.array([[-1000.0, -1001.0], [2.0, -np.inf]])
    np.testing.assert_allclose(_evidence.sum_logs(logs), [-1000.0 + np.log1p(np.exp(-1.0)), 2.0])


def test_priors_of_starts_are_laws():
    prior = _evidence.StartPrior(0.05)
    np.testing.assert_allclose(prior.each(2000).sum(), 1.0, atol=1e-12)
    assert prior.each(3) == pytest.approx([0.25, 0.75 * 0.05, 0.75 * 0.05 * 0.95])
    assert _alternatives.Alternatives.of(
        np.linspace(0.01, 0.99, 500)
    ).prior.sum() + _alternatives.TREES == pytest.approx(1.0)
