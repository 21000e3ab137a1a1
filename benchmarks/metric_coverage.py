"""``python -m benchmarks.metric_coverage [--quick] [--three] [--classes] [--sparse] [--rough] [METRIC …]``: coverage of the intervals of the metrics, by simulation.

Scores are a function of a uniform variable and outcomes come from C(S), so that the population's value of every metric
is known, by integrals over a million even points. Printed as Markdown with the
Monte-Carlo standard error; docs/metrics.md holds the tables. Coverage is of the population's value of the *same* metric:
binned ECE for ECE, the true curve for ICI.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from scoreprism import metrics
from scoreprism.exceptions import UnavailableError
from scoreprism.metrics._gap_curves import Residuals, find_fixed_point
from scoreprism.metrics._rows import parse_rows

LEVEL, RESAMPLES, SEED = 0.95, 200, 11
GAPS = ("ece", "ace", "mce", "rmsce", "debiased_ece", "debiased_rmsce", "lcs", "ici", "e50", "e90", "emax", "smece")
WALD = (
    "calibration_intercept",
    "calibration_slope",
    "calibration_in_the_large",
    "observed_expected_ratio",
    "global_balance",
    "auc",
)
METHODS = ("percentile", "basic", "scaled", "hull", "any-shape")
BINS = 10
SHAPED = ("lcs", "ici", "e50", "e90", "emax")
#: Where the default is not "scaled".
DEFAULT = {"smece": "hull", **dict.fromkeys(SHAPED, "any-shape")}


def calibrated(s):
    return s


def mild(s):
    return expit(np.log(s / (1 - s)) / 1.2 - 0.1)


def strong(s):
    return expit(np.log(s / (1 - s)) / 1.6 - 0.4)


def wave(s):
    return s + 0.06 * np.sin(4 * np.pi * s)


def uniform(u):
    return u


def rare(u):
    return 0.4 * u**3


Law = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]
#: Scores as a function of a uniform variable, and the calibrated law as a function of the score.
LAWS: dict[str, Law] = {
    "calibrated": (uniform, calibrated),
    "mild": (uniform, mild),
    "strong": (uniform, strong),
    "wave": (uniform, wave),
    "rare events, calibrated": (rare, calibrated),
    "rare events, strong": (rare, strong),
}


#: Laws that show one outcome only in many samples, with their numbers of rows; and two that are hard with many rows.
SPARSE: dict[str, tuple[int, Law]] = {
    "S = .9, C = .97": (20, (lambda u: np.full_like(u, 0.9), lambda s: np.full_like(s, 0.97))),
    "S ~ U(.95, 1), C = .99": (100, (lambda u: 0.95 + 0.05 * u, lambda s: np.full_like(s, 0.99))),
    "S ~ U(.95, 1), calibrated": (60, (lambda u: 0.95 + 0.05 * u, calibrated)),
    "S = .02, C = .01": (100, (lambda u: np.full_like(u, 0.02), lambda s: np.full_like(s, 0.01))),
    "S ~ U(0, 1), C = 1": (1000, (uniform, np.ones_like)),
    "steep: S ~ U(0, 1), C = σ(12(S − ½))": (2000, (uniform, lambda s: expit(12 * (s - 0.5)))),
    "very rare: S = .024u³, calibrated": (3000, (lambda u: 0.024 * u**3, calibrated)),
}
SPARSE_METRICS = (
    "global_balance",
    "observed_expected_ratio",
    "spiegelhalter_z",
    "ece",
    "ace",
    "mce",
    "rmsce",
    "lcs",
    "ici",
    "e50",
    "e90",
    "emax",
)


_RNG = np.random.default_rng(40)
_MASS, _RATE, _SIZE = _RNG.dirichlet(np.full(40, 5.0)), _RNG.beta(2, 2, 40), _RNG.integers(30, 80, 40)
_LEAF = (_RNG.binomial(_SIZE, _RATE) + 1) / (_SIZE + 2)


def leaves(s):
    """C of leaves of a tree; of two that share a score, their mean."""
    values, code = np.unique(_LEAF, return_inverse=True)
    rate = np.bincount(code, _MASS * _RATE) / np.bincount(code, _MASS)
    return rate[np.minimum(np.searchsorted(values, s), values.size - 1)]


#: Rough laws: steps, a saw of tied scores, a bump, a wave, leaves of a tree.
ROUGH: dict[str, Law] = {
    "stairs3": (lambda u: 0.05 + 0.9 * u, lambda s: np.select([s < 0.4, s < 0.6], [0.2, 0.7], 0.35)),
    "saw": (lambda u: (0.1 + 0.8 * u).round(2), lambda s: s + 0.07 * (1 - 2 * (np.rint(100 * s) % 2))),
    "bump": (lambda u: 0.1 + 0.8 * u, lambda s: s + 0.25 * ((s > 0.55) & (s < 0.61))),
    "wave of six": (
        lambda u: 0.05 + 0.9 * u,
        lambda s: s + 0.07 * np.sin(12 * np.pi * s) * np.minimum(1, np.minimum(s, 1 - s) / 0.07),
    ),
    "leaves": (lambda u: _LEAF[np.minimum(np.searchsorted(_MASS.cumsum(), u), 39)], leaves),
}


def truths(law: Law) -> dict[str, float]:
    """The population's value of every metric."""
    make, truth = law
    s = make((np.arange(10**6) + 0.5) / 10**6)
    c = truth(s)
    gap = c - s
    even = np.ceil(s * BINS).astype(int) - 1
    mass = np.bincount(even, minlength=BINS) / s.size
    bins = np.bincount(even, gap, BINS)[mass > 0] / s.size / mass[mass > 0]
    mass = mass[mass > 0]
    known = {
        "ece": mass @ np.abs(bins),
        "ace": np.abs(gap.reshape(BINS, -1).mean(axis=1)).mean(),
        "mce": np.abs(bins).max(),
        "rmsce": np.sqrt(mass @ bins**2),
        "lcs": (gap**2).mean(),
        "ici": np.abs(gap).mean(),
        "e50": np.quantile(np.abs(gap), 0.5),
        "e90": np.quantile(np.abs(gap), 0.9),
        "emax": np.abs(gap).max(),
        "observed_expected_ratio": c.mean() / s.mean(),
        "global_balance": gap.mean(),
        # P(S' < S) of an event at S and a non-event at S', each with its own density
        "auc": float((c * (np.cumsum(1 - c) - 0.5 * (1 - c))).sum() / max(c.sum() * (1 - c).sum(), 1e-300)),
    }
    known["smece"] = find_fixed_point(Residuals(s, 4096).coefficients(gap / s.size))
    known["debiased_ece"], known["debiased_rmsce"] = known["ece"], known["rmsce"]
    # the mean of Spiegelhalter's z over √n
    known["spiegelhalter_z"] = (gap * (1 - 2 * s)).mean() / np.sqrt(((1 - 2 * s) ** 2 * s * (1 - s)).mean())
    if c.min() == c.max():  # its logistic fit is not asked for
        return {name: float(value) for name, value in known.items()}
    # the logistic fit to the population: rows of both outcomes with their probabilities for weights
    few = make((np.arange(10**5) + 0.5) / 10**5)
    both, y, w = np.tile(few, 2), np.repeat([1, 0], few.size), np.concatenate([truth(few), 1 - truth(few)])
    for name in WALD[:3]:
        known[name] = float(metrics.METRICS[name](y, both, sample_weight=w))
    return {name: float(value) for name, value in known.items()}


def one(
    law: Law, n: int, seed: int, names: Iterable[str] = (*GAPS, *WALD)
) -> dict[tuple[str, str], tuple[float, float, float]]:
    rng = np.random.default_rng([SEED, n, seed])
    s = law[0](rng.random(n))
    y = (rng.random(n) < law[1](s)).astype(int)
    options = {name: {"n_bins": BINS} if name in GAPS[:6] else {} for name in (*GAPS, *WALD) if name in names}
    rows = parse_rows(y, s, None, None, None)  # shared, as `evaluate` does it
    found = {}
    for name, given in options.items():
        value = metrics.METRICS[name](rows, None, **given)
        for method in METHODS[:3] if name in GAPS else ("analytic",):
            chosen = None if method == "analytic" else method
            interval = value.interval(LEVEL, n_resamples=RESAMPLES, random_state=seed, method=chosen)
            found[name, method] = (interval.low, interval.high, float(value))
        if name in GAPS:  # what "hull" is, without computing its parts again
            (a, b, _), (c, d, _) = found[name, "scaled"], found[name, "percentile"]
            found[name, "hull"] = (min(a, c), max(b, d), float(value))
        if name in SHAPED:
            interval = value.interval(LEVEL, n_resamples=RESAMPLES, random_state=seed)
            found[name, "any-shape"] = (interval.low, interval.high, float(value))
    return found


def main(
    *,
    quick: bool,
    names: tuple[str, ...] = (*GAPS, *WALD),
    laws: dict[str, Law] = LAWS,
    sizes: tuple[int, ...] = (200, 1000),
) -> None:
    repeats = 100 if quick else 300
    print(f"{repeats} data sets each, {RESAMPLES} resamples, level {LEVEL}, {BINS} bins\n")
    for n in sizes:
        for label, law in laws.items():
            start, known = time.perf_counter(), truths(law)
            draws = Parallel(n_jobs=-1)(delayed(one)(law, n, b, names) for b in range(repeats))
            print(f"\n{label}, n = {n} ({time.perf_counter() - start:.0f} s)\n")
            print("| metric | truth | mean estimate | " + " | ".join(f"{m}: coverage (width)" for m in METHODS) + " |")
            print("|---|---|---|" + "---|" * len(METHODS))
            for name in names:
                cells = []
                methods = METHODS if name in SHAPED else METHODS[:4] if name in GAPS else ("analytic",)
                for method in methods:
                    low, high, value = np.array([d[name, method] for d in draws]).T
                    hit = ((low <= known[name] + 1e-12) & (known[name] - 1e-12 <= high)).mean()
                    cells.append(f"{hit:.3f} ({(high - low).mean():.4f})")
                cells += [""] * (len(METHODS) - len(cells))
                print(f"| {name} | {known[name]:.4f} | {value.mean():.4f} | " + " | ".join(cells) + " |")
            print(f"\nMonte-Carlo standard error {np.sqrt(0.95 * 0.05 / repeats):.3f}", flush=True)


def sparse_hits(n: int, law: Law, names: Iterable[str], repeats: int) -> dict[str, list[bool]]:
    """Whether the default interval covers, of every sample that has one."""
    known = truths(law)
    known["spiegelhalter_z"] *= np.sqrt(n)
    hits: dict[str, list[bool]] = {name: [] for name in names}
    for seed in range(repeats):
        rng = np.random.default_rng([SEED, n, seed])
        s = law[0](rng.random(n))
        rows = parse_rows((rng.random(n) < law[1](s)).astype(int), s, None, None, [0, 1])
        for name, found in hits.items():
            given = {"n_bins": BINS} if "n_bins" in metrics.METRICS[name].__kwdefaults__ else {}
            value = metrics.METRICS[name](rows, None, **given)
            try:
                interval = value.interval(LEVEL, n_resamples=RESAMPLES, random_state=seed)
            except UnavailableError:
                continue
            found.append(interval.low - 1e-12 <= known[name] <= interval.high + 1e-12)
    return hits


def sparse(*, quick: bool) -> None:
    """Coverage of the default intervals where there is one, and the share of samples without one."""
    repeats = 100 if quick else 300
    print("| data, n | " + " | ".join(f"`{name}`" for name in SPARSE_METRICS) + " |")
    print("|---|" + "---:|" * len(SPARSE_METRICS))
    for label, (n, law) in SPARSE.items():
        hits = sparse_hits(n, law, SPARSE_METRICS, repeats)
        cells = []
        for found in hits.values():
            none = 1 - len(found) / repeats
            cells.append((f"{np.mean(found):.3f}" if found else "–") + (f" ({none:.0%} none)" if none else ""))
        print(f"| {label}, {n} | " + " | ".join(cells) + " |", flush=True)


THREE = (
    "classwise_ece",
    "classwise_ace",
    "classwise_rmsce",
    "confidence_ece",
    "top_label_ece",
    "global_balance",
    "classwise_ici",
    "classwise_lcs",
)


def three_scores(rng, n):
    return rng.dirichlet([1.0, 1.5, 2.0], n)


def cooler(s):
    c = s ** (1 / 1.5) * [1.0, 1.0, 1.25]
    return c / c.sum(axis=1, keepdims=True)


def three_options(name: str) -> dict[str, int]:
    return {"n_bins": BINS} if "n_bins" in metrics.METRICS[name].__kwdefaults__ else {}


def one_of_three(law, n: int, seed: int) -> dict[str, tuple[float, float, float]]:
    rng = np.random.default_rng([SEED, 3, n, seed])
    s = three_scores(rng, n)
    y = (rng.random(n)[:, None] >= law(s).cumsum(axis=1)[:, :-1]).sum(axis=1)
    found = {}
    for name in THREE:
        value = metrics.METRICS[name](y, s, classes=[0, 1, 2], **three_options(name))
        interval = value.interval(LEVEL, n_resamples=RESAMPLES, random_state=seed)
        found[name] = (interval.low, interval.high, float(value))
    return found


def three(*, quick: bool) -> None:
    """Three classes, the default intervals; the truth from 100 000 scores with every outcome weighted by its law."""
    repeats = 100 if quick else 200
    s = three_scores(np.random.default_rng(0), 100_000)
    for label, law in {"calibrated": calibrated, "miscalibrated": cooler}.items():
        y, every, weight = np.repeat([0, 1, 2], len(s)), np.tile(s, (3, 1)), law(s).T.ravel()
        known = {f: float(metrics.METRICS[f](y, every, sample_weight=weight, **three_options(f))) for f in THREE}
        if label == "calibrated":
            known = dict.fromkeys(THREE, 0.0)
        for n in (200, 1000):
            draws = Parallel(n_jobs=-1)(delayed(one_of_three)(law, n, b) for b in range(repeats))
            print(f"\nthree classes, {label}, n = {n}, {repeats} data sets\n")
            print("| metric | truth | mean estimate | coverage (width) |\n|---|---|---|---|")
            for name in THREE:
                low, high, value = np.array([d[name] for d in draws]).T
                hit = ((low <= known[name] + 1e-12) & (known[name] - 1e-12 <= high)).mean()
                width = (high - low).mean()
                print(f"| {name} | {known[name]:.4f} | {value.mean():.4f} | {hit:.3f} ({width:.4f}) |", flush=True)


MEANS = ("macro_auc", "accuracy", "top_k_accuracy", "log_loss", "brier_score")
#: Parameters of the Dirichlet law of scores, by the number of classes: hard to rank, and nearly separated.
SCORES = {3: {"hard": 1.0, "easy": 0.1}, 10: {"hard": 0.5, "easy": 0.02}}


def draw_classes(k: int, shape: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are too flat, and outcomes; the classes are of different sizes."""
    law = rng.dirichlet(shape * np.linspace(0.5, 1.5, k), n)
    s = 0.9 * law + 0.1 / k
    return s, (rng.random(n)[:, None] >= law.cumsum(axis=1)[:, :-1]).sum(axis=1)


def one_of_classes(k: int, shape: float, n: int, seed: int) -> dict[str, tuple[float, float, float]]:
    s, y = draw_classes(k, shape, n, np.random.default_rng([SEED, k, n, seed]))
    found = {}
    for name in MEANS if k > 5 else (MEANS[0], MEANS[1], *MEANS[3:]):
        value = metrics.METRICS[name](y, s, classes=range(k))
        interval = value.interval(LEVEL)
        found[name] = (interval.low, interval.high, float(value))
    return found


def classes(*, quick: bool) -> None:
    """Means and areas of several classes; the truth from a million rows."""
    repeats = 200 if quick else 1000
    print("| classes, scores, n | metric | truth | mean estimate | coverage (width) |\n|---|---|---:|---:|---:|")
    for k, laws in SCORES.items():
        for label, shape in laws.items():
            s, y = draw_classes(k, shape, 10**6, np.random.default_rng([SEED, k]))
            for n in (300, 2000):
                draws = Parallel(n_jobs=1)(delayed(one_of_classes)(k, shape, n, b) for b in range(repeats))
                for name in draws[0]:
                    truth = float(metrics.METRICS[name](y, s, classes=range(k)))
                    low, high, value = np.array([d[name] for d in draws]).T
                    hit, width = ((low <= truth) & (truth <= high)).mean(), (high - low).mean()
                    cells = f"{truth:.4f} | {value.mean():.4f} | {hit:.3f} ({width:.4f})"
                    print(f"| {k}, {label}, {n} | {name} | {cells} |", flush=True)
    print(f"\nMonte-Carlo standard error {np.sqrt(0.95 * 0.05 / repeats):.3f}")


if __name__ == "__main__":
    if "--three" in sys.argv[1:]:
        three(quick="--quick" in sys.argv[1:])
    elif "--classes" in sys.argv[1:]:
        classes(quick="--quick" in sys.argv[1:])
    elif "--sparse" in sys.argv[1:]:
        sparse(quick="--quick" in sys.argv[1:])
    else:
        chosen = tuple(name for name in (*GAPS, *WALD) if name in sys.argv[1:])
        rough = {"laws": ROUGH, "sizes": (500, 2000)} if "--rough" in sys.argv[1:] else {}
        main(quick="--quick" in sys.argv[1:], names=chosen or (*GAPS, *WALD), **rough)
