"""
How far apart are the scores of events and of the rest?
=======================================================

Before any curve, look at the scores themselves. How many are near 0 or 1, how many say "about one half", and how much
do the two outcomes overlap? A histogram by outcome shows all of that, and scores heaped on a few values too.
"""

# %%
# Out-of-fold scores of two models for the same tumours.

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from scoreprism.displays import ScoreDistributionDisplay

data = load_breast_cancer()
X, malignant = data.data[:, :2], data.target == 0
models = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "tree": DecisionTreeClassifier(min_samples_leaf=25, random_state=0),
}
scores = {name: cross_val_predict(m, X, malignant, cv=5, method="predict_proba")[:, 1] for name, m in models.items()}
display = ScoreDistributionDisplay.from_predictions(malignant, scores)

# %%
# The scores of the regression spread smoothly. The tree has a few leaves, and so a few scores.
