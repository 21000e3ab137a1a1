"""
Loss, calibration and discrimination on one page
================================================

Three questions come up whenever models are compared. What do they cost? Do
their probabilities mean what they say? Do they rank? The triptych of
Dimitriadis, Gneiting, Jordan and Vogel (2024) answers them side by side.
"""

# %%

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scoreprism.displays import TriptychDisplay

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :3]  # three measurements, so that the task is not too easy
models = {
    "naive Bayes": GaussianNB(),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
}
scores = {
    name: cross_val_predict(m, X, y, cv=5, method="predict_proba")[:, 1]
    for name, m in models.items()
}
display = TriptychDisplay.from_predictions(y, scores, random_state=0)

# %%
# Both models rank the tumours well. They differ in the middle panel, and the
# left one shows what that costs at each decision.
