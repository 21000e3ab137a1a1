"""Stages: gains along a filtration with known laws, speed, and stage selection on fresh test rows.

`python -m benchmarks.stages` prints the tables of docs/stages.md; `gains`, `selection`, `speed` or `small`
one of them, `figures` the figures.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from scoreprism._core.simplex import clip_law
from scoreprism._sample.staged_models import attach_outcomes, read_stages
from scoreprism.ensembles import select_stage, stagewise_decomposition
from scoreprism.ensembles._stage_selection import RULES, Curves, Folds, parse_map
from scoreprism.losses import get_loss

# ── a filtration whose laws are known ───────────────────────────────────────────────────────────────────

#: Variances of the increments Z_t and of the noise in Y = 1{Z_1 + … + Z_T + noise > 0}.
VARIANCES, NOISE = np.array([0.3, 0.25, 0.2, 0.15, 0.1, 0.08]), 0.4


def gaussian_filtration(n: int, seed: int, bold: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Stages S_t = σ(bold · logit Q_t) with Q_t = Φ(Σ_{s≤t} Z_s / √(remaining variance)), and outcomes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, VARIANCES.size)) * np.sqrt(VARIANCES)
    y = z.sum(axis=1) + rng.normal(size=n) * np.sqrt(NOISE) > 0
    known = np.cumsum(VARIANCES)
    u = np.cumsum(z, axis=1) / np.sqrt(VARIANCES.sum() + NOISE - known)
    logit = np.log(ndtr(u)) - np.log(ndtr(-u))
    return expit(bold * logit), y.astype(int)


def exact_terms(loss: str) -> np.ndarray:
    """Gains E d(Q_t, Q_{t+1}) and the remaining loss, by Gauss–Hermite quadrature of the entropies."""
    x, w = np.polynomial.hermite_e.hermegauss(200)
    known = np.cumsum(VARIANCES)
    q = ndtr(x * np.sqrt(known / (VARIANCES.sum() + NOISE - known))[:, None])
    left = get_loss(loss).entropy(q.ravel()).reshape(q.shape) @ (w / w.sum())
    return np.append(left[:-1] - left[1:], left[-1])


def gains(seeds: int = 50, n: int = 2000) -> None:
    """Bias and RMSE of every increment, over seeds."""
    print(f"gains along the Gaussian filtration, n={n}, {seeds} seeds, units 1e-4")
    for loss in ("log", "brier"):
        truth, found, errors, inside, gaps = exact_terms(loss), [], [], [], []
        for seed in range(seeds):
            scores, y = gaussian_filtration(n, seed)
            result = stagewise_decomposition(y, list(scores.T), loss=loss, random_state=seed)
            d = result.decomposition
            found.append(list(d.terms.values())[1:])
            errors.append(list(d.std_error.values())[1:])
            gaps.append([one.value / one.std_error for one in result.checks.get("gap", ())])
            ends = [d.interval(name) for name in d.names[1:]]
            inside.append([end.low <= t <= end.high for end, t in zip(ends, truth, strict=True)])
        off = np.array(found) - truth
        table = {
            "truth": truth, "bias": off.mean(axis=0), "its se": off.std(axis=0) / np.sqrt(seeds),
            "rmse": np.sqrt((off**2).mean(axis=0)), "mean se": np.mean(errors, axis=0),
        }  # fmt: skip
        for name, line in table.items():
            print(f"  {loss:5} {name:8}", " ".join(f"{1e4 * v:8.1f}" for v in line))
        within = (np.abs(off) < 3 * np.array(errors)).mean(axis=0)
        print(f"  {loss:5} within 3 se", " ".join(f"{v:.2f}" for v in within))
        print(f"  {loss:5} covered   ", " ".join(f"{v:.2f}" for v in np.mean(inside, axis=0)))
        if loss == "brier":
            z = np.array(gaps)
            print(f"  {loss:5} Doob gap in se: mean", z.mean(axis=0).round(2), "sd", z.std(axis=0).round(2))


def idle(seeds: int = 20, n: int = 2000, steps: int = 12) -> None:
    """Twelve stages of which only the first says anything: gains should be 0, and so should their sum."""
    found, errors = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        z = 1.5 * rng.normal(size=n)
        y = (rng.random(n) < expit(z)).astype(int)
        noise = np.cumsum(0.3 * rng.normal(size=(n, steps - 1)), axis=1)
        stages = [expit(z), *expit(z[:, None] + noise).T]
        result = stagewise_decomposition(y, stages, calibrator="platt", random_state=seed)
        found.append(list(result.gains.values()))
        errors.append(list(result.std_error.values())[1:-1])
    table = 1e4 * np.array(found)
    print(f"gains of {steps - 1} idle stages, log loss, n={n}, {seeds} seeds, units 1e-4")
    print(
        "  mean",
        table.mean(axis=0).round(1),
        "sd",
        table.std(axis=0).round(1),
        "mean se",
        (1e4 * np.mean(errors, axis=0)).round(1),
    )
    print(f"  their sum {table.sum(axis=1).mean():.1f} ± {table.sum(axis=1).std() / np.sqrt(seeds):.1f}")


# ── selection ───────────────────────────────────────────────────────────────────────────────────────────


class Split(NamedTuple):
    """Training, validation and test rows."""

    train: tuple[np.ndarray, np.ndarray]
    valid: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def _cut(X: Any, y: np.ndarray, sizes: tuple[int, int], seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(y))
    parts = np.split(order, np.cumsum(sizes))
    parts[2] = parts[2][:4000]
    return Split(*((X[rows], y[rows]) for rows in parts))


def _german(seed: int) -> Split:
    from scoreprism.datasets import load_german_credit

    X, y, _ = load_german_credit()
    return _cut(np.column_stack([_numbers(X[name]) for name in X.columns]), y, (500, 250), seed)


def _numbers(column: Any) -> np.ndarray:
    values = np.asarray(column)
    if values.dtype.kind in "OUS":
        return np.unique(values.astype(str), return_inverse=True)[1].astype(float)
    return values.astype(float)


def _hastie(seed: int) -> Split:
    from sklearn.datasets import make_hastie_10_2

    X, y = make_hastie_10_2(12_000, random_state=seed)
    return _cut(X, (y > 0).astype(int), (2000, 1000), seed)


def _clusters(seed: int) -> Split:
    from sklearn.datasets import make_classification

    X, y = make_classification(12_000, 20, n_informative=8, n_clusters_per_class=4, flip_y=0.1, random_state=seed)
    return _cut(X, y, (1500, 750), seed)


def _copula(seed: int) -> Split:
    from scoreprism.datasets import CopulaLaw

    X, y, _ = CopulaLaw().sample(12_000, random_state=seed)
    return _cut(np.asarray(X), np.asarray(y), (1500, 750), seed)


def _digits(seed: int) -> Split:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _cut(X, y, (900, 450), seed)


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=150, learning_rate=0.5, max_depth=6, random_state=seed, n_jobs=1)


def _lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=150, learning_rate=0.3, num_leaves=31, random_state=seed, n_jobs=1, verbose=-1)


def _scikit(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=150, learning_rate=0.5, early_stopping=False, random_state=seed)


DATA: dict[str, Callable[[int], Split]] = {
    "german credit": _german, "hastie": _hastie, "clusters": _clusters, "copula law": _copula, "digits": _digits,
}  # fmt: skip
LEARNERS: dict[str, Callable[[int], Any]] = {"xgboost": _xgboost, "lightgbm": _lightgbm, "scikit-learn": _scikit}


def one_split(model: Any, split: Split, seed: int) -> dict[str, float]:
    """Test losses: of each rule's choice recalibrated, of the raw choice recalibrated and as it is; and the stages."""
    fitted = model.fit(*split.train)
    valid = attach_outcomes(read_stages(fitted, split.valid[0]), split.valid[1])
    sample, k = valid.sample, valid.sample.k
    test = attach_outcomes(read_stages(fitted, split.test[0]), split.test[1], classes=np.arange(k))
    codes = test.sample.y
    loss, learner, folds = get_loss("log"), parse_map("fast", k), Folds.of(sample, valid.laws[0], 5, seed)
    raw = np.stack([loss.loss(law, sample.y) for law in valid.laws])
    after = np.stack([loss.loss(folds.recalibrate(law, learner), sample.y) for law in valid.laws])
    curves = Curves(folds, raw, after)  # what select_stage chooses by

    def judged(t: int) -> float:
        law = learner.fit(replace(folds.rows, score=valid.laws[t]))(test.laws[t])
        return float(loss.loss(law, codes).mean())

    least = curves.least(raw)
    plain = clip_law(test.laws[least], 1e-15)
    out = {
        "raw": float(loss.loss(plain, codes).mean()),
        "raw, recalibrated": judged(least),
        "raw stage": least + 1.0,
    }
    for rule in RULES:
        t = curves.choose(after, rule)
        out |= {rule: judged(t), f"{rule} stage": t + 1.0}
    return out


def selection(seeds: int = 20, only: str | None = None) -> None:
    """Mean test log loss by choice of the stage, and paired differences."""
    print(f"test log loss, mean over {seeds} splits; below: raw choice minus ours, both recalibrated, 1e-4 ± se")
    for data, make_data in DATA.items():
        for learner, make in LEARNERS.items():
            if only not in (None, data):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lines = [one_split(make(seed), make_data(seed), seed) for seed in range(seeds)]
            mean = {key: float(np.mean([line[key] for line in lines])) for key in lines[0]}
            words = [f"{key} {value:.0f}" if "stage" in key else f"{key} {value:.4f}" for key, value in mean.items()]
            print(f"  {data:14} {learner:12}", "; ".join(words))
            for rival in ("raw, recalibrated", "raw"):
                gaps = {rule: 1e4 * np.array([line[rival] - line[rule] for line in lines]) for rule in RULES}
                found = [f"{k} {v.mean():+.1f} ± {v.std(ddof=1) / np.sqrt(seeds):.1f}" for k, v in gaps.items()]
                print(f"      {rival} −", "; ".join(found), flush=True)


# ── speed ───────────────────────────────────────────────────────────────────────────────────────────────


def speed() -> None:
    """Seconds for 500 stages on 10 000 rows."""
    from sklearn.datasets import make_hastie_10_2

    X, y = make_hastie_10_2(14_000, random_state=0)
    y = (y > 0).astype(int)
    for name, make in LEARNERS.items():
        key = "max_iter" if name == "scikit-learn" else "n_estimators"
        model = make(0).set_params(**{key: 500}).fit(X[:4000], y[:4000])
        start = time.perf_counter()
        stages = read_stages(model, X[4000:])
        print(f"  {name}: reading 500 stages of 10 000 rows {time.perf_counter() - start:.2f} s")
    scores = {t: law.values for t, law in zip(stages.numbers.tolist(), stages.laws, strict=True)}
    for what, call in {"select_stage": select_stage, "stagewise_decomposition": stagewise_decomposition}.items():
        start = time.perf_counter()
        call(scores, y[4000:], random_state=0)
        print(f"  {what}: {time.perf_counter() - start:.1f} s")


def small(runs: int = 20) -> None:
    """The refined booster on small data, where nothing is overstated, and on a booster that learns fast."""
    from sklearn.datasets import make_hastie_10_2
    from sklearn.ensemble import HistGradientBoostingClassifier
    from xgboost import XGBClassifier

    def probit(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 4000, 5))
        return X, (X[:, 0] + rng.normal(size=n + 4000) > 0).astype(int)

    def hastie(n, seed):
        X, y = make_hastie_10_2(n + 4000, random_state=seed)
        return X, (y > 0).astype(int)

    slow = XGBClassifier(n_estimators=30, learning_rate=0.1, max_depth=3, n_jobs=1)
    fast = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.5, early_stopping=False, random_state=0)
    print("| n | all rows | all rounds | always a map | refined | refit | maps kept |\n|---|---|---|---|---|---|---|")
    for draw, booster, sizes, count in (
        (probit, slow, (60, 100, 200, 400), runs),
        (hastie, fast, (300, 600, 1500), min(runs, 6)),
    ):
        for n in sizes:
            found = np.array([_small(draw(n, seed), n, booster, seed) for seed in range(1000, 1000 + count)])
            cells = " | ".join(
                f"{m:.3f} ({w:.2f})" for m, w in zip(found[:, :-1].mean(0), found[:, :-1].max(0), strict=True)
            )
            print(f"| {n} | {cells} | {found[:, -1].sum():.0f} of {count} |", flush=True)


def _small(rows, n, booster, seed) -> list[float]:
    """Log losses on fresh rows, and whether the map was kept."""
    from sklearn.base import clone
    from sklearn.metrics import log_loss

    from scoreprism.calibrators import PlattCalibrator
    from scoreprism.ensembles import RefinedBoostingClassifier
    from scoreprism.ensembles._refined_boosting import split_rows

    X, y = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = RefinedBoostingClassifier(booster, random_state=seed).fit(X[:n], y[:n])
        again = RefinedBoostingClassifier(booster, random_state=seed, refit=True).fit(X[:n], y[:n])
        held = split_rows(y[:n], 0.2, int(np.random.default_rng(seed).integers(2**31)))[1]
        laws = [law.values for law in read_stages(ours.estimator_, X[n:]).laws]
        stage = int(ours.selection_.stage) - 1
        score = read_stages(ours.estimator_, X[held]).laws[stage].values
        mapped = PlattCalibrator().fit(score, y[held]).predict_proba(laws[stage])
        whole = clone(booster).fit(X[:n], y[:n]).predict_proba(X[n:])
    fitted = (whole, laws[-1], mapped, ours.predict_proba(X[n:]), again.predict_proba(X[n:]))
    return [*(log_loss(y[n:], law) for law in fitted), float(ours.recalibrated_)]


def figures(folder: str = "docs/figures") -> None:
    """The figures of docs/stages.md."""
    import matplotlib as mpl

    mpl.use("Agg")
    split = _hastie(0)
    model = _scikit(0).fit(*split.train)
    rows = {"X": split.test[0], "y_true": split.test[1], "random_state": 0}
    stagewise_decomposition(stages=model, **rows).plot().figure_.savefig(f"{folder}/stages.png", dpi=130)
    select_stage(stages=model, **rows).plot().figure_.savefig(f"{folder}/stage-selection.png", dpi=130)


if __name__ == "__main__":
    asked = sys.argv[1:2] or ["all"]
    if asked[0] in ("gains", "all"):
        gains()
        idle()
    if asked[0] in ("selection", "all"):
        selection(*(int(v) for v in sys.argv[2:3]), *sys.argv[3:4])
    if asked[0] in ("speed", "all"):
        speed()
    if asked[0] in ("small", "all"):
        small(*(int(v) for v in sys.argv[2:3]))
    if asked[0] == "figures":
        figures()
