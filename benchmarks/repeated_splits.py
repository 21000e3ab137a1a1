"""``python -m benchmarks.repeated_splits {german,size,double} [--quick] [--save FOLDER]``: the paper's German credit protocol, and the size of tests.

german: 100 splits of 600/200/200 rows (permutations of seeds 0 to 99), logistic regression and random forest, their
average and stack, textbook isotonic calibrator, everything clipped at 1e-6: the table of appendix D beside the paper's,
with and without independent halves. size: two methods that are exchangeable by construction, compared over overlapping
splits of the same rows, again and again on fresh rows: how often each test rejects. double: what double use does to
the debiased reliability of a stack. docs/splits.md has the tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from reproduction import PLANS, Work
from reproduction.german import compare_methods, judge_number
from reproduction.members import APART, SAME, expit, run_protocol
from reproduction.statements import select
from scoreprism.calibrators import PlattCalibrator
from scoreprism.ensembles import Stacking
from scoreprism.pipelines import paired_comparison, repeated_splits, splits_summary


def german(
    count: int = 100,
    trees: int = 500,
    *,
    calibrator: str = "isotonic",
    independent_halves: bool = False,
    noise_floor: int = 5,
    n_jobs: int | None = None,
):
    """The paper's protocol, through the public functions alone: the frame behind ``python -m reproduction``."""
    work = Work(replace(PLANS["full"], splits=count, trees=trees, redraws=noise_floor), n_jobs=n_jobs)
    return run_protocol(work, calibrator, APART if independent_halves else SAME)


def run_german(quick: bool, jobs: int, save: str | None) -> None:
    count, trees = (10, 50) if quick else (100, 500)
    work = Work(replace(PLANS["full"], splits=count, trees=trees), n_jobs=jobs)
    for protocol in (SAME, APART):
        start = time.perf_counter()
        frame = run_protocol(work, protocol=protocol)
        print(f"\n{protocol}: {count} splits, {trees} trees, {time.perf_counter() - start:.0f} s")
        print(splits_summary(frame))
        for metric in ("recalibrated", "reliability_plugin", "reliability"):
            print(compare_methods(frame, metric))
        if protocol == SAME:
            beside_paper(work)
            if save:
                figures(frame, Path(save))


def beside_paper(work: Work) -> None:
    """Our means, the paper's, and whether they agree within the tolerance."""
    means = [one for one in select("german", "mean") if one.key.startswith("robustness/")]
    for check in (judge_number(work, one) for one in means):
        print(f"  {check.what:36}{check.ours:8.4f}  paper {check.paper:.3f} ± {check.tolerance:.4f}  {check.verdict}")


def figures(frame, folder: Path) -> None:
    """The figures of docs/splits.md."""
    compare_methods(frame, "reliability_plugin").plot().figure_.savefig(folder / "paired-comparison.png", dpi=110)
    splits_summary(frame).plot().figure_.savefig(folder / "repeated-splits.png", dpi=110)


class Bold(LogisticRegression):
    """Twice the log-odds of a logistic regression: overconfident."""

    def predict_proba(self, X):
        p = expit(2.0 * self.decision_function(X))
        return np.column_stack([1.0 - p, p])


METRICS = ("raw", "recalibrated", "reliability_plugin", "reliability")


def run_size(quick: bool, jobs: int, _: str | None) -> None:
    """Two models, each on one of two features that play the same part: no difference in the mean."""
    runs, n, count = (40 if quick else 400), 300, 30
    print(f"{runs} data sets of {n} rows, {count} splits of (.6, .2, .2), exchangeable methods; nominal one-sided .05")
    for word, model in (("calibrated", LogisticRegression()), ("overconfident", Bold())):
        sides = [make_column_transformer(("passthrough", [column])) for column in (0, 1)]
        models = {name: make_pipeline(side, model) for name, side in zip(("first", "second"), sides, strict=True)}
        found = {metric: [] for metric in METRICS}
        for run in range(runs):
            rng = np.random.default_rng([20240915, run])
            X = rng.normal(size=(n, 2))
            y = (rng.random(n) < expit(1.2 * X.sum(axis=1))).astype(int)
            options = {"calibrator": "isotonic", "loss": "brier", "ensembles": (), "noise_floor": 0}
            table = repeated_splits(models, X, y, n_splits=count, random_state=run, n_jobs=jobs, **options)
            for metric in METRICS:
                found[metric].append(paired_comparison(table, baseline="first", metric=metric).lines[0])
        print(word)
        for metric, lines in found.items():
            ratio = np.var([line.mean for line in lines], ddof=1) / np.mean([line.sd**2 for line in lines]) - 1 / count
            print(
                f"  {metric:20} Wilcoxon {np.mean([line.wilcoxon_p < 0.05 for line in lines]):.3f}   "
                f"corrected t {np.mean([line.t_p < 0.05 for line in lines]):.3f}   "
                f"95 % interval holds 0 {np.mean([line.low <= 0 <= line.high for line in lines]):.3f}   "
                f"ratio that would be right {ratio:.2f} (used 0.25)",
                flush=True,
            )


def run_double(quick: bool, jobs: int, _: str | None) -> None:
    """Debiased reliability of a stack that shares its rows with the calibrator, and what it is on fresh rows."""
    models = {str(i): RandomForestClassifier(15, max_depth=4, random_state=i) for i in range(8)}
    found = {"shared": [], "halves": [], "truth": [], "truth of halves": []}
    for run in range(3 if quick else 12):
        rng = np.random.default_rng([7, run])
        draw = lambda n: _linear_rows(rng, n)  # noqa: B023, E731 - called at once
        X, y = draw(300)
        options = {"n_splits": 1, "calibrator": "platt", "clip": 1e-6, "noise_floor": 0, "loss": "log"}
        for name, halves in (("shared", False), ("halves", True)):
            table = repeated_splits(models, X, y, independent_halves=halves, random_state=run, n_jobs=jobs, **options)
            frame = table.to_frame()
            found[name].append(frame.filter(frame["method"] == "stacking")["reliability"][0])
        fresh, outcome = draw(60_000)
        fitted = [clone(model).fit(X[:180], y[:180]) for model in models.values()]
        members, new = (np.column_stack([m.predict_proba(rows)[:, 1] for m in fitted]) for rows in (X[180:240], fresh))
        for name, rows in (("truth", slice(None)), ("truth of halves", slice(30))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = np.clip(
                    Stacking(on="probability").fit(members[rows], y[180:240][rows]).predict_proba(new)[:, 1],
                    1e-6,
                    1 - 1e-6,
                )
            after = PlattCalibrator().fit(score[:30_000], outcome[:30_000]).calibrate(score[30_000:])
            found[name].append(log_loss(outcome[30_000:], score[30_000:]) - log_loss(outcome[30_000:], after))
    for name, values in found.items():
        print(f"  {name:16}{np.mean(values):8.4f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}")


def _linear_rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 8))
    return X, (X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=n) > 0).astype(int)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("german", "size", "double"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", help="folder for the figures of german")
    given = parser.parse_args()
    {"german": run_german, "size": run_size, "double": run_double}[given.what](given.quick, given.jobs, given.save)


if __name__ == "__main__":
    main()
