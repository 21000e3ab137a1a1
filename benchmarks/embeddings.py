"""``python -m benchmarks.embeddings [--quick] [--fast] [--speed]``: grouping estimated from embeddings, against the exact law.

X is a Gaussian mixture: given the class, one of one or two unit-variance bumps, whose centres are drawn once. So
Q = P(Y | X) is known. The score is P(Y | first 16 columns) to the power 1.5: it has lost the other columns and is too
sure of itself, and since the power can be undone, C = P(Y | S) = P(Y | first 16 columns) is known too. The true grouping
E d(C, Q) is the mean of the divergence of these two laws over 10⁶ rows; nothing is fitted for it. The tables are in
docs/decompose.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scoreprism
from scoreprism.losses import get_loss
from scoreprism.references import StackedReference

CLASSES, SEEN, INFORMATIVE = 20, 16, 64
#: Standard deviation of a coordinate of a centre, and how much too sure of itself the score is.
APART, POWER = 0.25, 1.5


class Mixture(NamedTuple):
    """Columns in all, of which 64 say something, and bumps of each class."""

    d: int
    bumps: int

    def centers(self) -> np.ndarray:
        return np.random.default_rng(7).normal(scale=APART, size=(CLASSES, self.bumps, INFORMATIVE))

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """X, y, and the laws C and Q."""
        y, bump = rng.integers(0, CLASSES, n), rng.integers(0, self.bumps, n)
        X = rng.standard_normal((n, self.d), dtype=np.float32)
        X[:, :INFORMATIVE] += self.centers()[y, bump]
        return X, y, self.law(X, SEEN), self.law(X, INFORMATIVE)

    def law(self, X: np.ndarray, columns: int) -> np.ndarray:
        """P(Y | the first columns)."""
        at = self.centers()[..., :columns]
        logs = np.einsum("nj,kbj->nkb", X[:, :columns], at, optimize=True) - 0.5 * (at**2).sum(axis=-1)
        return softmax(logsumexp(logs, axis=2), axis=1)

    def truth(self, rows: int = 10**6) -> float:
        """E d(C, Q), log loss."""
        loss, rng, block = get_loss("log"), np.random.default_rng(8), 10**4
        narrow = self._replace(d=INFORMATIVE)
        parts = [narrow.draw(rng, block)[2:] for _ in range(rows // block)]
        return float(np.mean([loss.divergence(c, q).mean() for c, q in parts]))


def logistic() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def embeddings() -> object:
    return StackedReference(("calibrated", "probe", "neighbours"))


#: The default of few columns takes minutes: it is judged on so many samples of each size.
FEW = {2000: 20, 10_000: 8}

#: References by columns: of 64, the new members are called by name; of 256 they are the default.
REFERENCES: dict[int, dict[str, Callable[[], object]]] = {
    64: {"probe and neighbours": embeddings, "default": lambda: "auto", "scikit-learn": logistic},
    256: {"default": lambda: "auto", "scikit-learn": logistic},
}


def estimate(law: Mixture, n: int, seed: int, most: int) -> list[tuple[str, float, float, float, float, float]]:
    """Reference, estimate, interval, lower bound and CPU seconds, of one sample."""
    X, y, c, _ = law.draw(np.random.default_rng([seed, n, *law]), n)
    score = np.exp(log_softmax(POWER * np.log(c), axis=1))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in REFERENCES[law.d].items():
            if (name, law.d) == ("default", INFORMATIVE) and seed >= most:
                continue
            start = time.process_time()
            d = scoreprism.decompose(y, score, X, reference=make())
            interval = d.interval("grouping")
            bound = d.lower_bound("grouping").value
            found.append((name, d.terms["grouping"], interval.low, interval.high, bound, time.process_time() - start))
    return found


def tabulate(repeats: int, jobs: int, *, fast: bool) -> None:
    laws = [Mixture(64, 1), Mixture(256, 1), Mixture(256, 2)]
    print(
        "| columns | bumps | n | reference | samples | truth | mean | bias | sd | coverage | bound above the truth | CPU s |"
    )
    print("|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for law in laws:
        truth = law.truth()
        for n in (2000, 10_000):
            runs = Parallel(n_jobs=jobs)(
                delayed(estimate)(law, n, seed, 0 if fast else FEW[n]) for seed in range(repeats)
            )
            for name in REFERENCES[law.d]:
                values = np.array([line[1:] for lines in runs for line in lines if line[0] == name])
                if not values.size:
                    continue
                value, low, high, bound, cpu = values.T
                inside, over = ((low <= truth) & (truth <= high)).mean(), (bound > truth).mean()
                error = 100 * math.sqrt(max(over * (1 - over), 0.05 * 0.95) / len(values))
                print(
                    f"| {law.d} | {law.bumps} | {n:,} | {name} | {len(values)} | {truth:.4f} | {value.mean():.4f} "
                    f"| {value.mean() - truth:+.4f} | {value.std(ddof=1):.4f} | {100 * inside:.0f} % "
                    f"| {100 * over:.0f} ± {error:.0f} % | {np.median(cpu):.1f} |",
                    flush=True,
                )


def time_decompose() -> None:
    """CPU seconds of `decompose` on float32 embeddings, with default folds, on one core."""
    print("| n | columns | classes | Sample.of | decompose | without X |")
    print("|---:|---:|---:|---:|---:|---:|")
    for n, d, k in ((20_000, 768, 10), (20_000, 768, 100), (5000, 4096, 2)):
        rng = np.random.default_rng(0)
        hidden = rng.standard_normal((n, 40), dtype=np.float32)
        X = hidden @ rng.standard_normal((40, d), dtype=np.float32) + 2.0 * rng.standard_normal(
            (n, d), dtype=np.float32
        )
        B = rng.normal(size=(40, k)) * 0.5
        law = softmax(hidden @ B, axis=1)
        y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
        score = softmax(hidden[:, :25] @ B[:25], axis=1)
        marks = [time.process_time()]
        sample = scoreprism.Sample.of(y, score, X)
        marks.append(time.process_time())
        scoreprism.decompose(sample)
        marks.append(time.process_time())
        scoreprism.decompose(y, score)
        marks.append(time.process_time())
        seconds = " | ".join(f"{after - before:.1f}" for before, after in pairwise(marks))
        print(f"| {n:,} | {d:,} | {k} | {seconds} |", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--fast", action="store_true", help="leave out the default of few columns")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--speed", action="store_true", help="time decompose only; set OMP_NUM_THREADS=1")
    options = parser.parse_args(arguments)
    if options.speed:
        time_decompose()
    else:
        tabulate(8 if options.quick else options.repeats, options.jobs, fast=options.fast)
    return 0


if __name__ == "__main__":
    sys.exit(main())
