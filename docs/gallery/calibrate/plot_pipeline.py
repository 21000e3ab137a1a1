"""
A recalibrated model is one scikit-learn estimator
==================================================

Nobody wants to carry a model and a map around separately.
`RecalibratedClassifier` trains the model, fits the map on out-of-fold scores,
and predicts recalibrated probabilities. It goes into pipelines and searches
like any classifier.
"""

# %%
# Naive Bayes takes correlated features for independent ones and is far too sure
# of itself.

from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scoreprism import RecalibratedClassifier
from scoreprism.displays import ReliabilityDisplay

X, y = make_classification(
    6000,
    n_features=12,
    n_informative=3,
    n_redundant=7,
    flip_y=0.1,
    random_state=0,
)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)

raw = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
recalibrated = make_pipeline(
    StandardScaler(), RecalibratedClassifier(GaussianNB(), "beta")
).fit(X, y)
for name, model in [("raw", raw), ("recalibrated", recalibrated)]:
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:13} log loss {loss:.3f}")

# %%

display = ReliabilityDisplay.from_estimator(
    {"raw": raw, "recalibrated": recalibrated}, X_test, y_test, random_state=0
)

# %%
# Recalibration takes away a large part of the loss of this model, and the calls
# to fit and to predict are the same.
