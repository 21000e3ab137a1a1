"""``python -m benchmarks.map_inference [--quick] [--only WORD ...] [--no-groups]``: how often intervals of parametric maps hold.

Logits of the scores are normal, N(0, 1.5²), and the event rate at a score is known. "line" laws are Platt's map, or a
temperature, exactly; the others are not, and the truth is that of the best map of the class (the solution of the
population's equation, by quadrature). Nominal 95 %. Lines "delta" have the delta-method interval and the plug-in, the
others the default interval and the estimate. docs/map_inference.md has the table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root
from scipy.special import expit

from scoreprism.inference import map_inference

LEVEL, SEED, REPEATS, SPREAD, SIZE = 0.95, 20260607, 500, 1.5, 10
KINDS = ("ici", "reliability")
NAMES = {"platt": ("intercept", "slope"), "temperature": ("temperature",), "beta": ("a", "b", "c")}
NODES, SHARES = np.polynomial.hermite_e.hermegauss(120)
SHARES = SHARES / SHARES.sum()


@dataclass(frozen=True)
class Law:
    """The event rate at a logit, and at a logit and an effect that a cluster of ten rows shares."""

    name: str
    rate: Callable[[np.ndarray], np.ndarray]
    clustered: bool = False
    calibrator: str = "platt"


def line(a: float, b: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: expit(a + b * x)


LAWS = [
    Law("line, far", line(0.4, 0.6)),
    Law("line, near", line(0.1, 0.9)),
    Law("line, identity", line(0.0, 1.0)),
    Law("line, temperature 1.5", line(0.0, 1 / 1.5), calibrator="temperature"),
    Law("line, temperature 1", line(0.0, 1.0), calibrator="temperature"),
    Law("wrong link", lambda x: 1.0 - np.exp(-np.exp(-0.6 + 0.6 * x))),
    Law("wrong link, temperature", lambda x: 1.0 - np.exp(-np.exp(-0.6 + 0.6 * x)), calibrator="temperature"),
    Law("clusters", line(0.4, 0.6), clustered=True),
    Law("bent", lambda x: expit(0.2 - 1.4 * np.log1p(np.exp(-x)) + 0.7 * np.log1p(np.exp(x))), calibrator="beta"),
]


def design(law: Law, x: np.ndarray) -> np.ndarray:
    """Columns of the map's log-odds."""
    if law.calibrator == "temperature":
        return x[:, None]
    if law.calibrator == "beta":
        return np.column_stack([-np.log1p(np.exp(-x)), np.log1p(np.exp(x)), np.ones(x.size)])
    return np.column_stack([np.ones(x.size), x])


def truth(law: Law) -> tuple[np.ndarray, dict[str, float]]:
    """Parameters of the best map, and its summaries."""
    x = SPREAD * NODES
    rate = law.rate(x)
    if law.clustered:  # logits have half their variance from the cluster, and so has the effect: integrate it out
        rate = sum(w * expit(0.4 + 0.6 * x + u) for u, w in zip(NODES, SHARES, strict=True))
    d = design(law, x)
    found = root(lambda t: (SHARES * (rate - expit(d @ t))) @ d, np.full(d.shape[1], 0.5), tol=1e-12)
    s = np.linspace(-7, 7, 20001) * SPREAD  # |g − s| has corners: a fine grid instead of nodes
    mass = np.exp(-0.5 * (s / SPREAD) ** 2)
    g, p = expit(design(law, s) @ found.x), expit(s)
    kl = g * np.log(g / p) + (1 - g) * np.log((1 - g) / (1 - p))
    parts = {"ici": np.abs(g - p), "lcs": (g - p) ** 2, "reliability": kl}
    values = {name: float(np.average(rows, weights=mass)) for name, rows in parts.items()}
    shown = 1.0 / found.x if law.calibrator == "temperature" else found.x
    return shown, values | {"rms": values["lcs"] ** 0.5}


def draw(law: Law, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Outcomes, scores and groups."""
    if not law.clustered:
        x = SPREAD * rng.normal(size=n)
        return rng.random(n) < law.rate(x), expit(x), None
    groups = np.repeat(np.arange(n // SIZE), SIZE)
    shared, effect = rng.normal(size=(2, n // SIZE))
    x = SPREAD * (shared[groups] + rng.normal(size=n)) / np.sqrt(2.0)
    return rng.random(n) < expit(0.4 + 0.6 * x + effect[groups]), expit(x), groups


def one(law: Law, n: int, repeat: int, *, groups: bool = True) -> dict[str, tuple[float, float, float]]:
    """Low, high and estimate of everything, from one data set."""
    rng = np.random.default_rng([SEED, n, repeat])
    y, s, cluster = draw(law, rng, n)
    found = map_inference(
        y.astype(int), s, calibrator=law.calibrator, groups=cluster if groups else None, confidence_level=LEVEL
    )
    lines = {}
    for name in found.names:
        end = found.interval(name)
        lines[name] = (end.low, end.high, found.terms[name])
    for kind in KINDS:
        made = found.summary(kind)
        half = found._quantile(LEVEL) * made.std_error
        lines[kind] = (made.interval.low, made.interval.high, made.value)
        lines[f"{kind}, delta"] = (max(made.plugin - half, 0.0), made.plugin + half, made.plugin)
    lines["test"] = (found.test.pvalue, found.test.pvalue, found.test.pvalue)
    return lines


def coverage(law: Law, n: int, repeats: int, **options: bool) -> dict[str, tuple[float, float, float, float]]:
    """Truth, mean estimate, coverage and mean width of everything; the test by how often it rejects."""
    shown, values = truth(law)
    known = dict(zip(NAMES[law.calibrator], shown, strict=True)) | values
    made = [one(law, n, b, **options) for b in range(repeats)]
    table = {}
    for name in dict.fromkeys(name for found in made for name in found):
        # a coefficient of a beta map that is at its bound has no interval, and is left out
        low, high, estimate = np.array([found[name] for found in made if name in found]).T
        if name == "test":
            table[name] = (np.nan, np.nan, float((estimate < 1 - LEVEL).mean()), np.nan)
            continue
        truly = known[name.split(",")[0]]
        hit = float(((low <= truly + 1e-12) & (truly <= high + 1e-12)).mean())
        table[name] = (truly, float(estimate.mean()), hit, float((high - low).mean()))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 data sets instead of 500")
    parser.add_argument("--only", nargs="*", default=[], help="laws with one of these words")
    parser.add_argument("--no-groups", action="store_true", help="as if the rows of a cluster were independent")
    asked = parser.parse_args()
    repeats = 100 if asked.quick else REPEATS
    print("| law | n | of | truth | mean estimate | coverage | mean width |\n|---|---|---|---|---|---|---|")
    start = time.time()
    for law in LAWS:
        if asked.only and not any(word in law.name for word in asked.only):
            continue
        for n in (200, 1000):
            for name, (known, mean, hit, width) in coverage(law, n, repeats, groups=not asked.no_groups).items():
                if name == "test":
                    print(f"| {law.name} | {n} | test of the identity rejects | | | {hit:.3f} | |")
                else:
                    print(
                        f"| {law.name} | {n} | {name} | {known:.4f} | {mean:.4f} | {hit:.3f} | {width:.4f} |",
                        flush=True,
                    )
    print(f"\n{repeats} data sets a cell, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
