"""``python -m benchmarks.reports [NAME …] [--out FOLDER]``: CPU seconds and page sizes of reports on ten inputs.

``--out`` keeps the pages.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

import scoreprism

#: Makes a report; its input is ready.
Making = Callable[[], scoreprism.report.Report]


def applicants(n: int, seed: int, shift: float = -0.8) -> tuple[pd.DataFrame, np.ndarray]:
    """Features of several kinds, and the log-odds of the event given them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(6)})
    X["age"], X["amount"] = rng.integers(18, 80, n), np.exp(7.5 + rng.normal(size=n)).round()
    X["purpose"] = rng.choice(["car", "house", "tv", "other"], n, p=[0.3, 0.2, 0.3, 0.2])
    odds = shift + X["x0"] + 0.7 * X["x1"] * (X["x2"] > 0) - 0.02 * (X["age"] - 45) + 0.6 * (X["purpose"] == "tv")
    return X, odds.to_numpy()


def fitted(
    n: int, seed: int, shift: float = -0.8, train: int = 3000
) -> tuple[np.ndarray, dict[str, Any], pd.DataFrame]:
    """Four models that were fitted on other rows."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    X, odds = applicants(train + n, seed, shift)
    y = (np.random.default_rng([seed, 1]).random(train + n) < expit(odds)).astype(int)
    table = pd.get_dummies(X, dtype=float)
    table = (table - table.mean()) / table.std()
    models = {
        "logistic": LogisticRegression(), "forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
        "boosting": GradientBoostingClassifier(random_state=0), "bayes": GaussianNB(),
    }  # fmt: skip
    new = slice(train, None)
    scores = {
        name: np.clip(model.fit(table[:train], y[:train]).predict_proba(table[new])[:, 1], 1e-6, 1 - 1e-6)
        for name, model in models.items()
    }
    return y[new], scores, X[new].reset_index(drop=True)


def credit() -> Making:
    """Four models, 1,200 rows, nine features."""
    return partial(scoreprism.make_report, *fitted(1200, 0))


def awful() -> Making:
    """Four models, one of them many times worse, with segments."""
    y, scores, X = fitted(2000, 1)
    scores["bayes"] = expit(-8.0 * logit(scores["bayes"]))
    return partial(scoreprism.make_report, y, scores, X, segments={"purpose": X["purpose"]})


def rare() -> Making:
    """Three models of an event of 1 %, 20,000 rows."""
    y, scores, X = fitted(20_000, 2, shift=-5.6, train=20_000)
    scores.pop("bayes")
    return partial(scoreprism.make_report, y, scores, X)


def digits() -> Making:
    """Ten classes."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=2000).fit(X[:700] / 16, y[:700])
    return partial(scoreprism.make_report, y[700:], np.clip(model.predict_proba(X[700:] / 16), 1e-6, 1 - 1e-6))


def classes(n: int, k: int, scale: float) -> Making:
    """Logits that are too large, of many classes."""
    rng = np.random.default_rng(0)
    z = rng.normal(0.5 * rng.normal(size=k), scale, (n, k)).astype(np.float32)
    y = (z / 1.4 + rng.gumbel(size=(n, k))).argmax(axis=1)
    return partial(scoreprism.make_report, y, scoreprism.Logits(z), classes=range(k))


def five() -> Making:
    """32,000 rows of five classes."""
    return classes(32_000, 5, 2.0)


def thousand() -> Making:
    """20,000 rows of a thousand classes, in single precision."""
    return classes(20_000, 1000, 3.0)


def months(n: int = 250_000) -> pd.DataFrame:
    """A model that goes slowly out of calibration, by month and region."""
    rng = np.random.default_rng(3)
    day = rng.integers(0, 730, n)
    odds = -2.0 + rng.normal(size=n)
    region = rng.choice(["north", "south", "east", "west"], n)
    truth = odds + 0.4 * day / 730 + 0.3 * (region == "south")
    table = pd.DataFrame({"score": expit(odds), "default": (rng.random(n) < expit(truth)).astype(int)})
    table["region"], table["day"] = region, np.datetime64("2023-01-01") + day.astype("timedelta64[D]")
    return table


def monthly() -> Making:
    """250,000 rows by month and segment."""
    table = months()
    parts = {"segments": {"region": table["region"]}, "time": table["day"].to_numpy()}
    return partial(scoreprism.make_report, table["default"], table["score"], **parts)


def scanned() -> Making:
    """The same from sums of a Polars scan."""
    import polars as pl

    from scoreprism import scale

    rows, how = pl.from_pandas(months()).lazy(), {"target": "default", "score": "score"}

    def sums() -> list[scale.Sums]:
        return [
            scale.aggregate(rows, **how, segments="region"),
            scale.aggregate(rows, **how, time="day", period="month"),
        ]

    return lambda: scoreprism.report.make_report({"score": sums()})


def calibrated() -> Making:
    """One model that is right, with features."""
    X, odds = applicants(3000, 4)
    y = (np.random.default_rng([4, 1]).random(3000) < expit(odds)).astype(int)
    return partial(scoreprism.make_report, y, expit(odds), X)


def zeros() -> Making:
    """One forest with scores of exactly 0 and 1, some of them wrong."""
    from sklearn.ensemble import RandomForestClassifier

    X, odds = applicants(4000, 5)
    y = (np.random.default_rng([5, 1]).random(4000) < expit(2.5 * odds)).astype(int)
    table = pd.get_dummies(X, dtype=float)
    model = RandomForestClassifier(20, random_state=0).fit(table[:2000], y[:2000])
    return partial(
        scoreprism.make_report, y[2000:], model.predict_proba(table[2000:])[:, 1], X[2000:].reset_index(drop=True)
    )


INPUTS: dict[str, Callable[[], Making]] = {
    made.__name__: made for made in (credit, awful, rare, digits, five, thousand, monthly, scanned, calibrated, zeros)
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(INPUTS)}")
    parser.add_argument("--out", type=Path, help="a folder for the pages")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("| input | CPU s, report | CPU s, page | page, kB |\n|---|---:|---:|---:|")
    for name in options.names or INPUTS:
        make = INPUTS[name]()
        start = time.process_time()
        report = make()
        made = time.process_time()
        page = report.to_html()
        drawn = time.process_time()
        print(f"| {name} | {made - start:.1f} | {drawn - made:.1f} | {len(page.encode()) / 1000:.0f} |", flush=True)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            for ending in ("html", "md", "json", "txt"):
                report.save(options.out / f"{name}.{ending}", overwrite=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
