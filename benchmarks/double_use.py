"""
The double-use guard: which models are found on their training rows, and how often honest ones are accused.

``python -m benchmarks.double_use [--quick]`` prints the tables of docs/decompose.md: models judged on their training
rows, as they are, shuffled, a half of them, or among as many others; honest models that were trained on as many rows,
10 and 100 times more, under four laws of the rows, or on rows alike by design; and the time of the check beside that of `predict_proba`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable

import lightgbm
import numpy as np
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from scoreprism._double_use import find_training_rows

#: Kinds of models, of defaults but for the number of trees, of which three are looked at; and how many rows judge an
#: honest one, so that it can be trained on 100 times more.
KINDS: dict[str, tuple[Callable[[int], object], int]] = {
    "DecisionTree": (lambda seed: DecisionTreeClassifier(random_state=seed), 200),
    "RandomForest": (lambda seed: RandomForestClassifier(5, random_state=seed), 200),
    "RandomForest, 20 rows a leaf": (lambda seed: RandomForestClassifier(5, min_samples_leaf=20, random_state=seed), 200),
    "ExtraTrees": (lambda seed: ExtraTreesClassifier(5, random_state=seed), 200),
    "GradientBoosting": (lambda seed: GradientBoostingClassifier(n_estimators=10, random_state=seed), 200),
    "HistGradientBoosting": (lambda seed: HistGradientBoostingClassifier(max_iter=10, random_state=seed), 200),
    "AdaBoost": (lambda seed: AdaBoostClassifier(n_estimators=10, random_state=seed), 200),
    "Bagging": (lambda seed: BaggingClassifier(n_estimators=5, random_state=seed), 200),
    "kNN": (lambda seed: KNeighborsClassifier(), 200),  # noqa: ARG005
    "GaussianNB": (lambda seed: GaussianNB(), 200),  # noqa: ARG005
    "LogisticRegression": (lambda seed: LogisticRegression(), 200),  # noqa: ARG005
    "CalibratedClassifierCV(SVC)": (lambda seed: CalibratedClassifierCV(SVC()), 50),  # noqa: ARG005
    "MLP": (lambda seed: MLPClassifier(random_state=seed), 200),
    "GaussianProcess": (lambda seed: GaussianProcessClassifier(optimizer=None), 20),  # noqa: ARG005
    "LightGBM": (lambda seed: lightgbm.LGBMClassifier(n_estimators=10, random_state=seed, verbose=-1, n_jobs=1), 200),
    "XGBoost": (lambda seed: xgboost.XGBClassifier(n_estimators=10, random_state=seed, n_jobs=1), 200),
    "scaled MLP": (lambda seed: make_pipeline(StandardScaler(), MLPClassifier((10,), max_iter=20, random_state=seed)), 200),
    "GridSearchCV(RandomForest)": (lambda seed: GridSearchCV(RandomForestClassifier(3, random_state=seed), {}, cv=2), 200),
    "Voting": (lambda seed: VotingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier())], voting="soft"), 200),  # noqa: ARG005
    "Stacking": (lambda seed: StackingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier())], cv=2), 200),  # noqa: ARG005
}  # fmt: skip
#: On more rows a network is stopped early, or the table would take an hour.
SLOW = {"MLP": lambda seed: MLPClassifier((20,), max_iter=10, random_state=seed)}


def _score(X: np.ndarray) -> np.ndarray:
    return X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]


def continuous(n: int, rng: np.random.Generator):
    """Eight normal features."""
    X = rng.normal(size=(n, 8))
    return X, (rng.random(n) < 1 / (1 + np.exp(-_score(X)))).astype(int)


def rounded(n: int, rng: np.random.Generator):
    """Four features rounded to whole numbers: many rows occur in training and in the test."""
    X = np.round(rng.normal(size=(n, 4)))
    return X, (rng.random(n) < 1 / (1 + np.exp(-_score(X)))).astype(int)


def binary(n: int, rng: np.random.Generator):
    """Five features of two values: 32 different rows."""
    X = (rng.random((n, 5)) < 0.4).astype(float)
    return X, (rng.random(n) < 1 / (1 + np.exp(1.5 - 2 * _score(X)))).astype(int)


def certain(n: int, rng: np.random.Generator):
    """Outcomes without noise."""
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


LAWS = (continuous, rounded, binary, certain)
RELATIONS = ("the training rows", "shuffled", "half of them", "with as many others")


def related(X, y, law, rng):
    """The rows that a model is judged on, by what they have to do with those it was trained on."""
    n = len(y)
    order = rng.permutation(n)
    other = law(n, rng)
    yield RELATIONS[0], X, y
    yield RELATIONS[1], X[order], y[order]
    yield RELATIONS[2], X[order[: n // 2]], y[order[: n // 2]]
    yield RELATIONS[3], np.concatenate([X, other[0]]), np.concatenate([y, other[1]])


def verdict(model, X, y) -> int:
    """0 nothing, 1 a caution, 2 seen."""
    found = find_training_rows(model, X, y)
    return 0 if found is None else 1 + found.certain


def found_rates(rows: int, runs: int) -> None:
    """Models on their training rows."""
    print(f"Seen (cautioned) in {runs} fits to {rows} rows of the continuous law, in percent:\n")
    print("| model |", " | ".join(RELATIONS), "|\n|---|", "---|" * len(RELATIONS), sep="")
    for name, (make, size) in KINDS.items():
        counts = {relation: np.zeros(3, dtype=int) for relation in RELATIONS}
        n = rows if size == 200 else 300
        for seed in range(runs):
            rng = np.random.default_rng([seed, 1])
            X, y = continuous(n, rng)
            model = make(seed).fit(X, y)
            for relation, Z, z in related(X, y, continuous, rng):
                counts[relation][verdict(model, Z, z)] += 1
        cells = [f"{100 * c[2] / runs:.0f}" + (f" ({100 * c[1] / runs:.0f})" if c[1] else "") for c in counts.values()]
        print(f"| {name}{'' if n == rows else f', {n} rows'} |", " | ".join(cells), "|", flush=True)


def honest_rates(fits: int, samples: int) -> None:
    """Honest models: on samples of other rows than those they were trained on."""
    print(f"\nHonest models accused (cautioned), each on {samples} samples of other rows:\n")
    print("| trained on |", " | ".join(law.__name__ for law in LAWS), "| fits | judgements |", flush=True)
    print("|---|", "---|" * (len(LAWS) + 2), sep="", flush=True)
    for factor, repeats in ((1, fits), (10, max(1, fits // 2)), (100, max(1, fits // 4))):
        cells, trained, judged = [], 0, 0
        for law in LAWS:
            counts = np.zeros(3, dtype=int)
            for name, (make, n) in KINDS.items():
                made = SLOW.get(name, make) if factor > 1 else make
                for seed in range(repeats):
                    rng = np.random.default_rng([seed, factor, 2])
                    X, y = law(factor * n, rng)
                    if min(np.bincount(y, minlength=2)) < 5:
                        continue
                    model = made(seed).fit(X, y)
                    trained += 1
                    for _ in range(samples):
                        Z, z = law(n, rng)
                        got = verdict(model, Z, z)
                        counts[got] += 1
                        if got:
                            print(f"  {name}, {law.__name__}, × {factor}: {got}", file=sys.stderr, flush=True)
            judged += counts.sum()
            cells.append(f"{counts[2]} ({counts[1]})")
        print(f"| {factor} × the rows |", " | ".join(cells), f"| {trained} | {judged:,} |", flush=True)


def designs(rng: np.random.Generator):
    """Honest samples that are more alike than independent ones: training rows and test rows, by name."""
    grid, X = np.linspace(0.0, 10.0, 800), rng.normal(size=(800, 4))
    for name, t in (("every second row of a series", np.sort(rng.uniform(0.0, 10.0, 800))), ("of a grid", grid)):
        law = 1 / (1 + np.exp(-3.0 * np.sin(t)))
        table = np.column_stack([t, np.sin(t)])
        for noise, y in (("", (rng.random(800) < law).astype(int)), (", no noise", (law > 0.5).astype(int))):
            yield name + noise, table[::2], y[::2], table[1::2], y[1::2]
    y = (rng.random(800) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    half = train_test_split(np.arange(800), test_size=0.5, stratify=y, random_state=0)
    yield "stratified halves", X[half[0]], y[half[0]], X[half[1]], y[half[1]]
    B = (X > 0).astype(float)
    yield "stratified halves of 16 values", B[half[0]], y[half[0]], B[half[1]], y[half[1]]
    twice = X[:400]
    fresh = [(rng.random(400) < 1 / (1 + np.exp(-twice[:, 0]))).astype(int) for _ in range(2)]
    yield "the same features, outcomes drawn anew", twice, fresh[0], twice, fresh[1]


def designed_rates(runs: int) -> None:
    """Honest models on rows that are not independent of those they were trained on."""
    print(f"\nHonest models accused (cautioned) on rows like those of training by design, {runs} fits of each kind:\n")
    found: dict[str, tuple[np.ndarray, set[str]]] = {}
    for seed in range(runs):
        for case, X, y, Z, z in designs(np.random.default_rng([seed, 3])):
            counts, named = found.setdefault(case, (np.zeros(3, dtype=int), set()))
            for name, (make, size) in KINDS.items():
                some = slice(None, None, 1 if size == 200 else 4)
                got = verdict(make(seed).fit(X[some], y[some]), Z[some], z[some])
                counts[got] += 1
                if got == 2:
                    named.add(name)
    print("| rows | accused (cautioned) | fits | who |\n|---|---|---|---|")
    for case, (counts, named) in found.items():
        print(
            f"| {case} | {counts[2]} ({counts[1]}) | {counts.sum()} | {', '.join(sorted(named)) or '–'} |", flush=True
        )


def speed(rows: int) -> None:
    """The time of the check beside that of predict_proba."""
    print(f"\nSeconds on {rows:,} other rows, the best of five (models fitted to 2,000):\n")
    print("| model | predict_proba | check | ratio |\n|---|---|---|---|")
    rng = np.random.default_rng(0)
    X, y = continuous(2000, rng)
    Z, z = continuous(rows, rng)
    for name, (make, size) in KINDS.items():
        model = make(0).fit(X[:300], y[:300]) if size < 200 else make(0).fit(X, y)
        times = np.zeros((5, 2))
        for i in range(5):
            start = time.perf_counter()
            model.predict_proba(Z)
            middle = time.perf_counter()
            find_training_rows(model, Z, z)
            times[i] = middle - start, time.perf_counter() - middle
        a, b = times.min(axis=0)
        print(f"| {name} | {a:.4f} | {b:.4f} | {b / a:.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("part", nargs="?", choices=("found", "honest", "designs", "speed"))
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.part in (None, "found"):
        found_rates(2000, 2 if asked.quick else 10)
    if asked.part in (None, "honest"):
        honest_rates(*((2, 10) if asked.quick else (4, 25)))
    if asked.part in (None, "designs"):
        designed_rates(1 if asked.quick else 3)
    if asked.part in (None, "speed"):
        speed(10_000)


if __name__ == "__main__":
    main()
