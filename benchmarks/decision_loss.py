"""``python -m benchmarks.decision_loss [--quick]``: how often the upper bound of the decision loss holds, by simulation.

Laws of section 8.9 of the statistics (rough ones, calibrated ones, rare events), two with few events, weights and
clusters. The truth comes from a million rows with the true C. Printed as Markdown with the Monte-Carlo standard error; docs/curves.md
holds the tables. "bound" is of the largest loss over all thresholds, "cdl" of the calibration decision loss, "at each" the
smallest share over thresholds of samples in which the bound at one threshold lies above the loss there; "estimate" the mean of the largest
cross-fitted estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from scoreprism.curves import decision_loss
from scoreprism.curves._decision_loss import DecisionRows, find_payoff_loss
from scoreprism.curves._threshold_lines import mean_divergences

LEVEL, SEED = 0.95, 20
PERCENT = np.arange(1, 100) / 100
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]

_RNG = np.random.default_rng(40)
_MASS, _RATE = _RNG.dirichlet(np.full(40, 5.0)), _RNG.beta(2, 2, 40)
_SIZE = _RNG.integers(30, 80, 40)
_LEAF = (_RNG.binomial(_SIZE, _RATE) + 1) / (_SIZE + 2)
_SAME = _LEAF[:, None] == _LEAF  # leaves of one score are one score: C is their mean
_RATE = (_SAME @ (_MASS * _RATE)) / (_SAME @ _MASS)


def _calib(rng, n):
    s = expit(1.5 * rng.normal(size=n))
    return s, s


def _rounded(rng, n):
    s = expit(1.5 * rng.normal(size=n)).round(2)
    return s, s


def _slope(rng, n):
    s = expit(1.5 * rng.normal(size=n))
    return s, expit(0.7 * logit(s) - 0.2)


def _stairs3(rng, n):
    s = rng.uniform(0.05, 0.95, n)
    return s, np.select([s < 0.4, s < 0.6], [0.2, 0.7], 0.35)


def _saw(rng, n):
    s = rng.uniform(0.1, 0.9, n).round(2)
    return s, s + 0.07 * (1 - 2 * (np.rint(100 * s).astype(int) % 2))


def _bump(rng, n):
    s = rng.uniform(0.1, 0.9, n)
    return s, s + 0.25 * ((s > 0.55) & (s < 0.61))


def _wave(rng, n):
    s = rng.uniform(0.05, 0.95, n)
    return s, s + 0.07 * np.sin(12 * np.pi * s) * np.minimum(1, np.minimum(s, 1 - s) / 0.07)


def _leaves(rng, n):
    leaf = rng.choice(40, n, p=_MASS)
    return _LEAF[leaf], _RATE[leaf]


def _rare(rng, n):
    s = expit(-7.3 + 1.1 * rng.normal(size=n))
    return s, expit(0.75 * logit(s) - 1.9)


def _few(rng, n):
    s = 0.002 * rng.random(n)
    return s, np.full(n, 0.005)


def _high(rng, n):
    s = 1 - 0.002 * rng.random(n)
    return s, np.full(n, 0.995)


def _shift(rng, n):
    s = rng.uniform(0.3, 0.5, n)
    return s, np.full(n, 0.6)


#: Name, how it is drawn, and numbers of rows.
LAWS: dict[str, tuple[Draw, tuple[int, ...]]] = {
    "calib": (_calib, (500, 2000, 20_000)),
    "calib, rounded to .01": (_rounded, (500, 2000, 20_000)),
    "slope": (_slope, (500, 2000, 20_000)),
    "shift: S ~ U(.3, .5), C = .6": (_shift, (500, 2000, 20_000)),
    "stairs3": (_stairs3, (500, 2000, 20_000)),
    "saw": (_saw, (500, 2000, 20_000)),
    "bump": (_bump, (500, 2000, 20_000)),
    "wave": (_wave, (500, 2000, 20_000)),
    "leaves": (_leaves, (500, 2000, 20_000)),
    "rare .1 %": (_rare, (20_000,)),
    "few: S ~ U(0, .002), C = .005": (_few, (1000, 5000)),
    "few others: S ~ U(.998, 1), C = .995": (_high, (1000, 5000)),
}


def truth(draw: Draw) -> tuple[float, float, float, np.ndarray]:
    """Largest loss, its threshold, calibration decision loss, and the losses at every percent."""
    s, c = draw(np.random.default_rng(1), 10**6)
    line = mean_divergences(s, c, np.full(s.size, 1 / s.size))
    both = np.concatenate([line.at, np.linspace(0, 1, 2001)])
    values = np.maximum(line(both), line.before(both))
    best = int(values.argmax())
    some = np.concatenate([np.linspace(0, 1, 2001), both[[best]]])  # scores may all lie in a corner
    some = np.union1d(some, np.quantile(s, np.linspace(0, 1, 501)))
    cdl = find_payoff_loss(some, np.maximum(line(some), line.before(some)))
    return float(values[best]), float(both[best]), cdl, line(PERCENT)


def cells_of(y, s, share, groups=None):
    return DecisionRows(s, y, share, groups).cells(PERCENT)


def one_model(*, quick: bool) -> None:
    repeats, fits = (200, 10) if quick else (1000, 40)
    print(f"\nOne model, {repeats} samples ({fits} of them estimated)\n")
    print(
        "| law | n | largest loss, at | bound holds | at each | mean bound | mean estimate | cdl | holds | mean bound |"
    )
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, (draw, sizes) in LAWS.items():
        known, where, cdl, curve = truth(draw)
        for n in sizes:
            found, each = [], np.zeros(PERCENT.size)
            for seed in range(repeats if n <= 5000 else repeats // 2):
                rng = np.random.default_rng([SEED, n, seed])
                s, c = draw(rng, n)
                y = (rng.random(n) < c).astype(int)
                cells = cells_of(y, s, np.full(n, 1 / n))
                theta, place = cells.edges
                upper = cells.upper(theta, LEVEL, place)
                found.append((upper.max(), find_payoff_loss(theta, upper)))
                each += cells.upper(PERCENT, LEVEL) >= curve - 1e-12
            some = []
            for seed in range(fits if n <= 5000 else fits // 4):
                rng = np.random.default_rng([SEED, n, seed])
                s, c = draw(rng, n)
                y = (rng.random(n) < c).astype(int)
                if 5 < y.sum() < n - 5:
                    some.append(decision_loss(y, s, random_state=0, classes=[0, 1]).value)
            high, high_cdl = np.array(found).T
            cells_ = [
                name, f"{n}", f"{known:.5f} at {where:.3g}", _rate(high >= known), f"{each.min() / len(found):.3f}", f"{high.mean():.5f}",
                f"{np.mean(some):.5f}" if some else "–", f"{cdl:.5f}", _rate(high_cdl >= cdl), f"{high_cdl.mean():.5f}",
            ]  # fmt: skip
            print("| " + " | ".join(cells_) + " |", flush=True)


def _rate(holds) -> str:
    rate = np.mean(holds)
    return f"{rate:.3f} ± {max(np.sqrt(rate * (1 - rate) / len(holds)), 0.5 / len(holds)):.3f}"


def designs(*, quick: bool) -> None:
    """Weights from 1 to 5 that depend on the score, and clusters of ten rows with one score and a common shift of C."""
    repeats = 200 if quick else 1000
    print(
        f"\nWeights and clusters, {repeats} samples\n\n| law | n | design | largest loss | bound holds | mean bound |"
    )
    print("|---|---:|---|---:|---:|---:|")
    for name in ("calib", "slope", "shift: S ~ U(.3, .5), C = .6", "stairs3", "bump"):
        draw, n = LAWS[name][0], 2000
        s, c = draw(np.random.default_rng(1), 10**6)
        w = 1 + 4 * s
        line = mean_divergences(s, c, w / w.sum())
        known = {"weights": float(np.maximum(line(line.at), line.before(line.at)).max()), "clusters": truth(draw)[0]}
        found: dict[str, list[float]] = {"weights": [], "clusters": []}
        for seed in range(repeats):
            rng = np.random.default_rng([SEED, 1, seed])
            s, c = draw(rng, n)
            w = 1 + 4 * s
            cells = cells_of((rng.random(n) < c).astype(int), s, w / w.sum())
            theta, place = cells.edges
            found["weights"].append(cells.upper(theta, LEVEL, place).max())
            few, c = draw(rng, n // 10)
            both = np.repeat(few, 10), np.repeat(c, 10)
            y = (rng.random(n) < both[1]).astype(int)
            y = np.where(rng.random(n) < 0.3, np.repeat((rng.random(n // 10) < c).astype(int), 10), y)  # alike
            jitter = np.clip(both[0] + 1e-6 * rng.random(n), 0, 1)
            cells = cells_of(y, jitter, np.full(n, 1 / n), np.repeat(np.arange(n // 10), 10))
            theta, place = cells.edges
            found["clusters"].append(cells.upper(theta, LEVEL, place).max())
        for design, high in found.items():
            cells_ = [
                name,
                f"{n}",
                design,
                f"{known[design]:.5f}",
                _rate(np.array(high) >= known[design]),
                f"{np.mean(high):.5f}",
            ]
            print("| " + " | ".join(cells_) + " |", flush=True)


#: Scores of two models of the same rows, as functions of the calibrated score.
PAIRS = {
    "calib against slope": (lambda s: s, lambda s: expit((logit(s) + 0.2) / 0.7)),
    "slope against calib": (lambda s: expit((logit(s) + 0.2) / 0.7), lambda s: s),
    "the same twice": (lambda s: expit((logit(s) + 0.2) / 0.7), lambda s: expit((logit(s) + 0.2) / 0.7)),
    "rough against calib": (lambda s: np.abs(s - 0.15 * (s > 0.5) * (s < 0.7)), lambda s: s),
    "calib against rough": (lambda s: s, lambda s: np.abs(s - 0.15 * (s > 0.5) * (s < 0.7))),
}


def differences(*, quick: bool) -> None:
    repeats = 40 if quick else 200
    print(
        f"\nTwo models of the same rows, {repeats} samples\n\n| pair | n | largest difference | bound holds | mean bound | mean estimate |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, (first, second) in PAIRS.items():
        s = expit(1.5 * np.random.default_rng(1).normal(size=10**6))
        lines = [
            mean_divergences(np.clip(f(s), 0, 1), _mean_given(f, s), np.full(s.size, 1e-6)) for f in (first, second)
        ]
        known = max(float((lines[0](PERCENT) - lines[1](PERCENT)).max()), 0.0)
        for n in (500, 2000):
            found = []
            for seed in range(repeats):
                rng = np.random.default_rng([SEED, n, seed])
                s = expit(1.5 * rng.normal(size=n))
                y = (rng.random(n) < s).astype(int)
                one = decision_loss(y, first(s), baseline=second(s), random_state=0)
                found.append((one.bound, one.value))
            high, value = np.array(found).T
            cells_ = [name, f"{n}", f"{known:.5f}", _rate(high >= known), f"{high.mean():.5f}", f"{value.mean():.5f}"]
            print("| " + " | ".join(cells_) + " |", flush=True)


def _mean_given(f, s):
    """E(Y | f(S)), Y having the law S: where two S share a value of f, their mean, in cells of 1/2000."""
    score = f(s)
    if (np.diff(score[np.argsort(s)]) >= 0).all():
        return s
    cell = np.searchsorted(np.linspace(0, 1, 2001), score)
    return (np.bincount(cell, s, 2002) / np.maximum(np.bincount(cell, minlength=2002), 1))[cell]


if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    one_model(quick=quick)
    designs(quick=quick)
    differences(quick=quick)
