"""
.. _tutorial-credit:

Credit risk: recalibrate or retrain?
====================================

A bank has three models of who will not pay back a loan. One has a
clearly higher loss than the others. Should it be thrown away, trained
again, or only recalibrated? And which of the three should the bank use?

You need ten minutes and know how to fit a model with scikit-learn. You
will meet the three terms that this library is about, learn how to
compare models by them, and repair scores without touching the model
that made them.
"""

# %%
# The data and three models
# -------------------------
#
# The German credit data come with the library: 1000 applicants, 20
# features, and an outcome that is 1 for a bad credit. Half of the
# applicants train the models. The other half is for everything that
# follows, because a model is always judged on rows that it has not
# seen.

# sphinx_gallery_thumbnail_number = 2
from sklearn.model_selection import train_test_split

from scoreprism.datasets import load_german_credit

credit = load_german_credit("pandas", words=True)
X_train, X, y_train, y = train_test_split(
    credit.X, credit.y, test_size=0.5, stratify=credit.y, random_state=0
)
print(f"{len(y)} applicants to judge by, {y.mean():.0%} bad credits")
X.iloc[:4, :4]

# %%
# The models are a logistic regression, a random forest, and gradient
# boosting with 200 trees.

from sklearn.compose import make_column_selector as columns
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier as Boosting
from sklearn.ensemble import RandomForestClassifier as Forest
from sklearn.linear_model import LogisticRegression as Logistic
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def prepare_columns_for(classifier):
    """Indicators of words, numbers on one scale, the classifier."""
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns_ready = make_column_transformer(
        (words, columns(dtype_exclude="number")),
        (StandardScaler(), columns(dtype_include="number")),
    )
    return make_pipeline(columns_ready, classifier)


models = {
    "logistic": Logistic(max_iter=1000),
    "forest": Forest(300, min_samples_leaf=3, random_state=0),
    "boosting": Boosting(n_estimators=200, random_state=0),
}
scores = {}
for name, classifier in models.items():
    models[name] = prepare_columns_for(classifier).fit(X_train, y_train)
    scores[name] = models[name].predict_proba(X)[:, 1]

# %%
# The usual table
# ---------------
#
# Two numbers are usually reported: the log loss, which is better when
# it is smaller, and the area under the ROC curve, which is better when
# it is larger.

from scoreprism.metrics import auc, log_loss

for name, p in scores.items():
    loss, area = log_loss(y, p), auc(y, p)
    print(f"{name:10} log loss {loss:.3f}   AUC {area:.3f}")

# %%
# By its log loss, boosting is far behind. By its AUC it is close to the
# others: it ranks applicants about as well. The two numbers measure
# different things, and neither says what to do.
#
# What the losses are made of
# ---------------------------
#
# ``compare`` splits the loss of each model on the same rows.
#
# - **Reliability** is lost because the probabilities do not mean what
#   they say. Recalibration removes it, and the model stays as it is.
# - **Grouping** is lost because the score knows less than the features
#   it was made from. A better model can win it.
# - **Irreducible** loss remains even with the best model of these
#   features.

import scoreprism

models_compared = scoreprism.compare(y, scores, X, random_state=0)
models_compared

# %%
# The table gives an estimate where there is one, and a bound (≥ or ≤)
# where 500 rows only allow a bound. The column *behind* says how far a
# model is from the first one. Now look at the column *reliability*:
# most of what boosting loses beyond the forest, it loses there.

figure = models_compared.plot()

# %%
# Is that difference more than chance? The rows and folds are the same
# for all models, so their terms can be compared pair by pair. An
# interval that does not contain 0 shows a difference.

models_compared.difference("boosting", "forest")

# %%
# The interval of the reliability lies above 0. Those of the other two
# terms contain 0, so there is no evidence that the forest has learned
# more about the applicants than boosting has.
#
# What is wrong with the scores
# -----------------------------
#
# A reliability diagram draws how often the event happened against the
# predicted probability. Calibrated scores lie on the diagonal.

from scoreprism.displays import ReliabilityDisplay

figure = ReliabilityDisplay.from_predictions(
    y, scores["boosting"], random_state=0
)

# %%
# The curve of boosting is flatter than the diagonal. Where the model
# says a small probability, more applicants default than it says; where
# it says a large one, fewer do. The model is overconfident, which is
# what happens when 500 training rows are fitted too closely.
#
# Recalibrate, without new data
# -----------------------------
#
# A recalibration map needs rows that the model was not trained on.
# ``RecalibratedClassifier`` makes them by cross-fitting: it trains the
# model on four fifths of the training rows, predicts the last fifth,
# does this five times, and fits the map to all of these predictions.
# Then it trains the model on all training rows, as before. The 500
# applicants we judge by are not touched.

from scoreprism.calibrators import RecalibratedClassifier

repaired = RecalibratedClassifier(
    models["boosting"], "platt", cv=5, ensemble=False
).fit(X_train, y_train)
scores["recalibrated"] = repaired.predict_proba(X)[:, 1]
after = scoreprism.compare(y, scores, random_state=0)
after.difference("boosting", "recalibrated")

# %%
# This time the features were left out: without them the loss splits
# into reliability and *refinement*, which is what grouping and
# irreducible loss are together. The gain is in the reliability, as the
# decomposition said it would be. The interval of the refinement
# contains 0, as it should: a map that keeps the order of the scores
# cannot throw information away.

two = {name: scores[name] for name in ("boosting", "recalibrated")}
figure = ReliabilityDisplay.from_predictions(y, two, random_state=0)

# %%
# Which model to use
# ------------------
#
# How far is each model behind the forest, which has the smallest loss?
# The margins are those of 95 % intervals.

for name in scores:
    if name != "forest":
        behind = after.difference(name, "forest")
        margin = 1.96 * behind.risk_std_error
        print(f"{name:13} {behind.risk:+.3f} ± {margin:.3f}")

# %%
# Only the interval of boosting as it was trained lies above 0. After it
# has been recalibrated, 500 applicants cannot tell the three families
# apart.
#
# Is it worth it?
# ---------------
#
# A gain can be certain and still too small to matter. The summary of a
# single model says how much recalibration gains at least, and advises
# it only if that is one percent of the loss or more. (In a report,
# ``min_gain`` sets the limit.)

after["boosting"].summary()

# %%
# Log loss is not money, though. In the cost table of these data a loan
# to a bad credit costs five times as much as turning away a good
# applicant. So the bank should refuse applicants whose probability is
# above one sixth. ``CostWeighted`` is the loss of that decision.

import numpy as np

from scoreprism.losses import CostWeighted

cost = CostWeighted(fp=1, fn=5)
costs = {name: cost.loss(p, y) for name, p in scores.items()}
for name in scores:
    print(f"{name:13} costs {costs[name].mean():.3f} per applicant")

difference = costs["recalibrated"] - costs["boosting"]
margin = 1.96 * difference.std(ddof=1) / np.sqrt(len(y))
print(f"\nrecalibrated minus boosting: {difference.mean():+.3f}")
print(f"margin of the difference: ± {margin:.3f}")

# %%
# Recalibration saved much log loss, and yet these decisions are not
# shown to be cheaper. The log loss of boosting comes from probabilities
# that are far too near 0 or 1. To say 0.001 where a few percent are
# right is a grave error, but it does not change a decision at one
# sixth, because both are below it. If the bank only says yes or no,
# these data give no reason to repair boosting. If it also sets prices
# or provisions by the probability, it should.
#
# What to ship
# ------------
#
# A fitted map can be kept as a file that contains no code, and is read
# back to the last bit. ``to_sql`` writes the same map for the database
# that holds the scores.

from scoreprism.calibrators import from_json

fitted_map = repaired.calibrated_[0][1]
again = from_json(fitted_map.to_json())
for score in (0.001, 0.1, 0.5, 0.9):
    meaning = again.calibrate([score])[0]
    print(f"boosting says {score:5}, which means {meaning:.3f}")

# %%
# A report puts all of this on one page for those who decide: the
# verdict, the tables, the figures, and how they were made.
# ``report.save("credit.html")`` writes it. Here only its verdict is
# made.

from scoreprism.report import make_report

report = make_report(
    y, scores, sections=["verdict"], title="German credit, three models"
)
print(report.headline)

# %%
# The answer
# ----------

gain = after.difference("boosting", "recalibrated")
share = gain.terms["reliability"] / gain.risk
bound = after["boosting"].lower_bound("reliability").value
rest = after.difference("recalibrated", "forest")
print(f"log loss of boosting: {after['boosting'].risk:.3f}")
print(f"recalibration gains {gain.risk:.3f}, {bound:.3f} was promised")
print(f"reliability accounts for {share:.0%} of the gain")
print(f"then it is {rest.risk:.3f} behind the forest")

# %%
# Recalibrate boosting, and do not train it again for the sake of its
# loss: what it loses beyond the others is miscalibration. If you are
# free to choose, use the forest. It has the smallest loss, and it needs
# no map. Whether it is really better than the recalibrated model takes
# more applicants to find out.
