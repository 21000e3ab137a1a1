"""
How far apart are the scores of events and of the rest?
=======================================================

Before any curve, look at the scores themselves. How many are near 0 or 1, how
many say "about one half", and how much do the two outcomes overlap? A histogram
by outcome shows all of that.
"""

# %%
# Out-of-fold scores of tumours, from one measurement and from three.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scoreprism.displays import ScoreDistributionDisplay, house_style
from scoreprism.metrics import auc

data = load_breast_cancer()
malignant = data.target == 0
model = make_pipeline(StandardScaler(), LogisticRegression())
with house_style():
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, columns, title in zip(
        axes,
        [[1], [0, 1, 4]],
        ["one measurement", "three measurements"],
        strict=True,
    ):
        score = cross_val_predict(
            model,
            data.data[:, columns],
            malignant,
            cv=5,
            method="predict_proba",
        )[:, 1]
        ScoreDistributionDisplay.from_predictions(malignant, score, ax=ax)
        ax.set_title(title)
        print(f"{title:18} AUC {float(auc(malignant, score)):.3f}")

# %%
# With one measurement the scores of both outcomes lie in the middle and
# overlap. With three they move to the two ends.
