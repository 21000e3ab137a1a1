"""``python -m benchmarks.maps [--quick]``: which map when. Excess log loss of every calibrator on laws known exactly.

For a score S with a known C = P(Y=1 | S), the expected log loss of a map g exceeds that of C by E KL(C ‖ g(S)), which is
computed on a fine grid of scores, not estimated from outcomes. Printed as Markdown, in units of 1e-4 nats, the mean over
samples; docs/calibrators.md holds the tables.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, log_softmax, logit
from scipy.stats import beta as beta_law

from scoreprism.calibrators import CALIBRATORS, IsotonicCalibrator, OneVsRestCalibrator, SelectedCalibrator
from scoreprism.exceptions import ContradictedOrderWarning


class Law(NamedTuple):
    """Quantiles of the score and the true probability at each score."""

    quantile: Callable[[np.ndarray], np.ndarray]
    truth: Callable[[np.ndarray], np.ndarray]


EVEN = beta_law(1.0, 1.0).ppf
LAWS = {
    "calibrated": Law(EVEN, lambda s: s),
    "overconfident": Law(beta_law(0.5, 0.5).ppf, lambda s: expit(0.5 * logit(s) + 0.2)),
    "bent": Law(EVEN, lambda s: s**2 / (s**2 + 1 - s)),
    "S-shaped": Law(EVEN, lambda s: 0.1 + 0.8 * expit(15 * (s - 0.5))),
    "three classes of risk": Law(EVEN, lambda s: np.select([s < 0.4, s < 0.7], [0.1, 0.35], 0.8)),
    "one bad stretch": Law(EVEN, lambda s: np.where(np.abs(s - 0.5) < 0.1, 0.9, s)),
    "narrow band": Law(lambda u: 0.46 + 0.44 * u, lambda s: expit(3 * (logit(s) - logit(0.7)) + 0.8)),
    "rare events": Law(beta_law(1.0, 60.0).ppf, lambda s: expit(0.7 * logit(s) - 0.7)),
}
#: Maps beside the defaults, by the name in the table.
EXTRA = {
    "selected, any order": SelectedCalibrator(order="any"),
    "isotonic, steps": IsotonicCalibrator(interpolation="step", shrink=False, clip=1e-6),
    "isotonic, linear": IsotonicCalibrator(interpolation="linear", shrink=False),
}
BINARY = {name: cls() for name, cls in CALIBRATORS.items() if name in (
    "identity", "platt", "temperature", "beta", "isotonic", "binning", "bin-effects", "kernel", "spline", "natural-spline",
    "monotone-spline", "venn-abers", "selected")} | EXTRA  # fmt: skip


def kl(c: np.ndarray, p: np.ndarray) -> float:
    """Mean KL(C ‖ p); both are inside (0, 1)."""
    return float(np.mean(c * np.log(c / p) + (1 - c) * np.log((1 - c) / (1 - p))))


def two_class(law_name: str, n: int, seed: int) -> dict[str, float]:
    law = LAWS[law_name]
    rng = np.random.default_rng([seed, n])
    s = np.clip(law.quantile(rng.random(n)), 1e-9, 1 - 1e-9)
    y = (rng.random(n) < law.truth(s)).astype(int)
    if y.min() == y.max():
        y[0] = 1 - y[0]
    grid = np.clip(law.quantile((np.arange(4000) + 0.5) / 4000), 1e-9, 1 - 1e-9)
    c = np.clip(law.truth(grid), 1e-12, 1 - 1e-12)
    found = {}
    for name, calibrator in BINARY.items():
        if name.startswith("selected"):
            calibrator.set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictedOrderWarning)  # one of the laws does
            found[name] = kl(c, calibrator.fit(s, y).calibrate(grid))
    return found


def three_class(law_name: str, n: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, n, 3])

    def draw(m):
        c = rng.dirichlet([1.0, 1.5, 2.0], m)
        c = 0.999 * c + 0.001 / 3
        z = np.log(c)
        z = {
            "calibrated": z,
            "overconfident": 2 * z,
            "one class inflated": z * [1, 1, 1.6] + [0, 0, 0.8],
            "mixed up": z @ np.array([[1.0, 0.6, 0], [0, 1.0, 0], [0.3, 0, 1.0]]),
        }[law_name]
        s = np.exp(z - z.max(axis=1, keepdims=True))
        return c, s / s.sum(axis=1, keepdims=True)

    truth, s = draw(n)
    y = (rng.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    c, new = draw(4000)
    names = (
        "identity",
        "temperature",
        "vector-scaling",
        "matrix-scaling",
        "structured-matrix",
        "dirichlet",
        "polynomial",
        "selected",
    )
    maps = {name: CALIBRATORS[name]() for name in names} | {"one-vs-rest (isotonic)": OneVsRestCalibrator()}
    maps["selected, any order"] = SelectedCalibrator(order="any")
    for name in ("selected", "selected, any order"):
        maps[name].set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictedOrderWarning)
        return {
            name: float((c * np.log(c / m.fit(s, y).predict_proba(new))).sum(axis=1).mean()) for name, m in maps.items()
        }


def many_classes(setting: str, n: int, seed: int) -> dict[str, float]:
    """The same for many classes, whose logits are 1.3 times too bold, or also confused with their neighbours."""
    law_name, k = setting.split(", ")
    rng, k = np.random.default_rng([seed, n, int(k.split()[0])]), int(k.split()[0])
    tilt = 0.3 * rng.normal(size=k)

    def draw(m):
        seen = 1.5 * rng.normal(size=(m, k))
        seen[np.arange(m), rng.integers(k, size=m)] += 3.0
        truth = 0.7 * seen + 0.25 * np.roll(seen, 1, axis=1) - 0.15 * np.roll(seen, 3, axis=1) + tilt
        return 1.3 * seen, log_softmax(truth if law_name == "mixed up" else seen, axis=1)

    z, truth = draw(n)
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    y[:k] = np.arange(k)  # every class occurs
    new, log_c = draw(4000)
    names = ("identity", "temperature", "vector-scaling", "structured-matrix")
    maps = {name: CALIBRATORS[name](kind="logit").fit(z, y) for name in names}
    return {
        name: float((np.exp(log_c) * (log_c - np.log(m.calibrate(new)))).sum(axis=1).mean()) for name, m in maps.items()
    }


def table(title: str, columns: list[str], rows: dict[str, list[float]]) -> None:
    """A Markdown table of means, in bold within a tenth of the best single map other than the identity."""
    print(f"\n**{title}**\n\n| map | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    maps = [values for name, values in rows.items() if name != "identity" and not name.startswith("selected")]
    best = [min(values[j] for values in maps) for j in range(len(columns))]
    for name, values in rows.items():
        numbers = [f"{1e4 * max(value, 0.0):.0f}" for value in values]
        bold = [value <= 1.1 * least + 1e-5 for value, least in zip(values, best, strict=True)]
        print(f"| {name} | {' | '.join(f'**{n}**' if b else n for n, b in zip(numbers, bold, strict=True))} |")


def study(function, laws, repeats) -> None:
    for n, samples in repeats.items():
        rows: dict[str, list[float]] = {}
        for law in laws:
            found = Parallel(n_jobs=2)(delayed(function)(law, n, seed) for seed in range(samples))
            for name in found[0]:
                rows.setdefault(name, []).append(float(np.mean([one[name] for one in found])))
        table(f"n = {n}, {samples} samples", list(laws), rows)


def main(*, quick: bool) -> None:
    start = time.perf_counter()
    repeats = {200: 20, 1000: 10, 5000: 4} if quick else {200: 200, 1000: 100, 5000: 40, 20_000: 20}
    study(two_class, list(LAWS), repeats)
    few = {300: 8, 2000: 4} if quick else {300: 60, 2000: 30}
    study(three_class, ["calibrated", "overconfident", "one class inflated", "mixed up"], few)
    study(many_classes, ["one temperature, 30 classes", "mixed up, 30 classes"], {90: 8, 225: 8, 900: 8, 3600: 8})
    study(many_classes, ["one temperature, 100 classes", "mixed up, 100 classes"], {1000: 4, 2500: 4, 10_000: 4})
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    from benchmarks import maps  # noqa: PLW0406  # under its own name, so that workers can find its functions

    maps.main(quick="--quick" in sys.argv)
