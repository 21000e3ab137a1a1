"""``python -m benchmarks.band_coverage [--quick] [--only WORD ...] [--jobs 2]``: how often bands of reliability curves hold.

Laws with a known event rate, nominal 90 %. Pointwise coverage is the mean over the rows of "the band holds here", of a
pointwise band; uniform coverage how often a uniform band holds at all rows. A confidence band has to hold the true
rate, a consistency band the curve of calibrated outcomes at the same scores. docs/curves.md has the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from scoreprism.curves import reliability_curve
from scoreprism.curves._curve import BinaryRows
from scoreprism.curves._reliability_curve import bin_rows

LEVEL, SEED, RESAMPLES = 0.9, 20240607, 300


@dataclass(frozen=True)
class Law:
    """Where scores come from, and the event rate at a score."""

    name: str
    scores: Callable[[np.random.Generator, int], np.ndarray]
    rate: Callable[[np.ndarray], np.ndarray]


def even(rng, n):
    return rng.random(n)


LAWS = [
    Law("calibrated", even, lambda s: s),
    Law("overconfident", even, lambda s: expit(0.5 * logit(s))),
    Law("bent", even, lambda s: s**2),
    Law("step", even, lambda s: np.where(s < 0.5, 0.2, 0.7)),
    Law("flat", even, lambda s: np.full(s.shape, 0.3)),
    Law("rare", lambda rng, n: rng.beta(0.8, 25.0, n), lambda s: s),
    Law("rounded", lambda rng, n: (rng.integers(0, 10, n) + 0.5) / 10.0, lambda s: expit(0.5 * logit(s))),
    # these two came when all factors of the bands were settled, and have changed none
    Law("tilted", lambda rng, n: rng.beta(2.0, 5.0, n), lambda s: 0.15 + 0.6 * s),
    Law("steep", even, lambda s: expit(12.0 * (s - 0.4))),
    # often all outcomes are of one class: in 37 and 13 of 100 samples of 100 rows
    Law("scarce", lambda rng, n: 0.05 * rng.random(n), lambda s: np.full(s.shape, 0.01)),
    Law("constant", lambda _, n: np.full(n, 0.3), lambda s: np.full(s.shape, 0.02)),
]


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    law: Law
    n: int
    method: str
    band: str

    @property
    def name(self) -> str:
        return f"{self.law.name} {self.n} {self.method} {self.band}"


def held(curve, s, target):
    """At which rows (or bins) the band holds the target there."""
    if curve.method == "bins":
        low, high = curve.low, curve.high
    else:
        low, high = (np.interp(s, curve.band_x, end) for end in (curve.low, curve.high))
    slack = 1e-12  # rounding of interpolated numbers
    return (low - slack <= target) & (target <= high + slack), high - low


def confidence(cell: Cell, rng, resamples: int, options: dict) -> tuple[float, float, float, float]:
    """Coverage of the truth in one data set: pointwise share and width, uniform yes or no and width."""
    s = cell.law.scores(rng, cell.n)
    c = cell.law.rate(s)
    y = (rng.random(cell.n) < c).astype(int)
    target = c
    if cell.method == "bins":
        bins = bin_rows(BinaryRows(s, c), 10, "quantile")
        target = bins.mean(bins.rows.y)
    out = []
    for uniform in (False, True):
        curve = reliability_curve(
            y, s, method=cell.method, band="confidence", confidence_level=LEVEL, uniform=uniform, n_resamples=resamples,
            random_state=rng.spawn(1)[0], **options,
        )  # fmt: skip
        good, width = held(curve, s, target)
        out += [float(good.all() if uniform else good.mean()), float(width.mean())]
    return out[0], out[1], out[2], out[3]


def consistency(cell: Cell, rng, resamples: int, options: dict, curves: int = 40) -> tuple[float, float, float, float]:
    """Mean coverage, at one set of scores, of curves of calibrated outcomes."""
    s = cell.law.scores(rng, cell.n)
    common = {"method": cell.method, "confidence_level": LEVEL, **options}
    outcomes = (rng.random((curves, cell.n)) < s).astype(int)
    redrawn = [reliability_curve(y, s, band=None, **common) for y in outcomes]
    out = []
    for uniform in (False, True):
        band = reliability_curve(
            outcomes[0], s, uniform=uniform, n_resamples=resamples, random_state=rng.spawn(1)[0], **common
        )
        at = (lambda curve: curve.y) if cell.method == "bins" else (lambda curve: np.interp(s, curve.x, curve.y))
        found = [held(band, s, at(curve)) for curve in redrawn]
        out += [np.mean([good.all() if uniform else good.mean() for good, _ in found]), found[0][1].mean()]
    return float(out[0]), float(out[1]), float(out[2]), float(out[3])


def simulate(
    cell: Cell, sims: int, resamples: int, options: dict | None = None, seed: int = SEED
) -> tuple[np.ndarray, np.ndarray]:
    """Means over data sets of pointwise coverage, its width, uniform coverage, its width; and their errors."""
    streams = np.random.SeedSequence([seed, *cell.name.encode()]).spawn(sims)
    one = confidence if cell.band == "confidence" else consistency
    found = np.array([one(cell, np.random.default_rng(s), resamples, options or {}) for s in streams])
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(sims)


def run(cell: Cell, sims: int, resamples: int, seed: int = SEED) -> str:
    """A line of the table."""
    mean, error = simulate(cell, sims, resamples, seed=seed)
    good = 0.87 <= mean[0] <= 0.93, mean[2] >= 0.88
    marks = ["" if ok else " ✗" for ok in good]
    return (
        f"| {cell.law.name} | {cell.n} | {cell.method} | {cell.band} | {mean[0]:.3f} ± {error[0]:.3f}{marks[0]} | {mean[1]:.3f} "
        f"| {mean[2]:.3f} ± {error[2]:.3f}{marks[1]} | {mean[3]:.3f} |"
    )


def cells() -> list[Cell]:
    return [
        Cell(law, n, method, band)
        for band in ("consistency", "confidence")
        for method in ("isotonic", "bins", "spline", "kernel")
        for law in LAWS
        for n in (100, 1000)
        if band == "confidence" or law.name in ("calibrated", "rare", "rounded")
    ]


def data_sets(cell: Cell, *, quick: bool) -> int:
    """How many: fewer where they take long, or where 40 curves are looked at in each."""
    if cell.band == "consistency":
        return 2 if quick else 20
    return 10 if quick else 100 if cell.method in ("isotonic", "kernel") else 200


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.band_coverage")
    parser.add_argument("--quick", action="store_true", help="a few data sets of each cell")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cells with all of these words")
    parser.add_argument("--sims", type=int, help="data sets of each cell")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args(arguments)
    from joblib import Parallel, delayed

    start = time.monotonic()
    wanted = [cell for cell in cells() if set(chosen.only) <= set(cell.name.split())]
    print("| law | rows | method | band | pointwise coverage | mean width | uniform coverage | mean width |")
    print("|---|---|---|---|---|---|---|---|")
    jobs = (
        delayed(run)(cell, chosen.sims or data_sets(cell, quick=chosen.quick), RESAMPLES, chosen.seed)
        for cell in wanted
    )
    for line in Parallel(n_jobs=chosen.jobs, return_as="generator")(jobs):
        print(line, flush=True)
    print(f"\n{time.monotonic() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
