"""Predictions to try things on: four models of German credit, on the half of the applicants they did not see."""

from __future__ import annotations

from typing import Any

import polars as pl

#: Outcomes (1 for a bad credit), and the scores of the models.
TARGET, SCORES = "default", ("logistic", "forest", "average", "stacking")


def example_predictions() -> pl.DataFrame:
    """Train two models on half of the German credit data, and score the other half with them and with two ensembles."""
    import numpy as np
    from sklearn.model_selection import cross_val_predict

    from scoreprism.datasets import load_german_credit
    from scoreprism.ensembles import Stacking

    data = load_german_credit("polars", words=True)
    X = data.X.to_dummies([name for name, dtype in data.X.schema.items() if dtype == pl.String]).to_numpy()
    order = np.random.default_rng(0).permutation(data.y.size)
    learn, judge = order[: order.size // 2], np.sort(order[order.size // 2 :])
    known, scores = {}, {}
    for name, model in _models().items():
        known[name] = cross_val_predict(model, X[learn], data.y[learn], method="predict_proba")[:, 1]
        scores[name] = model.fit(X[learn], data.y[learn]).predict_proba(X[judge])[:, 1]
    average = np.mean(list(scores.values()), axis=0)
    stack = Stacking().fit(known, data.y[learn]).predict_proba(scores)[:, 1]
    columns = {name: values.round(6) for name, values in (scores | {"average": average, "stacking": stack}).items()}
    return pl.DataFrame({"default": data.y[judge], **columns}).hstack(data.X[judge.tolist()])


def _models() -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "forest": RandomForestClassifier(200, min_samples_leaf=3, random_state=0),
    }
