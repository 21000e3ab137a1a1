"""
Choose a model by what recalibration cannot fix
===============================================

A grid search by log loss punishes models that are only badly calibrated,
although a map would fix them. The scorers here measure the terms: search by
refinement, and recalibrate afterwards. They are scikit-learn scorers, so larger
is better and losses are negative.
"""

# %%
# How large should the leaves of a forest be?

from sklearn.datasets import make_hastie_10_2
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import GridSearchCV

from scoreprism.metrics import scorer

X, y = make_hastie_10_2(2000, random_state=0)
scoring = {
    "loss": scorer("log"),
    "refinement": scorer("refinement", loss="log"),
}
search = GridSearchCV(
    ExtraTreesClassifier(50, random_state=0),
    {"min_samples_leaf": [1, 2, 5, 10, 20, 50]},
    scoring=scoring,
    refit="refinement",
    cv=3,
).fit(X, y)

# %%

import matplotlib.pyplot as plt

from scoreprism.displays import house_style

results = search.cv_results_
leaves = [parameters["min_samples_leaf"] for parameters in results["params"]]
with house_style():
    fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for name in scoring:
        ax.plot(leaves, -results[f"mean_test_{name}"], "o-", label=name)
    ax.set(
        xscale="log",
        xticks=leaves,
        xticklabels=leaves,
        xlabel="rows in a leaf, at least",
        ylabel="log loss",
    )
    ax.minorticks_off()
    ax.legend()
print(search.best_params_)

# %%
# Most of the loss of this forest is miscalibration: it is far too timid, and a
# map removes the gap between the lines. The search goes by the lower line, and
# chooses other leaves than the loss would.
