"""Predictions to try things on: two models of German credit, on the half of the applicants they did not see."""

from __future__ import annotations

import polars as pl


def example_predictions() -> pl.DataFrame:
    """
    Train a logistic regression and a forest on half of the German credit data, and score the other half.

    Returns
    -------
    polars.DataFrame
        ``default`` (1 for a bad credit), ``logistic`` and ``forest``, then the 20 features.

    Examples
    --------
    >>> example_predictions().columns[:3]
    ['default', 'logistic', 'forest']
    """
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from scoreprism.datasets import load_german_credit

    data = load_german_credit("polars")
    X = data.X.to_dummies([name for name, dtype in data.X.schema.items() if dtype == pl.String]).to_numpy()
    order = np.random.default_rng(0).permutation(data.y.size)
    learn, judge = order[: order.size // 2], np.sort(order[order.size // 2 :])
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "forest": RandomForestClassifier(200, min_samples_leaf=3, random_state=0),
    }
    scores = {}
    for name, model in models.items():
        scores[name] = model.fit(X[learn], data.y[learn]).predict_proba(X[judge])[:, 1].round(6)
    return pl.DataFrame({"default": data.y[judge], **scores}).hstack(data.X[judge.tolist()])
