"""Inputs of `decompose`: each is what a user could pass, as arguments and keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

Input = tuple[tuple[Any, ...], dict[str, Any]]
INPUTS: dict[str, Callable[[], Input]] = {}


def one(function: Callable[[], Input]) -> Callable[[], Input]:
    INPUTS[function.__name__.replace("_", " ")] = function
    return function


def binary(n: int, seed: int = 0, features: int = 2) -> tuple[Any, Any, Any, Any]:
    """Outcomes, scores, features, true probabilities."""
    rng = np.random.default_rng([n, seed])
    X = rng.standard_normal((n, features))
    q = expit(X[:, 0] + 0.7 * X[:, 1])
    return (rng.random(n) < q).astype(int), expit(1.6 * X[:, 0] + 0.2), X, q


def classes(n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([n, k, seed])
    logits = 1.2 * rng.standard_normal((n, k))
    q = softmax(logits, axis=1)
    y = (rng.random((n, 1)) > q.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return y, softmax(1.5 * logits, axis=1), logits


@one
def plain() -> Input:
    y, s, *_ = binary(400)
    return (y, s), {}


@one
def rounded() -> Input:
    y, s, *_ = binary(2000)
    return (y, s.round(1).clip(0.05, 0.95)), {}


@one
def weights_some_zero() -> Input:
    y, s, *_ = binary(900, 1)
    return (y, s), {"sample_weight": np.random.default_rng(5).integers(0, 4, 900) / 2}


@one
def groups() -> Input:
    y, s, *_ = binary(800, 2)
    return (y, s), {"groups": np.arange(800) // 5}


@one
def groups_and_weights_by_name() -> Input:
    y, s, *_ = binary(700, 3)
    rng = np.random.default_rng(6)
    return (y, s), {"groups": np.array(list("abcdefghijklmnopqrstuvwxyz"))[rng.integers(26, size=700)],
                    "sample_weight": rng.uniform(0.5, 2.0, 700)}  # fmt: skip


@one
def text_labels() -> Input:
    y, s, *_ = binary(500, 4)
    return (np.where(y == 1, "bad", "good"), s), {"pos_label": "bad"}


@one
def swapped_columns() -> Input:
    y, s, *_ = binary(500, 5)
    return (np.where(y == 1, "bad", "good"), np.column_stack([s, 1 - s])), {"classes": ["bad", "good"]}


@one
def pandas_frames() -> Input:
    y, s, X, _ = binary(400, 6)
    index = np.random.default_rng(0).permutation(400)
    frame = pd.DataFrame({"income": X[:, 0], "age": X[:, 1]}, index=index)
    return (pd.Series(y, index=index), pd.Series(s, index=index), frame), {}


@one
def polars_with_categories_and_missing() -> Input:
    y, s, X, _ = binary(450, 7)
    rng = np.random.default_rng(1)
    kind = pl.Series(np.array(["a", "b", "c", None], dtype=object)[rng.integers(4, size=450)].tolist())
    holes = np.where(rng.random(450) < 0.1, np.nan, X[:, 1])
    return (pl.Series(y), pl.Series(s), pl.DataFrame({"x": X[:, 0], "z": holes, "kind": kind})), {}


@one
def q_given() -> Input:
    y, s, _, q = binary(800, 8)
    return (y, s), {"q": q}


@one
def latent_given() -> Input:
    y, s, X, q = binary(600, 9)
    return (y, s), {"q": expit(X[:, 0]), "latent": q}


@one
def levels_of_features() -> Input:
    y, s, X, _ = binary(500, 10, features=3)
    return (y, s), {"levels": {"bureau": X[:, :1], "all": X}}


@one
def calibration_split() -> Input:
    y, s, *_ = binary(900, 11)
    return (y[:500], s[:500]), {"calibration": (s[500:], y[500:])}


@one
def partial_splits() -> Input:
    y, s, *_ = binary(600, 12)
    return (y, s), {"cv": [(np.arange(200), np.arange(200, 400)), (np.arange(400), np.arange(400, 600))]}


@one
def ten_folds() -> Input:
    y, s, *_ = binary(600, 13)
    return (y, s), {"cv": 10, "random_state": 7}


@one
def one_map() -> Input:
    y, s, *_ = binary(600, 14)
    return (y, s), {"calibrator": "isotonic"}


@one
def foreign_learners() -> Input:
    y, s, X, _ = binary(400, 15)
    return (y, s, X), {"calibrator": LogisticRegression(), "reference": DecisionTreeClassifier(min_samples_leaf=40)}


@one
def infinite_loss() -> Input:
    y, s, *_ = binary(500, 16)
    s[:3], y[:3] = (0.0, 1.0, 0.0), (1, 1, 0)
    return (y, s), {}


@one
def few_rows() -> Input:
    y, s, *_ = binary(25, 17)
    return (y, s), {}


@one
def three_classes() -> Input:
    y, s, _ = classes(500, 3)
    return (y, s), {}


@one
def three_classes_with_features() -> Input:
    y, s, logits = classes(400, 3, 1)
    return (np.array(["low", "mid", "top"])[y], s, logits[:, :2]), {
        "groups": np.arange(400) // 4,
        "reference": "logistic",
    }


@one
def nine_classes() -> Input:
    y, s, _ = classes(700, 9)
    return (y, s), {"sample_weight": np.random.default_rng(2).uniform(0.5, 1.5, 700)}


@one
def twenty_one_classes() -> Input:
    y, s, _ = classes(900, 21)
    return (y, s), {"calibrator": "temperature"}


@one
def seventy_thousand() -> Input:
    y, s, *_ = binary(70_000)
    return (y, s), {}


@one
def hundred_forty_thousand() -> Input:
    y, s, *_ = binary(140_000)
    return (y, s), {"sample_weight": np.random.default_rng(3).uniform(0.5, 1.5, 140_000)}
