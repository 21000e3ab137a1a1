"""``python -m benchmarks.pipeline_bootstrap [coverage|all|copies|leak|shift|speed] [simulations]``: what pipeline_bootstrap's intervals cover.

Law: appendix D of the paper, ρ = 0; scenarios b (overconfident) and c (calibrated) of STATISTICS.md, 500 rows in each
split, 99 replicates. Scores are functions of X₁ alone, so C = E[Q | X₁] is known and the targets are sums over a fine
grid. Printed as Markdown; docs/pipelines.md holds the tables.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from scoreprism import decompose, get_loss
from scoreprism.datasets import CopulaLaw
from scoreprism.pipelines import pipeline_bootstrap
from scoreprism.pipelines._bootstrap import METHODS

N, REPLICATES, SEED = 500, 99, 6
LOSSES = ("brier", "log")
LAW = CopulaLaw(0.0)
#: Midpoints of X₁, and C there.
GRID = (np.arange(2000) + 0.5) / 2000
C_GRID = np.array([LAW.q(np.column_stack([np.full(400, x), (np.arange(400) + 0.5) / 400])).mean() for x in GRID])


def calibrated(x):
    return np.interp(x, GRID, C_GRID)


def bold(logit):
    return expit(1.25 * logit + 0.1)


def fixed_b(x):
    return bold(-1.5436 + 3.1505 * x)


class Fixed(ClassifierMixin, BaseEstimator):
    """A classifier that is what it is."""

    def __init__(self, score=None):
        self.score = score
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        s = self.score(X[:, 0])
        return np.column_stack([1 - s, s])


class Logistic(ClassifierMixin, BaseEstimator):
    """Logistic regression on X₁, made overconfident in scenario b."""

    def __init__(self, scenario="b"):
        self.scenario = scenario

    def fit(self, X, y):
        self.fit_ = LogisticRegression(C=np.inf).fit(X[:, :1], y)
        self.classes_ = self.fit_.classes_
        return self

    def score(self, x):
        logit = self.fit_.intercept_[0] + self.fit_.coef_[0, 0] * x
        return bold(logit) if self.scenario == "b" else expit(logit)

    def predict_proba(self, X):
        s = self.score(X[:, 0])
        return np.column_stack([1 - s, s])


def truth(score, loss):
    """Population reliability, refinement and loss of a score that is a strictly monotone function of X₁."""
    loss = get_loss(loss)
    s = score(GRID)
    reliability, refinement = loss.divergence(s, C_GRID).mean(), loss.entropy(C_GRID).mean()
    return {"reliability": reliability, "refinement": refinement, "loss": reliability + refinement}


def truth_here(score, sample, loss):
    """The same terms over these test rows, by the law that infinitely many calibration rows would give."""
    loss, x = get_loss(loss), sample.X[:, 0]
    raw, best = loss.evaluate(score(x), sample.y), loss.evaluate(calibrated(x), sample.y)
    return {"reliability": (raw - best).mean(), "refinement": best.mean(), "loss": raw.mean()}


def parts(rng):
    return [LAW.sample(N, random_state=rng) for _ in range(3)]


def simulate(scenario, calibrator, refit, count):
    """Results and targets of each simulation: (result, target population, target of these rows, of this model)."""
    found = []
    for rng in map(np.random.default_rng, np.random.SeedSequence(SEED).spawn(count)):
        train, calibration, test = parts(rng)
        splits = [(s.X, s.y) for s in (train, calibration, test)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if refit == "all":
                model = Logistic(scenario)
                score = Logistic(scenario).fit(*splits[0]).score
            else:
                score = fixed_b if scenario == "b" else calibrated
                model, splits[0] = Fixed(score), None
            options = {"refit": refit, "n_resamples": REPLICATES, "loss": LOSSES, "random_state": rng}
            results = pipeline_bootstrap(model, *splits, calibrator=calibrator, **options)
        for loss in LOSSES:
            found.append((loss, results.for_loss(loss), truth(score, loss), truth_here(score, test, loss)))
    return found


def covered(results, name, method, targets):
    """Share of intervals that hold their target, and mean width in 1e-4."""
    known = [r.interval(name, method=method) for r in results]
    inside = [one.low <= t <= one.high for one, t in zip(known, targets, strict=True)]
    return f"{np.mean(inside):.2f} ({1e4 * np.mean([one.high - one.low for one in known]):.0f})"


def table(title, rows):
    print(
        f"\n{title}\n\n| scenario, calibrator, loss, term | {' | '.join(METHODS)} | shift |\n|---|{'---|' * (len(METHODS) + 1)}"
    )
    for name, cells in rows:
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def coverage(count, refit):
    start = time.time()
    whole, here, mean = [], [], []
    for scenario in "bc":
        for calibrator in ("platt", "isotonic"):
            found = simulate(scenario, calibrator, refit, count)
            for loss in LOSSES:
                mine = [f for f in found if f[0] == loss]
                results = [r for _, r, _, _ in mine]
                fixed = [replace(r, resample_test=False) for r in results]
                average = {key: np.mean([t[key] for _, _, t, _ in mine]) for key in mine[0][2]}
                average["gain"] = np.mean([r.terms["gain"] for r in results])
                for name in ("reliability", "refinement", "loss", "gain"):
                    label = f"{scenario}, {calibrator}, {loss}, {name}"
                    shift = f"{np.mean([r.shift[name] for r in results]):+.2f}"
                    to = [average[name]] * len(results)
                    mean.append((label, [*(covered(results, name, m, to) for m in METHODS), shift]))
                    if name != "gain":
                        to = [t[name] for _, _, t, _ in mine]
                        whole.append((label, [*(covered(results, name, m, to) for m in METHODS), shift]))
                    if name in ("reliability", "refinement"):
                        to = [h[name] for _, _, _, h in mine]
                        shift = f"{np.mean([r.shift[name] for r in fixed]):+.2f}"
                        here.append((label, [*(covered(fixed, name, m, to) for m in METHODS), shift]))
    print(f"\n# refit={refit!r}: {count} simulations, {REPLICATES} replicates, {time.time() - start:.0f} s")
    table("Target: the population terms of this classifier; test rows resampled", whole)
    if refit == "all":
        table("Target: the mean of the population terms over training draws; test rows resampled", mean)
    else:
        table("Target: the gain of recalibrating with 500 rows", [row for row in mean if row[0].endswith("gain")])
        table("Target: the terms over these test rows with an infinite calibration split; test rows fixed", here)


def copies(count):
    """What happens when copies of a row may stand in different blocks of the delete-block refits."""
    ours, naive, spreads = [], [], []
    for rng in map(np.random.default_rng, np.random.SeedSequence(SEED).spawn(count)):
        _, calibration, test = parts(rng)
        s, t = fixed_b(calibration.X[:, 0]), fixed_b(test.X[:, 0])
        result = pipeline_bootstrap(
            Fixed(fixed_b), None, (calibration.X, calibration.y), (test.X, test.y), calibrator="isotonic",
            n_resamples=50, loss="brier", resample_test=False, random_state=rng,
        )  # fmt: skip
        fixed = replace(result, resample_test=False)
        ours.append(fixed.replicates[:, 0].mean() - fixed.terms["reliability"])
        drawn = []
        for _ in range(50):
            rows = rng.integers(0, N, N)
            again = decompose(
                test.y, t, loss="brier", calibrator="isotonic", calibration=(s[rows], calibration.y[rows])
            )
            drawn.append((again.terms["reliability"], again.level_spreads[:, 1].mean()))
        naive.append(np.mean([d[0] for d in drawn]) - fixed.terms["reliability"])
        spreads.append((result._original[2], fixed._values[:, 0, 2].mean(), np.mean([d[1] for d in drawn])))
    error = [np.std(v) / np.sqrt(count) for v in (ours, naive)]
    print(f"shift of the replicates, Brier, 1e-4: copies together {1e4 * np.mean(ours):+.1f} ± {1e4 * error[0]:.1f}, ")
    print(f"spread over blocks {1e4 * np.mean(naive):+.1f} ± {1e4 * error[1]:.1f}")
    print(
        "spread V, 1e-4: sample, replicates, replicates with copies in several blocks:", 1e4 * np.mean(spreads, axis=0)
    )


def leak(count):
    """Depth that a search with inner folds chooses: on the sample, on repeated rows, on counts as weights."""
    depths, losses = [], []
    for rng in map(np.random.default_rng, np.random.SeedSequence(SEED).spawn(count)):
        train, test = LAW.sample(N, random_state=rng), LAW.sample(4000, random_state=rng)
        rows = rng.integers(0, N, N)
        counts = np.bincount(rows, minlength=N)
        held = np.flatnonzero(counts)
        search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 4, 6, 8, 12, 16]})
        found = []
        for X, y, w in (
            (train.X, train.y, None),
            (train.X[rows], train.y[rows], None),
            (train.X[held], train.y[held], counts[held]),
        ):
            fitted = search.fit(X, y, **({} if w is None else {"sample_weight": w}))
            brier = ((fitted.predict_proba(test.X)[:, 1] - test.y) ** 2).mean()
            found.append((fitted.best_params_["max_depth"], brier))
        depths.append([f[0] for f in found])
        losses.append([f[1] for f in found])
    print("sample, repeated rows, counts as weights")
    print(
        "depth chosen", np.mean(depths, axis=0).round(2), "Brier of the chosen tree", np.mean(losses, axis=0).round(4)
    )


def shift(count):
    """Where flexible classifiers trained on repeated rows stand beside the one trained on the sample."""
    forest, tree = RandomForestClassifier(30, min_samples_leaf=5), DecisionTreeClassifier(min_samples_leaf=5)
    for model in (LogisticRegression(), forest, tree, HistGradientBoostingClassifier(max_iter=30)):
        found = []
        for rng in map(np.random.default_rng, np.random.SeedSequence(SEED).spawn(count)):
            splits = [(s.X, s.y) for s in parts(rng)]
            options = {"refit": "all", "n_resamples": 30, "loss": "brier", "random_state": rng}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = pipeline_bootstrap(model, *splits, calibrator="platt", **options)
            mean = result.replicates[:, 0].mean()
            found.append((1e4 * result.terms["reliability"], 1e4 * mean, result.shift["reliability"]))
        print(type(model).__name__, "reliability (1e-4), mean of replicates, shift:", np.mean(found, axis=0).round(1))


def speed(_):
    """Processor time per replicate at 10⁴ rows in each split."""
    rng = np.random.default_rng(SEED)
    splits = [(s.X, s.y) for s in (LAW.sample(10**4, random_state=rng) for _ in range(3))]
    for refit in ("calibrator", "all"):
        for calibrator in ("platt", "isotonic", "auto"):
            times = []
            for count in (2, 12):
                start = time.process_time()
                pipeline_bootstrap(
                    Logistic(), *splits, calibrator=calibrator, refit=refit, n_resamples=count, random_state=0
                )
                times.append(time.process_time() - start)
            print(f"refit={refit!r}, {calibrator}: {1e3 * (times[1] - times[0]) / 10:.0f} ms per replicate")


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else "coverage"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    if what in ("coverage", "all"):
        coverage(count, "calibrator" if what == "coverage" else "all")
    else:
        {"copies": copies, "leak": leak, "shift": shift, "speed": speed}[what](count)


if __name__ == "__main__":
    main()
