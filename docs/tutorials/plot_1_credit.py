"""
.. _tutorial-credit:

Credit risk: recalibrate or retrain?
====================================

A bank has three models of who will not pay back a loan. One has a clearly higher loss than the others. Should it be
thrown away, trained again, or only recalibrated? And which of the three should the bank use?

You need ten minutes and know how to fit a model with scikit-learn. You will meet the three terms that this library is
about, the two questions to ask of any set of models, and a map that repairs scores without touching the model.
"""

# %%
# The data and three models
# -------------------------
#
# The German credit data come with the library: 1000 applicants, 20 features, and an outcome that is 1 for a bad credit.
# Half of the applicants train the models. The other half is for everything that follows, because a model is always
# judged on rows that it has not seen.

from sklearn.model_selection import train_test_split

from scoreprism.datasets import load_german_credit

credit = load_german_credit("pandas", words=True)
X_train, X, y_train, y = train_test_split(credit.X, credit.y, test_size=0.5, stratify=credit.y, random_state=0)
print(f"{len(y)} applicants to judge by, {y.mean():.0%} of them bad credits")
X.iloc[:4, :6]

# %%
# The models are a logistic regression, a random forest, and gradient boosting with its default settings.

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def with_columns_ready(classifier):
    """Categories as indicators, numbers on one scale, then the classifier."""
    numbers = make_column_selector(dtype_include="number")
    words = make_column_selector(dtype_exclude="number")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((encoder, words), (StandardScaler(), numbers)), classifier)


models = {
    "logistic": with_columns_ready(LogisticRegression(max_iter=1000)),
    "forest": with_columns_ready(RandomForestClassifier(300, min_samples_leaf=3, random_state=0)),
    "boosting": with_columns_ready(GradientBoostingClassifier(n_estimators=200, random_state=0)),
}
scores = {name: model.fit(X_train, y_train).predict_proba(X)[:, 1] for name, model in models.items()}

# %%
# The usual table
# ---------------
#
# Two numbers are on every slide: the log loss, which is better when it is smaller, and the area under the ROC curve,
# which is better when it is larger.

from scoreprism.metrics import auc, log_loss

for name, p in scores.items():
    print(f"{name:10} log loss {log_loss(y, p):.3f}   AUC {auc(y, p):.3f}")

# %%
# By its log loss, boosting is far behind. By its AUC it is close to the others: it ranks applicants about as well. The
# two numbers seem to disagree because they measure different things, and neither says what to do.
#
# What the losses are made of
# ---------------------------
#
# ``compare`` splits the loss of each model on the same rows.
#
# - **Reliability** is lost because the probabilities do not mean what they say. Recalibration removes it, and the model
#   stays as it is.
# - **Grouping** is lost because the score knows less than the features it was made from. A better model can win it.
# - **Irreducible** loss remains even with the best model of these features.

import scoreprism

models_compared = scoreprism.compare(y, scores, X, random_state=0)
models_compared

# %%
# The table gives an estimate where there is one, and a bound (≥ or ≤) where 500 rows only allow a bound. The column
# *behind* says how far a model is from the first one. Now look at the column *reliability*: nearly everything that
# boosting loses, it loses there.

figure = models_compared.plot()

# %%
# Is that difference more than chance? The rows and folds are the same for all models, so their terms can be compared
# pair by pair. An interval that does not contain 0 shows a difference.

models_compared.difference("boosting", "forest")

# %%
# The interval of the reliability lies above 0. Those of the other two terms contain 0: that the forest has learned more
# about applicants than boosting has is not shown.
#
# What is wrong with the scores
# -----------------------------
#
# A reliability diagram draws how often the event happened against the predicted probability. Calibrated scores lie on
# the diagonal.

from scoreprism.displays import ReliabilityDisplay

figure = ReliabilityDisplay.from_predictions(y, scores["boosting"], random_state=0)

# %%
# The curve of boosting is flatter than the diagonal. Where the model says a small probability, more applicants
# default than it says; where it says a large one, fewer do. It is overconfident, as a model is that has fitted 500
# training rows too closely.
#
# Recalibrate, without new data
# -----------------------------
#
# A recalibration map needs rows that the model was not trained on. ``RecalibratedClassifier`` makes them by
# cross-fitting: it trains the model on four fifths of the training rows, predicts the last fifth, does this five times,
# and fits the map to all of these predictions. Then it trains the model on all training rows, as before. The 500
# applicants we judge by are not touched.

from scoreprism.calibrators import RecalibratedClassifier

repaired = RecalibratedClassifier(models["boosting"], "platt", cv=5, ensemble=False).fit(X_train, y_train)
scores["recalibrated"] = repaired.predict_proba(X)[:, 1]
after = scoreprism.compare(y, scores, random_state=0)
after.difference("boosting", "recalibrated")

# %%
# This time the features were left out: without them the loss splits into reliability and *refinement*, which is what
# grouping and irreducible loss are together. The gain is in the reliability, as the decomposition said it would be, and
# nothing is lost in the refinement: a map that keeps the order of the scores cannot throw information away.

figure = ReliabilityDisplay.from_predictions(
    y, {"boosting": scores["boosting"], "recalibrated": scores["recalibrated"]}, random_state=0
)

# %%
# Which model to use
# ------------------
#
# Here is each model against the forest, which has the smallest loss.

for name in scores:
    if name != "forest":
        behind = after.difference(name, "forest")
        low, high = behind.risk - 1.96 * behind.risk_std_error, behind.risk + 1.96 * behind.risk_std_error
        print(f"{name:13} behind the forest by {behind.risk:.3f}, 95 % interval {low:.3f} to {high:.3f}")

# %%
# Only the interval of boosting as it was trained lies above 0. After recalibration the three families cannot be told
# apart by 500 applicants.
#
# Is it worth it?
# ---------------
#
# A gain that is certain can still be too small to matter. The summary of a single model says how much recalibration
# gains at least, and calls a gain material from one percent of the loss (``min_gain`` in the report).

after["boosting"].summary()

# %%
# And log loss is not money. In the cost table of these data a loan to a bad credit costs five times as much as a good
# applicant turned away, so the bank should refuse an applicant from a probability of one sixth. ``CostWeighted`` is the
# loss of that decision.

import numpy as np

from scoreprism.losses import CostWeighted

cost = CostWeighted(fp=1, fn=5)
costs = {name: cost.loss(p, y) for name, p in scores.items()}
pairs = [(name, "forest") for name in costs if name != "forest"] + [("recalibrated", "boosting")]
for name, other in pairs:
    more = costs[name] - costs[other]
    margin = 1.96 * more.std(ddof=1) / np.sqrt(len(y))
    means = f"{costs[name].mean():.3f} and {costs[other].mean():.3f}"
    print(f"{name:13} against {other:9} cost {means}, difference {more.mean():+.3f} ± {margin:.3f}")

# %%
# The last line is the surprise: recalibration, which saved so much log loss, does not make these decisions cheaper. The
# log loss of boosting comes from probabilities such as 0.001 where 0.03 is right. That is a grave error, but not for a
# decision at one sixth, because both are below it. If the bank only says yes or no, these data give no reason to repair
# boosting. If it also sets prices or provisions by the probability, it must.
#
# What to ship
# ------------
#
# A fitted map can be kept as a file that contains no code, and is read back to the last bit. ``to_sql`` writes the same
# map for the database that holds the scores.

from scoreprism.calibrators import from_json

fitted_map = repaired.calibrated_[0][1]
again = from_json(fitted_map.to_json())
for score in (0.001, 0.1, 0.5, 0.9):
    print(f"boosting says {score:5}, which means {again.calibrate([score])[0]:.3f}")

# %%
# A report puts all of this on one page for those who decide: the verdict, the tables, the figures, and how they were
# made. ``report.save("credit.html")`` writes it. The same page comes from a file of predictions with
# ``scoreprism report credit.csv --target default --score forest --score boosting``.

from scoreprism.report import make_report

report = make_report(y, scores, sections=["verdict"], title="German credit, three models")
print(report.headline)

# %%
# The answer
# ----------

gain = after.difference("boosting", "recalibrated")
share = gain.terms["reliability"] / gain.risk
loss, bound = after["boosting"].risk, after["boosting"].lower_bound("reliability").value
print(f"Recalibration takes {gain.risk:.3f} off the log loss of boosting, {loss:.3f}; at least {bound:.3f} was promised.")
print(f"{share:.0%} of the gain is reliability.")
print(f"Then boosting is {after.difference('recalibrated', 'forest').risk:.3f} behind the forest.")

# %%
# Recalibrate boosting, and do not train it again for the sake of its loss: what it loses beyond the others is
# miscalibration. If you are free to choose, use the forest. It has the smallest loss and needs no map. To tell it from
# the recalibrated model you need more applicants, and :ref:`the tutorial on a clinical score <tutorial-clinical>` shows
# how to find out how many.
