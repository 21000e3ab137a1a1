"""
Is one model worse, or only too sure of itself?
===============================================

Two losses on the same rows share most of their noise. Compared row by row,
their difference is known far better than either of them. `compare` decomposes
all models in the same folds, so that each term has a paired difference.
"""

# %%
# Two models, on rows that they were not trained on. The features are
# correlated, which naive Bayes ignores.

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from scoreprism import compare

X, y = make_classification(
    6000,
    n_features=8,
    n_informative=3,
    n_redundant=5,
    flip_y=0.2,
    random_state=3,
)
train, test = slice(0, 2000), slice(2000, None)
models = {"naive Bayes": GaussianNB(), "logistic": LogisticRegression()}
scores = {
    name: model.fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    for name, model in models.items()
}
both = compare(y[test], scores, loss="brier", random_state=0)
figure = both.plot()

# %%

difference = both.difference("naive Bayes", "logistic")
difference

# %%

import matplotlib.pyplot as plt

from scoreprism.displays import house_style

with house_style():
    fig, ax = plt.subplots(figsize=(6, 2), layout="constrained")
    for row, term in enumerate(difference.terms):
        interval = difference.interval(term)
        ax.plot(
            [interval.low, interval.high],
            [row, row],
            color="#0072B2",
            linewidth=3,
        )
        ax.plot(difference.terms[term], row, "o", color="#222222")
    ax.axvline(0, color="#888888", linewidth=0.8)
    ax.set(
        yticks=range(len(difference.terms)),
        yticklabels=list(difference.terms),
        ylim=(1.6, -0.6),
    )
    ax.set_xlabel("naive Bayes − logistic, Brier, 95 % interval")

# %%
# Naive Bayes has the larger loss, and the reason is its reliability. The
# interval of the refinement contains 0: nothing shows that it knows less. It is
# only too sure of itself, and a map would put that right.
