"""``python -m benchmarks.tests_power [--quick] [--classes]``: size and power of the calibration tests, by simulation.

Data sets are drawn from laws known exactly and tested at level .05. Under the hypothesis outcomes come from the scores, and
the share of rejections is the size; under an alternative Y ~ C(S), and it is the power. Printed as Markdown with the
Monte-Carlo standard error and the bar that "min-p", the default, must reach; docs/tests.md holds the tables.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, logit

from scoreprism._calibration_test.class_tests import find_class_tests
from scoreprism.datasets import CopulaLaw
from scoreprism.inference import CALIBRATION_TESTS, calibration_test

LEVEL, RESAMPLES, ROWS = 0.05, 199, 2000
#: Not the data on which the weights of min-p were chosen (seed 2).
SIZE_SEED, POWER_SEED = 1, 3
LAW = CopulaLaw(rho=0.0)
NODES, SHARES = (0.5 * np.polynomial.legendre.leggauss(64)[0] + 0.5, 0.5 * np.polynomial.legendre.leggauss(64)[1])

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


class Rate(NamedTuple):
    """A share of rejections and its Monte-Carlo standard error."""

    rate: float
    error: float


def calibrated_score(x1: np.ndarray) -> np.ndarray:
    """E[Q | X1], scenario c: features are independent and uniform, so it is an integral over the second."""
    return expit(LAW.logit(x1[:, None], NODES)) @ SHARES


def _binary(recalibrated: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, n: int):
    s = calibrated_score(rng.random(n))
    return (rng.random(n) < recalibrated(s)).astype(int), s


def _scenario_b(rng: np.random.Generator, n: int):
    sample = LAW.sample(n, rng)
    return sample.y, expit(1.25 * (-1.5436 + 3.1505 * sample.X[:, 0]) + 0.1)


def _three(change: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, n: int):
    s = rng.dirichlet([1.0, 1.5, 2.0], n)
    c = change(s)
    c = c / c.sum(axis=1, keepdims=True)
    return (rng.random(n)[:, None] >= c.cumsum(axis=1)[:, :-1]).sum(axis=1), s


def _tied_binary(rng: np.random.Generator, n: int):
    """Calibrated scores with 19 values: 1/20, …, 19/20."""
    s = np.clip(np.rint(20 * calibrated_score(rng.random(n))), 1, 19) / 20
    return (rng.random(n) < s).astype(int), s


def _tied_three(rng: np.random.Generator, n: int):
    """Calibrated scores with 21 values: eighths, none of them 0."""
    s = (1 + rng.multinomial(5, rng.dirichlet([1.0, 1.5, 2.0], n))) / 8
    return (rng.random(n)[:, None] >= s.cumsum(axis=1)[:, :-1]).sum(axis=1), s


def identity(s):
    return s


def slope(s):
    return expit(logit(s) / 1.2)


def shift(s):
    return expit(logit(s) + 0.15)


def wave(s):
    return s + 0.06 * np.sin(12 * np.pi * s)


def step(s):
    return s - 0.1 * (s > 0.8)


def cooler(s):
    return s ** (1 / 1.2)


def heavier(s):
    return s * [1.0, 1.0, 1.25]


def cycled(s):
    return s * (1.0 + 0.5 * (s[:, [1, 2, 0]] - s[:, [2, 0, 1]]))


NULLS: dict[int, Draw] = {2: partial(_binary, identity), 3: partial(_three, identity)}
#: The same with few distinct scores, whose rows are drawn by their number.
TIED: dict[int, Draw] = {2: _tied_binary, 3: _tied_three}
#: Law of the data and, where there is one, the power that min-p must have at n = 2000.
ALTERNATIVES: dict[str, tuple[Draw, float | None]] = {
    "slope": (partial(_binary, slope), 0.60),
    "shift": (partial(_binary, shift), 0.66),
    "wave": (partial(_binary, wave), 0.43),
    "step": (partial(_binary, step), 0.48),
    "b": (_scenario_b, 0.95),
    "3: temperature": (partial(_three, cooler), None),
    "3: one class heavier": (partial(_three, heavier), None),
    "3: cyclic": (partial(_three, cycled), None),
}


def pvalues(draw: Draw, n: int, seeds: list[list[int]], methods: tuple[str, ...], n_resamples: int) -> list[dict]:
    """p-values of several data sets: those of `methods`, and of the parts of min-p."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        y, s = draw(rng, n)
        labels = None if s.ndim == 1 else range(s.shape[1])
        line = {}
        for method in methods:
            result = calibration_test(y, s, method=method, n_resamples=n_resamples, classes=labels, random_state=rng)
            line[method] = result.pvalue
            line |= {part: numbers["pvalue"] for part, numbers in result.components.items() if "pvalue" in numbers}
        found.append(line)
    return found


def rates(
    draw: Draw,
    n: int,
    simulations: int,
    seed: int,
    *,
    methods: tuple[str, ...] = ("min-p",),
    n_resamples: int = RESAMPLES,
    n_jobs: int = 2,
) -> dict[str, Rate]:
    """Share of data sets in which each test rejects at level .05."""
    parts = [[[seed, n, i] for i in range(start, min(start + 20, simulations))] for start in range(0, simulations, 20)]
    work = (delayed(pvalues)(draw, n, seeds, methods, n_resamples) for seeds in parts)
    lines = [line for part in Parallel(n_jobs=n_jobs)(work) for line in part]
    found = {}
    for name in lines[0]:
        share = float(np.mean([line[name] <= LEVEL + 1e-12 for line in lines]))
        found[name] = Rate(share, float(np.sqrt(share * (1 - share) / len(lines))))
    return found


def size(n: int, k: int, simulations: int, seed: int, *, tied: bool = False, **options) -> Rate:
    """Size of min-p with n rows and K = 2 or 3 classes."""
    return rates((TIED if tied else NULLS)[k], n, simulations, seed, **options)["min-p"]


def power(alternative: str, simulations: int, seed: int, **options) -> Rate:
    """Power of min-p with 2000 rows against one of `ALTERNATIVES`."""
    return rates(ALTERNATIVES[alternative][0], ROWS, simulations, seed, **options)["min-p"]


def _methods(k: int) -> tuple[str, ...]:
    """Tests that are not parts of min-p, after min-p itself."""
    combined = CALIBRATION_TESTS["min-p"]
    parts = combined.two if k == 2 else combined.several
    return tuple(name for name, test in CALIBRATION_TESTS.items() if test.fits(k) and name not in parts)


def table(head: str, columns: dict[str, dict[str, Rate]], bars: list[str]) -> None:
    """One column per law, one row per test; the last row holds the bars of min-p."""
    print(f"\n| {head} | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name in next(iter(columns.values())):
        cells = [f"{c[name].rate:.3f} ± {c[name].error:.3f}" for c in columns.values()]
        print(f"| {name} | {' | '.join(f'**{cell}**' if name == 'min-p' else cell for cell in cells)} |")
    print(f"| bar of min-p | {' | '.join(bars)} |", flush=True)


def main(*, quick: bool) -> bool:
    start = time.perf_counter()
    simulations = 100 if quick else 1000
    met = []
    for words, k, draw in [("", *law) for law in NULLS.items()] + [(", few scores", *law) for law in TIED.items()]:
        found = {f"n = {n}": rates(draw, n, simulations, SIZE_SEED, methods=_methods(k)) for n in (200, 500, 2000)}
        table(f"size, {k} classes{words}", found, [".03–.07"] * len(found))
        met += [0.03 <= column["min-p"].rate <= 0.07 for column in found.values()]
    for k in (2, 3):
        chosen = {name: law for name, law in ALTERNATIVES.items() if name.startswith("3:") == (k == 3)}
        found = {
            name: rates(draw, ROWS, simulations, POWER_SEED, methods=_methods(k)) for name, (draw, _) in chosen.items()
        }
        bars = [bar for _, bar in chosen.values()]
        table(f"power, {k} classes, n = {ROWS}", found, [f"≥ {bar:.2f}" if bar else "" for bar in bars])
        met += [c["min-p"].rate >= bar for c, bar in zip(found.values(), bars, strict=True) if bar]
    spent = time.perf_counter() - start
    print(
        f"\n{simulations} data sets each, {RESAMPLES} draws, level {LEVEL}; {sum(met)} of {len(met)} bars met; {spent:.0f} s"
    )
    return quick or all(met)  # a hundred data sets cannot judge: their error is .02 at the size, .05 at a power


#: Classes and rows of the class-wise tests: all common, and with half of the classes rare.
CLASSES = {"10 classes, n = 2000": (10, 2000), "100 classes, n = 2000": (100, 2000)}


def flag_classes(change: Callable[[np.ndarray], np.ndarray], k: int, n: int, seed: int) -> tuple[bool, bool, float]:
    """Whether any class is flagged, whether the rare ones together are, and the share of the others that are."""
    rng = np.random.default_rng([SIZE_SEED, k, n, seed])
    s = rng.dirichlet(np.linspace(0.2, 1.8, k) * 5.0 / k, n)
    c = change(s)
    y = (rng.random(n)[:, None] >= (c / c.sum(axis=1, keepdims=True)).cumsum(axis=1)[:, :-1]).sum(axis=1)
    tests = find_class_tests(s, y, None, None)
    flagged = [test.pvalue <= LEVEL for test in tests]
    rare = [flag for flag, test in zip(flagged, tests, strict=True) if test.is_rare]
    common = [flag for flag, test in zip(flagged, tests, strict=True) if not test.is_rare]
    return any(flagged), any(rare), float(np.mean(common))


def classes(*, quick: bool) -> bool:
    """How often the class-wise tests of a report flag a class."""
    simulations, met = 300 if quick else 2000, []
    print("| scores | law | any class | the rare ones together | share of the others |\n|---|---|---:|---:|---:|")
    for words, (k, n) in CLASSES.items():
        for label, change in {"calibrated": identity, "temperature 1.2": cooler}.items():
            found = np.array([flag_classes(change, k, n, b) for b in range(simulations)])
            rates = found.mean(axis=0)
            error = np.sqrt(rates[0] * (1 - rates[0]) / simulations)
            print(f"| {words} | {label} | {rates[0]:.3f} ± {error:.3f} | {rates[1]:.3f} | {rates[2]:.3f} |", flush=True)
            met += [rates[0] <= LEVEL + 2 * error] if label == "calibrated" else []
    return all(met)


if __name__ == "__main__":
    from benchmarks import tests_power  # noqa: PLW0406  # under its own name, so that workers can find its functions

    run = tests_power.classes if "--classes" in sys.argv else tests_power.main
    sys.exit(0 if run(quick="--quick" in sys.argv) else 1)
