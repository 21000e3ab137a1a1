"""``python -m benchmarks.aggregation [--quick]``: tests and terms of aggregated scores on laws that are known exactly.

Size and power of the two tests (is the mean calibrated; is it sufficient for its members), bias of the terms and
coverage of their bounds. Printed as Markdown with Monte-Carlo standard errors; docs/ensembles.md holds the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, logit, ndtr, ndtri

from scoreprism import calibration_test
from scoreprism.datasets import CopulaLaw
from scoreprism.ensembles import aggregation_decomposition, sufficiency_test

SEED = 6
NODES, MASSES = np.polynomial.legendre.leggauss(80)
NODES, MASSES = (NODES + 1) / 2, MASSES / 2
GRID = np.linspace(0.0, 1.0, 4001)

#: A law: from a Generator and n to members (M, n) and C_S = P(Y | members).
Law = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def _calibrated_members() -> tuple[np.ndarray, np.ndarray]:
    """E[Q | X₁] and E[Q | X₂] of the paper's law at ρ = 0, on a grid, by Gauss–Legendre quadrature."""
    law = CopulaLaw(0.0)
    first = [law.q(np.column_stack([np.full(80, x), NODES])) @ MASSES for x in GRID]
    second = [law.q(np.column_stack([NODES, np.full(80, x)])) @ MASSES for x in GRID]
    return np.array(first), np.array(second)


FIRST, SECOND = _calibrated_members()


def paper(rng, n):
    X, _, q = CopulaLaw(0.0).sample(n, random_state=rng)
    return np.stack([np.interp(X[:, 0], GRID, FIRST), np.interp(X[:, 1], GRID, SECOND)]), q


def identity(rng, n):
    a = rng.uniform(0.05, 0.95, (2, n))
    return a, a.mean(axis=0)


def steep(rng, n):
    a = rng.uniform(0.1, 0.9, (2, n))
    return a, expit(12 * (a.mean(axis=0) - 0.5))


def five(rng, n):
    z = rng.normal(size=n)
    a = ndtr(z + 0.7 * rng.normal(size=(5, n)))
    return a, ndtr(1.3 * ndtri(a.mean(axis=0)))


def rare(rng, n):
    z = 1.5 * rng.normal(size=n) - 3
    a = expit(z + rng.normal(size=(2, n)))
    return a, a.mean(axis=0)


def jump(rng, n):
    a = rng.random((2, n))
    return a, np.where(a.mean(axis=0) < 0.5, 0.2, 0.8)


def lopsided(rng, n):
    a = np.stack([rng.beta(0.5, 0.5, n), rng.beta(2, 8, n)])
    return a, 0.1 + 0.8 * a.mean(axis=0)


def unequal(rng, n):
    a = rng.uniform(0.1, 0.9, (2, n))
    return a, 0.35 * a[0] + 0.65 * a[1]


def bayes(rng, n):
    """Members that are independent given the outcome: log-odds add."""
    a = expit(1.5 * rng.normal(size=(2, n)))
    return a, expit(logit(a[0]) + logit(a[1]))


def quarrel(rng, n):
    """Outcomes are less certain where members disagree."""
    a = rng.uniform(0.1, 0.9, (2, n))
    return a, 0.5 + (a.mean(axis=0) - 0.5) * (1 - np.abs(a[0] - a[1]))


SUFFICIENT: dict[str, Law] = {f.__name__: f for f in (identity, steep, five, rare, jump, lopsided)}
INSUFFICIENT: dict[str, Law] = {f.__name__: f for f in (paper, unequal, bayes, quarrel)}
LAWS = SUFFICIENT | INSUFFICIENT


def drawn(law: Law, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([SEED, seed])
    members, c = law(rng, n)
    return members, (rng.random(n) < c).astype(int), c


def rejections(name: str, n: int, seed: int, *, slow: bool) -> dict[str, bool]:
    members, y, _ = drawn(LAWS[name], n, seed)
    found = {"score": sufficiency_test(y, list(members)).pvalue < 0.05}
    if slow:
        found["learned direction"] = (
            sufficiency_test(y, list(members), method="projected-covariance", random_state=seed).pvalue < 0.05
        )
        found["calibration"] = calibration_test(y, members.mean(axis=0), random_state=seed).pvalue < 0.05
    return found


def three_classes(n: int, seed: int) -> bool:
    """Two members around a common law, Y drawn from their mean."""
    rng = np.random.default_rng([seed, 1])
    base = rng.dirichlet([1, 1, 1], n)
    laws = rng.standard_gamma(np.stack([base * 8 + 0.05] * 2))
    laws /= laws.sum(axis=2, keepdims=True)
    y = np.minimum((rng.random(n)[:, None] > laws.mean(axis=0).cumsum(axis=1)).sum(axis=1), 2)
    return sufficiency_test(y, list(laws)).pvalue < 0.05


def truth(law: Law, loss: str, n: int = 2_000_000) -> dict[str, float]:
    """Population terms of the mean: C_ens from the million rows nearest in the mean (exact C_S, no outcomes)."""
    from scoreprism import get_loss

    rng = np.random.default_rng(SEED)
    members, c = law(rng, n)
    mean = members.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    cell = np.empty(n, dtype=int)
    cell[order] = np.arange(n) // 500
    pooled = (np.bincount(cell, c) / np.bincount(cell))[cell]
    d = get_loss(loss).divergence
    return {"reliability": float(d(mean, pooled).mean()), "projection": float(d(pooled, c).mean())}


def estimates(name: str, loss: str, n: int, seed: int) -> tuple[list[float], list[float], list[float]]:
    members, y, _ = drawn(LAWS[name], n, seed)
    found = aggregation_decomposition(y, list(members), loss=loss, random_state=seed).decomposition
    names = ("reliability", "projection")
    interval = found.interval("reliability")
    return (
        [found.terms[name] for name in names],
        [found.lower_bound(name).value for name in names],
        [interval.low, interval.high],
    )


def main(argv: list[str]) -> None:
    from benchmarks.aggregation import estimates, rejections, three_classes  # workers import them: ufuncs do not travel

    quick = "--quick" in argv
    runs, few = (40, 10) if quick else (1000, 40)
    jobs = Parallel(n_jobs=2)
    print("| law | sufficient | n | score | learned direction | calibration of the mean |\n|---|---|---|---|---|---|")
    for name in LAWS:
        for n in (500, 2000):
            fast = jobs(delayed(rejections)(name, n, s, slow=False) for s in range(runs))
            slow = jobs(delayed(rejections)(name, n, s, slow=True) for s in range(runs // 10))
            share = [np.mean([r["score"] for r in fast])]
            share += [np.mean([r[key] for r in slow]) for key in ("learned direction", "calibration")]
            cells = " | ".join(f"{v:.3f}" for v in share)
            print(f"| {name} | {'yes' if name in SUFFICIENT else 'no'} | {n} | {cells} |", flush=True)
    for n, count in ((500, runs // 5), (2000, runs // 5), (10_000, runs // 20)):
        share = np.mean(jobs(delayed(three_classes)(n, s) for s in range(count)))
        print(f"three classes, the mean is sufficient, n = {n}: {share:.3f} of {count}", flush=True)
    print("\n| law | loss | n | term | truth | bias | RMSE | lower bound holds |\n|---|---|---|---|---|---|---|---|")
    for name in ("identity", "paper", "unequal", "bayes"):
        for loss in ("brier", "log"):
            true = truth(LAWS[name], loss)
            for n in (500, 2000):
                runs_ = jobs(delayed(estimates)(name, loss, n, s) for s in range(few))
                value, bound = (np.array([r[i] for r in runs_]) for i in (0, 1))
                for i, term in enumerate(("reliability", "projection")):
                    error = 1e4 * (value[:, i] - true[term])
                    held = np.mean(bound[:, i] <= true[term])
                    bias = f"{error.mean():+.1f} ± {error.std(ddof=1) / np.sqrt(few):.1f}"
                    rmse = np.sqrt((error**2).mean())
                    print(
                        f"| {name} | {loss} | {n} | {term} | {1e4 * true[term]:.1f} | {bias} | {rmse:.1f} | {held:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main(sys.argv[1:])
