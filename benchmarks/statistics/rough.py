"""Rough laws: C jumps, has a bump or a wave, or scores are leaves of a tree; few effective rows; many classes; leaks.

Each cell draws a sample, decomposes it and says what a reader would be told; a sentence that is false is counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax

import scoreprism
from benchmarks.statistics.cells import Cell, Numbers
from benchmarks.statistics.scenarios import LOSSES, SCENARIOS
from benchmarks.statistics.tables import Bar, Line, Section, Value, judged, mean, root_mean_square, share, within
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._findings.finding import select
from scoreprism.decomposition import Decomposition
from scoreprism.losses import get_loss

Results = Mapping[str, FloatArray]
Book = Mapping[str, Results]
#: A score and its calibrated law.
Pair = tuple[FloatArray, FloatArray]

# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────

_leaves = np.random.default_rng(2024)
LEAF_MASS = _leaves.dirichlet(np.full(40, 5.0))
LEAF_LAW = _leaves.beta(2, 2, 40)
_rows = _leaves.integers(30, 80, 40)
LEAF_SCORE = (_leaves.binomial(_rows, LEAF_LAW) + 1) / (_rows + 2)


def _normal(n: int, rng: np.random.Generator) -> FloatArray:
    return expit(1.5 * rng.standard_normal(n))


def _below_one(s: FloatArray) -> FloatArray:
    """Scores that rounding has not made 0 or 1."""
    return np.clip(s, 1e-16, 1.0 - 2.0**-53)


def _stairs(s: FloatArray) -> FloatArray:
    return np.where(s < 0.4, 0.2, np.where(s < 0.6, 0.7, 0.35))


def _saw(n: int, rng: np.random.Generator) -> Pair:
    steps = np.round(100 * rng.uniform(0.1, 0.9, n)).astype(int)
    return steps / 100, steps / 100 + 0.07 * np.where(steps % 2, 1.0, -1.0)


def _wave(s: FloatArray) -> FloatArray:
    return s + 0.07 * np.sin(12 * np.pi * s) * np.minimum(1.0, np.minimum(s / 0.07, (1 - s) / 0.07))


def _leaf(n: int, rng: np.random.Generator) -> Pair:
    place = rng.choice(40, n, p=LEAF_MASS)
    return LEAF_SCORE[place], LEAF_LAW[place]


def _of(score: Callable[[int, np.random.Generator], FloatArray], law: Callable[[FloatArray], FloatArray]) -> Any:
    def sample(n: int, rng: np.random.Generator) -> Pair:
        s = score(n, rng)
        return s, law(s)

    return sample


def _known(name: str) -> Any:
    """A scenario of the bars of version 1; its calibrated law is not needed, only its truth."""

    def sample(n: int, rng: np.random.Generator) -> Pair:
        draw = SCENARIOS[name].sample(n, rng)
        return draw.s, draw.q

    return sample


LAWS: dict[str, Callable[[int, np.random.Generator], Pair]] = {
    "calib": _of(_normal, lambda s: s),
    "slope": _of(_normal, lambda s: expit(0.7 * logit(s) - 0.2)),
    "rounded": _of(lambda n, rng: np.clip(_normal(n, rng).round(2), 0.01, 0.99), lambda s: s),
    "stairs3": _of(lambda n, rng: rng.uniform(0.05, 0.95, n), _stairs),
    "saw": _saw,
    "bump": _of(lambda n, rng: rng.uniform(0.1, 0.9, n), lambda s: s + 0.25 * ((s > 0.55) & (s < 0.61))),
    "wave": _of(lambda n, rng: rng.uniform(0.05, 0.95, n), _wave),
    "leaves": _leaf,
    "jump": _of(lambda n, rng: rng.uniform(0.15, 0.85, n), lambda s: s - 0.1 + 0.2 * (s > 0.5)),
    "rare": _of(lambda n, rng: expit(-7.3 + 1.1 * rng.standard_normal(n)), lambda s: expit(0.75 * logit(s) - 1.9)),
    "sharp-tail": _of(lambda n, rng: _below_one(expit(8 * rng.standard_normal(n))), lambda s: 0.003 + 0.994 * s),
    "a": _known("a"),
    "c": _known("c"),
    "d": _known("d"),
}
STORIES = {
    "calib": "S = σ(1.5N), calibrated",
    "slope": "C = σ(.7 logit S − .2)",
    "rounded": "calib rounded to .01",
    "stairs3": "S ~ U(.05, .95), C = .2/.7/.35 cut at .4 and .6",
    "saw": "S ~ U(.1, .9) rounded to .01, C = S ± .07 alternating",
    "bump": "S ~ U(.1, .9), C = S + .25 between .55 and .61",
    "wave": "S ~ U(.05, .95), C = S + .07 sin(12πS), tapered",
    "leaves": "40 leaves of a tree, S their means on 30 to 79 other rows",
    "rare": "events .1 %: S = σ(−7.3 + 1.1N), C = σ(.75 logit S − 1.9)",
    "sharp-tail": "S = σ(8N), C = .003 + .994S",
    "jump": "S ~ U(.15, .85), C = S ∓ .1, jumping at ½",
}
#: Laws whose truth is that of version 1's scenarios, by quadrature.
_EXACT = ("a", "c", "d")


@cache
def truth(law: str, loss: str) -> float:
    """Reliability: exact, or the mean divergence over ten million scores (error below .3 % of the smallest of them)."""
    if law in _EXACT:
        return SCENARIOS[law].truth(loss).reliability
    if law == "leaves":
        return float(LEAF_MASS @ get_loss(loss).divergence(LEAF_SCORE, LEAF_LAW))
    rng = np.random.default_rng(1)
    parts = [float(np.mean(get_loss(loss).divergence(*LAWS[law](1_000_000, rng)))) for _ in range(10)]
    return float(np.mean(parts))


def _outcomes(law: FloatArray, rng: np.random.Generator) -> IntArray:
    return (rng.random(law.shape[0]) < law).astype(np.intp)


def _decomposed(y: IntArray, s: FloatArray, X: FloatArray | None = None, **options: Any) -> Mapping[str, Decomposition]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = scoreprism.decompose(y, s, X, loss=LOSSES[0], **options)
        others = [first.chain.decompose(loss) for loss in LOSSES[1:]]
    return {str(one.loss): one for one in (first, *others)}


#: What is told of the reliability, by kind of finding.
_TOLD = {"recalibrate": "recalibrate", "recalibrate_size_open": "not calibrated", "no_miscalibration": "none shown"}


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────


def scores(rng: np.random.Generator, law: str, n: int, *, told: bool = True) -> Numbers:
    """Intervals and bounds of the reliability, and which sentence a reader is told."""
    s, c = LAWS[law](n, rng)
    y = _outcomes(c, rng)
    numbers: Numbers = {}
    for loss, d in _decomposed(y, s).items():
        wide, smooth = d.interval("reliability"), d.interval("reliability", method="smooth")
        bound = d.lower_bound("reliability").value
        numbers |= {
            f"{loss}.rel": d.terms["reliability"], f"{loss}.low": wide.low, f"{loss}.high": wide.high,
            f"{loss}.smooth": smooth.high, f"{loss}.lower": bound, f"{loss}.error": d.std_error["reliability"],
            f"{loss}.few": float(bool(select(d.findings, "few_effective_rows"))),
        }  # fmt: skip
        if told:
            kinds = {one.kind for one in d.conclusions(min_gain=0.0)}  # a gain is told however small it is
            numbers |= {f"{loss}.{key}": float(kind in kinds) for kind, key in _TOLD.items()}
            p = d.calibration_pvalue
            numbers[f"{loss}.rejected"] = float(p is not None and p <= 0.05)
    return numbers


def seeds(rng: np.random.Generator, law: str, n: int) -> Numbers:
    """Spread over 20 seeds of the folds, in standard errors; and the change when rows are permuted, over the loss."""
    s, c = LAWS[law](n, rng)
    y = _outcomes(c, rng)
    runs = [_decomposed(y, s, random_state=seed) for seed in range(20)]
    order = rng.permutation(n)
    moved = _decomposed(y[order], s[order])
    numbers: Numbers = {}
    for loss in LOSSES:
        found = [run[loss] for run in runs]
        error = np.mean([d._inference("reliability").moments.std_error({0: 1.0}) for d in found])
        numbers[f"{loss}.rel"] = np.std([d.terms["reliability"] for d in found], ddof=1) / error
        reach = [d.interval("reliability").high for d in found]
        away = np.mean(
            [d._inference("reliability").high(1.96, any_shape=True) - d._moments.value({0: 1.0}) for d in found]
        )
        numbers[f"{loss}.high"] = np.std(reach, ddof=1) / away
        gap = moved[loss].terms["reliability"] - found[0].terms["reliability"]
        numbers[f"{loss}.permuted"] = abs(gap) / found[0].risk
    return numbers


def leak(rng: np.random.Generator, law: str, n: int) -> Numbers:
    """Features that know no more than the score: is a gain of a better model promised?"""
    if law == "leaf id":
        x = rng.random(n)
        place = np.searchsorted(np.cumsum(LEAF_MASS), x).clip(0, 39)
        s, c, first = LEAF_SCORE[place], LEAF_LAW[place], x
    else:
        s, c = LAWS[law](n, rng)
        first = s + 0.02 * rng.standard_normal(n)
    X = np.column_stack([first, rng.standard_normal((n, 2))])
    found = _decomposed(_outcomes(c, rng), s, X)
    return {f"{loss}.promised": float(d.lower_bound("grouping").value > 0.0) for loss, d in found.items()}


def strong(rng: np.random.Generator, n: int, reference: str = "auto") -> Numbers:
    """A third of the loss is grouping: bounds are said, and the estimate is muted only with a reference that overfits."""
    X = rng.standard_normal((n, 4))
    s, q = expit(X[:, 0]), expit(2.0 * X[:, 0] + 2.5 * X[:, 1])
    options = {}
    if reference == "lightgbm":
        from lightgbm import LGBMClassifier

        options["reference"] = LGBMClassifier(verbose=-1, n_jobs=1)
    numbers: Numbers = {}
    for loss, d in _decomposed(_outcomes(q, rng), s, X, **options).items():
        said = select(d.conclusions(), "information_gain", "information_size_open", "no_information_gain")
        numbers |= {
            f"{loss}.grp": d.terms["grouping"], f"{loss}.lower": d.lower_bound("grouping").value,
            f"{loss}.muted": float("grouping" in d.muted), f"{loss}.share": d.terms["grouping"] / d.risk,
            f"{loss}.said": float(any(one.term == "grouping" for one in said)),
        }  # fmt: skip
    return numbers


@cache
def strong_truth(loss: str) -> float:
    """Grouping of `strong`, by quadrature: C is E[q | x₁]."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    q = expit(2.0 * nodes[:, None] + 2.5 * nodes)
    entropy = get_loss(loss).entropy
    return float(weights @ entropy(q @ weights) - weights @ (entropy(q.ravel()).reshape(q.shape) @ weights))


def _class_law(law: str, n: int, k: int, rng: np.random.Generator) -> Pair:
    s = softmax(1.5 * rng.standard_normal((n, k)), axis=1)
    c = s.copy()
    if law == "jump":
        sure = s.max(axis=1) > 0.6
        c[sure] = 0.75 * s[sure] + 0.25 / k
    if law == "swap":
        some = s[:, 0] < 0.2
        c[some, 1], c[some, 2] = 0.6 * s[some, 1] + 0.4 * s[some, 2], 0.4 * s[some, 1] + 0.6 * s[some, 2]
    return s, c


@cache
def class_truth(law: str, k: int, loss: str) -> float:
    rng = np.random.default_rng(1)
    return float(np.mean([np.mean(get_loss(loss).divergence(*_class_law(law, 200_000, k, rng))) for _ in range(5)]))


def classes(rng: np.random.Generator, law: str, k: int, n: int) -> Numbers:
    """Several classes."""
    s, c = _class_law(law, n, k, rng)
    y = (rng.random((n, 1)) > c.cumsum(axis=1)[:, :-1]).sum(axis=1)
    numbers: Numbers = {}
    for loss, d in _decomposed(y, s).items():
        wide, smooth = d.interval("reliability"), d.interval("reliability", method="smooth")
        numbers |= {f"{loss}.rel": d.terms["reliability"], f"{loss}.low": wide.low, f"{loss}.high": wide.high}
        numbers[f"{loss}.smooth"] = smooth.high
    return numbers


def differences(rng: np.random.Generator, n: int, pair: str) -> Numbers:
    """Two scores on the same rows: the interval of the difference of their reliabilities, and of their losses."""
    x = rng.standard_normal(n)
    q = expit(1.2 * x)
    other = {"bold": expit(2.4 * x), "shifted": expit(1.2 * x + 0.5), "alike": expit(1.3 * x - 0.1)}[pair]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers: Numbers = {}
        for loss in LOSSES:
            found = scoreprism.compare(_outcomes(q, rng), {"one": other, "two": q}, loss=loss)
            interval = found.difference("one", "two").interval("reliability")
            plain = found.difference("one", "two").interval("reliability", method="clt")
            numbers |= {f"{loss}.low": interval.low, f"{loss}.high": interval.high}
            numbers |= {f"{loss}.clt.low": plain.low, f"{loss}.clt.high": plain.high}
    return numbers


@cache
def difference_truth(pair: str, loss: str) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    q = expit(1.2 * nodes)
    other = {"bold": expit(2.4 * nodes), "shifted": expit(1.2 * nodes + 0.5), "alike": expit(1.3 * nodes - 0.1)}[pair]
    return float(weights @ get_loss(loss).divergence(other, q) / weights.sum())


SIZES = {"rare": (20_000,), "sharp-tail": (2000,), "jump": ()}
PAIRS = ("bold", "shifted", "alike")


def cells() -> Iterator[Cell]:
    """Every cell of this study."""
    for law in LAWS:
        for n in SIZES.get(law, (500, 2000, 20_000)):
            wanted = 60 if n == 20_000 and law not in ("rare", *_NULLS) else 200
            arguments = {"law": law, "n": n, "told": n <= 2000}
            yield Cell(f"rough/{law}/{n}", scores, wanted, 4, arguments)
    for law in ("calib", "c"):
        for n in (500, 2000):
            yield Cell(f"seeds/{law}/{n}", seeds, 20, 2, {"law": law, "n": n})
    for pair in PAIRS:
        yield Cell(f"differences/{pair}/200", differences, 400, 4, {"pair": pair, "n": 200})
    for law, n, wanted in (
        ("jump", 2000, 200),
        ("leaf id", 2000, 200),
        ("stairs3", 2000, 200),
        ("stairs3", 20_000, 40),
    ):
        yield Cell(f"leak/{law}/{n}", leak, wanted, 2, {"law": law, "n": n})
    for reference in ("auto", "lightgbm"):
        yield Cell(f"strong/{reference}/500", strong, 200, 2, {"n": 500, "reference": reference})
    for law, k, n, wanted in (
        ("null", 3, 2000, 60), ("jump", 3, 2000, 200), ("swap", 3, 2000, 200), ("jump", 3, 10_000, 24),
        ("jump", 10, 2000, 60),
    ):  # fmt: skip
        yield Cell(f"classes/{law} {k}/{n}", classes, wanted, 2, {"law": law, "k": k, "n": n})


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────

#: Mean width of the interval and RMSE of the estimate before (one partition, four maps), on the same 200 samples, 1e-4:
#: Brier and log.
BEFORE: dict[tuple[str, int], tuple[float, float, float, float]] = {
    ("calib", 500): (41.81, 13.65, 125.28, 38.38),
    ("calib", 2000): (10.75, 3.61, 31.85, 10.25),
    ("calib", 20000): (0.98, 0.32, 2.96, 0.84),
    ("c", 500): (46.83, 12.88, 122.21, 33.75),
    ("c", 2000): (13.05, 3.72, 33.39, 8.96),
    ("c", 20000): (1.24, 0.40, 3.11, 1.00),
    ("slope", 2000): (68.41, 15.33, 198.65, 44.59),
    ("a", 2000): (107.74, 25.74, 361.02, 88.56),
}
#: Coverage before, on the same laws: Brier and log.
COVERED_BEFORE: dict[tuple[str, int], tuple[float, float]] = {
    ("calib", 500): (1.0, 1.0),
    ("calib", 2000): (1.0, 1.0),
    ("calib", 20000): (1.0, 1.0),
    ("c", 500): (1.0, 1.0),
    ("c", 2000): (1.0, 1.0),
    ("c", 20000): (1.0, 1.0),
    ("slope", 2000): (0.975, 0.96),
    ("a", 2000): (0.95, 0.95),
    ("rounded", 2000): (1.0, 1.0),
    ("stairs3", 500): (0.935, 0.94),
    ("stairs3", 2000): (0.95, 0.965),
    ("stairs3", 20000): (0.767, 0.817),
    ("d", 500): (0.915, 0.94),
    ("d", 2000): (0.965, 0.965),
    ("d", 20000): (0.833, 0.833),
    ("saw", 500): (0.345, 0.35),
    ("saw", 2000): (0.0, 0.0),
    ("saw", 20000): (0.0, 0.0),
    ("bump", 500): (0.765, 0.8),
    ("bump", 2000): (0.865, 0.865),
    ("bump", 20000): (0.817, 0.783),
    ("wave", 500): (0.86, 0.835),
    ("wave", 2000): (0.855, 0.855),
    ("wave", 20000): (0.967, 0.917),
    ("leaves", 500): (0.67, 0.79),
    ("leaves", 2000): (0.35, 0.49),
    ("leaves", 20000): (0.0, 0.0),
}

_ROUGH = ("stairs3", "d", "saw", "bump", "wave", "leaves")
_NULLS = ("calib", "c")


def _cells_of(book: Book, study: str) -> Iterator[tuple[str, int, Results]]:
    for name, results in book.items():
        kind, *rest = name.split("/")
        if kind == study:
            yield rest[0], int(rest[1]), results


def _line(law: str, n: int, loss: str, quantity: str, results: Results) -> Line:
    return {"scenario": law, "n": n, "loss": loss, "quantity": quantity, "simulations": len(results["failed"])}


def _coverage_bar(law: str, n: int) -> Bar | None:
    if law in _ROUGH:
        return Bar(low=0.86 if n == 20_000 else 0.88) if n >= 2000 else None
    return Bar(low=0.85) if law == "sharp-tail" else Bar(low=0.92) if law == "slope" else None


def coverage(book: Book) -> Section:
    """Bar 8.9.2 and 8.9.6."""
    lines = []
    for law, n, results in _cells_of(book, "rough"):
        for i, loss in enumerate(LOSSES):
            true = truth(law, loss)
            errors = results[f"{loss}.rel"] - true
            for what, end in (("any shape", "high"), ("smooth", "smooth")):
                covered = share(within(results[f"{loss}.low"], results[f"{loss}.{end}"], true))
                width = mean(results[f"{loss}.{end}"] - results[f"{loss}.low"]).value
                line = _line(law, n, loss, what, results)
                line |= {"truth": true, "bias": mean(errors).value, "RMSE": root_mean_square(errors).value}
                line |= {"coverage": covered.value, "width": width}
                before = COVERED_BEFORE.get((law, n))
                line |= {"before": before[i]} if before and what == "any shape" else {}
                lines.append(judged(line, covered, _coverage_bar(law, n) if what == "any shape" else None))
    stories = "; ".join(f"**{law}**: {story}" for law, story in STORIES.items())
    text = f"Nominal 95 %. *Before*: the interval of one partition and four maps on the same laws. {stories}."
    return Section("9. Reliability on rough laws", lines, text)


def widths(book: Book) -> Section:
    """Bar 8.9.3."""
    lines = []
    for law, n, results in _cells_of(book, "rough"):
        if (law, n) not in BEFORE:
            continue
        for i, loss in enumerate(LOSSES):
            width, error = (value * 1e-4 for value in BEFORE[law, n][2 * i : 2 * i + 2])
            rows = (
                ("any shape / before", results[f"{loss}.high"] - results[f"{loss}.low"], width, _width_bar(law, n)),
                ("smooth / before", results[f"{loss}.smooth"] - results[f"{loss}.low"], width, Bar(high=1.08)),
            )
            for what, values, base, bar in rows:
                found = _plain(mean(values / base))
                lines.append(judged(_line(law, n, loss, what, results) | {"ratio": found.value}, found, bar))
            spread = _plain(root_mean_square((results[f"{loss}.rel"] - truth(law, loss)) / error))
            lines.append(
                judged(_line(law, n, loss, "RMSE / before", results) | {"ratio": spread.value}, spread, Bar(high=1.06))
            )
    return Section("10. What that costs on smooth laws", lines, "Widths and errors beside those before.")


def _plain(value: Value) -> Value:
    """A ratio, shown as it is."""
    return Value(value.value, value.error)


def _width_bar(law: str, n: int) -> Bar | None:
    if law in _NULLS:
        return Bar(high=2.2 if n == 20_000 else 1.85)
    return Bar(high=1.1) if law in ("slope", "a") and n == 2000 else None


def sentences(book: Book) -> Section:
    """What a reader is told of the reliability, and how often that is false."""
    lines = []
    for law, n, results in _cells_of(book, "rough"):
        for loss in LOSSES:
            true = truth(law, loss)
            lower, high = results[f"{loss}.lower"], results[f"{loss}.high"]
            least, most = (lower > 0.0) & (lower > true), (lower <= 0.0) & (high < true)
            bar = Bar(high=0.07) if law == "rare" else None
            lines.append(judged(_told(law, n, loss, "“gains at least” is false", least, results), share(least), bar))
            lines.append(
                judged(_told(law, n, loss, "“gains at most … whatever” is false", most, results), share(most), None)
            )
            if f"{loss}.none shown" in results:
                both = results[f"{loss}.none shown"] * results[f"{loss}.rejected"]
                text = "“No miscalibration is shown” beside a test that rejects"
                lines.append(judged(_told(law, n, loss, text, both, results), share(both), Bar(high=0.0)))
                few = share(results[f"{loss}.few"])
                limit = (
                    Bar(low=0.95)
                    if law == "sharp-tail" and loss == "log"
                    else Bar(high=0.02)
                    if law == "slope"
                    else None
                )
                if limit is not None:
                    lines.append(judged(_told(law, n, loss, "note on few rows", few.value, results), few, limit))
    return Section("11. Sentences that are false", lines, "Rates over all samples.")


def _told(law: str, n: int, loss: str, what: str, rate: Any, results: Results) -> Line:
    return _line(law, n, loss, what, results) | {"rate": float(np.mean(rate))}


def folds(book: Book) -> Section:
    """Bar 8.9.1."""
    lines = []
    for law, n, results in _cells_of(book, "seeds"):
        for loss in LOSSES:
            for what, key, bar in (
                ("estimate, sd over 20 seeds / se", "rel", Bar(high=0.15)),
                ("upper end, any shape, sd over 20 seeds / its distance from LD", "high", None),
                ("estimate on permuted rows, change / loss", "permuted", Bar(high=1e-12)),
            ):
                found = _plain(mean(results[f"{loss}.{key}"]))
                lines.append(judged(_line(law, n, loss, what, results) | {"ratio": found.value}, found, bar))
    return Section("12. Folds that do not matter", lines)


def leaks(book: Book) -> Section:
    """Bar 8.9.4 and 8.9.5."""
    lines = []
    for law, n, results in _cells_of(book, "leak"):
        for loss in LOSSES:
            found = share(results[f"{loss}.promised"])
            line = _told(law, n, loss, "grouping is promised, and there is none", found.value, results)
            lines.append(judged(line, found, Bar(high=0.05)))
    for reference, n, results in _cells_of(book, "strong"):
        for loss in LOSSES:
            true = strong_truth(loss)
            said, muted = share(results[f"{loss}.said"]), share(results[f"{loss}.muted"])
            held = share(results[f"{loss}.lower"] <= true)
            line = _line(f"strong, {reference}", n, loss, "bounds are said", results) | {"rate": said.value}
            lines.append(judged(line, said, Bar(low=1.0)))
            line = _line(f"strong, {reference}", n, loss, "the estimate is muted", results) | {"rate": muted.value}
            lines.append(judged(line, muted, Bar(low=0.95) if reference == "lightgbm" else Bar(high=0.05)))
            line = _line(f"strong, {reference}", n, loss, "grouping ≥", results) | {
                "truth": true,
                "coverage": held.value,
            }
            lines.append(judged(line, held, Bar(low=0.94)))
    return Section("13. Promises of a better model", lines)


def of_classes(book: Book) -> Section:
    """Bar 8.9.7."""
    limits = {"jump 3": (0.90, 0.90), "swap 3": (0.75, 0.85), "jump 10": (0.75, 0.50)}
    lines = []
    for law, n, results in _cells_of(book, "classes"):
        name, k = law.split()
        for i, loss in enumerate(LOSSES):
            true = class_truth(name, int(k), loss)
            for what, end in (("any shape", "high"), ("smooth", "smooth")):
                covered = share(within(results[f"{loss}.low"], results[f"{loss}.{end}"], true))
                line = _line(f"{name}, {k} classes", n, loss, what, results)
                line |= {"truth": true, "RMSE": root_mean_square(results[f"{loss}.rel"] - true).value}
                line |= {
                    "coverage": covered.value,
                    "width": mean(results[f"{loss}.{end}"] - results[f"{loss}.low"]).value,
                }
                bar = Bar(low=limits[law][i]) if law in limits and what == "any shape" else None
                lines.append(judged(line, covered, bar))
    return Section("14. Several classes", lines)


def of_differences(book: Book) -> Section:
    """Differences of reliabilities at small n."""
    lines = []
    for pair, n, results in _cells_of(book, "differences"):
        for loss in LOSSES:
            true = difference_truth(pair, loss)
            for what, ends in (("paired, any shape", ""), ("paired, clt", "clt.")):
                low, high = results[f"{loss}.{ends}low"], results[f"{loss}.{ends}high"]
                covered = share(within(low, high, true))
                line = _line(pair, n, loss, what, results) | {"truth": true, "coverage": covered.value}
                line |= {"width": mean(high - low).value}
                lines.append(judged(line, covered, None if ends else Bar(low=0.93)))
    return Section("15. Two scores on the same rows", lines)


SECTIONS: tuple[Callable[[Book], Section], ...] = (
    coverage, widths, sentences, folds, leaks, of_classes, of_differences,
)  # fmt: skip
