"""
.. _tutorial-clinical:

A clinical risk score in another hospital
=========================================

A hospital has a score for the risk of a stroke within five years.
Another hospital wants to use it, and would offer a treatment to
patients with a risk of at least 10 %. Can it use the score as it is?

This is external validation: the patients are not those that the score
was made from, the event is rare, and a decision depends on it. The
tutorial goes through what should be reported in such a case, finds out
what is wrong with the score, and repairs it without going back to the
first hospital. The patients are simulated, so that the answers can be
checked against the truth.
"""

# %%
# Two hospitals
# -------------
#
# The first hospital made its score from 1000 patients and twenty
# predictors, of which only five matter. The second hospital treats
# older patients, but takes better care of them: at the same values of
# the predictors fewer of them have a stroke.

import numpy as np
from scipy.special import expit


def draw_patients(n, seed, older=0.0, care=0.0):
    """Predictors, outcomes, and true risks, which nobody would know."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    X[:, 0] += older
    risk = expit(-2.9 - care + X[:, :5] @ [0.8, 0.6, 0.5, 0.4, 0.3])
    return X, (rng.random(n) < risk).astype(int), risk


X_first, y_first, _ = draw_patients(1000, seed=0)
X, y, true_risk = draw_patients(8000, seed=1, older=0.3, care=0.8)
print(f"first:  {len(y_first)} patients, {y_first.mean():.1%} strokes")
print(f"second: {len(y)} patients, {y.mean():.1%} strokes")

# %%
# The score is a logistic regression, fitted in the first hospital and
# applied in the second.

from sklearn.linear_model import LogisticRegression

score = LogisticRegression(C=np.inf).fit(X_first, y_first)
p = score.predict_proba(X)[:, 1]

# %%
# A number that says nothing
# --------------------------
#
# How often is the score right, if "risk above one half" means "will
# have a stroke"? Nearly always. And how often is one right who says
# that nobody will ever have a stroke?

print(f"accuracy of the score: {np.mean((p > 0.5) == y):.1%}")
print(f"accuracy of saying no to everyone: {np.mean(y == 0):.1%}")

# %%
# Where events are rare, accuracy rewards those who never warn, and no
# clinician would use a threshold of one half here.
#
# How many patients does it take?
# -------------------------------
#
# This question comes before the study. Suppose that the score is
# overconfident, and that we want to find out if that costs 0.005 of the
# log loss. ``required_sample_size`` answers for risks like these,
# before any outcome is known.

import scoreprism

needed = scoreprism.required_sample_size(
    reliability=0.005, y_proba=p, alternative="slope"
)
needed

# %%
# What to report
# --------------
#
# We have more patients than that. The STRATOS initiative, a group of
# statisticians who write guidance for medical research, recommends what
# a validation should show (Van Calster and others, arXiv 2412.10288):
# the area under the ROC curve, a calibration plot, the net benefit with
# its decision curve, and the distribution of risks among those with and
# without the event. Calibration can also be put into numbers, which
# belong beside the plot.

from scoreprism.metrics import evaluate

essentials = [
    "auc",
    "observed_expected_ratio",
    "calibration_slope",
    "calibration_in_the_large",
    "ici",
]
evaluate(y, p, metrics=essentials)

# %%
# - **AUC**: the chance that a patient with a stroke had a higher risk
#   than one without.
# - **O:E ratio**: strokes observed over strokes expected. Below 1 the
#   score says too much.
# - **Calibration slope**: below 1 the score is overconfident. Its high
#   risks are too high, its low risks too low.
# - **Calibration in the large**: what must be added to all log-odds so
#   that the mean risk is right, 0 if nothing is wrong.
# - **ICI**, the integrated calibration index: the mean distance between
#   the predicted and the observed risk.
#
# Two of these say what is wrong here. The interval of O:E lies below 1:
# the second hospital has fewer strokes than the score expects. The
# interval of the slope lies below 1 as well: the first hospital had few
# patients for twenty predictors, so that the score has learned some
# noise, too.

from scoreprism.displays import (
    NetBenefitDisplay,
    ReliabilityDisplay,
    ScoreDistributionDisplay,
)

figure = ReliabilityDisplay.from_predictions(
    y, p, zoom=(0, 0.6), random_state=0
)

# %%
# The grey band is where the curve of a calibrated score would be, nine
# times out of ten at each risk. Most of this curve is far below it.
#
# The next figure shows who was given which risk: those with a stroke
# above the line, the others below. Both groups are given the same total
# weight, because otherwise the few with a stroke could hardly be seen.

same_weight = np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
figure = ScoreDistributionDisplay.from_predictions(
    y, p, sample_weight=same_weight, zoom=(0, 0.6)
)

# %%
# What it means for patients
# --------------------------
#
# Whoever treats from a risk of 10 % accepts nine needless treatments
# for each patient who would have had a stroke. The net benefit is the
# share of patients who are rightly treated, minus the share of those
# who are needlessly treated divided by nine. (At other thresholds it is
# another number than nine.) A score is useful if it beats both treating
# everyone and treating no one.

thresholds = np.linspace(0, 0.3, 61)
figure = NetBenefitDisplay.from_predictions(
    y, {"as delivered": p}, thresholds=thresholds, zoom=(0, 0.3)
)

# %%
# Where the blue line is below 0, patients would be better off if the
# score did not exist. At 10 % it is above 0. Could it be higher?
#
# What can be repaired
# --------------------
#
# The decomposition separates what recalibration removes from what it
# would take a better score to remove.

found = scoreprism.decompose(y, p, X, random_state=0)
found.summary()

# %%
# The simplest repair is the one that statisticians call logistic
# recalibration: a new intercept and a new slope for the log-odds of the
# score. It is ``PlattCalibrator``. Two parameters need few outcomes.
# The first 3000 patients of the second hospital are used to fit them,
# the others to check the result.

from scoreprism.calibrators import PlattCalibrator

update = PlattCalibrator().fit(p[:3000], y[:3000])
new = slice(3000, None)
updated = update.calibrate(p[new])
evaluate(y[new], updated, metrics=essentials)

# %%
# The AUC of these patients is what it was, because a map that keeps the
# order of the risks cannot change it. The others should be near 1, 1, 0
# and 0, and their intervals contain these values.

figure = ReliabilityDisplay.from_predictions(
    y[new], updated, zoom=(0, 0.6), random_state=0
)

# %%
# The decision curves show what the patients gain. Because the cohort is
# simulated, there is a third line: the best that can be done by anyone
# who knows each patient's true risk.

three = {
    "as delivered": p[new],
    "updated": updated,
    "true risk": true_risk[new],
}
figure = NetBenefitDisplay.from_predictions(
    y[new], three, thresholds=thresholds, zoom=(0, 0.3)
)

# %%
# The answer
# ----------
#
# Here is what the update changes at the threshold of 10 %, for each
# thousand patients:

from scoreprism.curves import net_benefit

for name, risk in three.items():
    benefit = net_benefit(y[new], risk, thresholds=[0.1]).benefit[0]
    distance = np.abs(risk - true_risk[new]).mean()
    treated = np.mean(risk > 0.1)
    reached = np.mean(risk[y[new] == 1] > 0.1)
    print(f"{name}:")
    print(
        f"  {1000 * treated:.0f} treated, {reached:.0%} of all strokes"
    )
    print(f"  net benefit {1000 * benefit:.1f}")
    print(f"  distance from the true risk {distance:.1%} on average")

# %%
# No, the second hospital should not use the score as it is. After an
# update with two numbers it can. Then far fewer patients are treated,
# and the net benefit is larger. Fewer of the strokes are among the
# treated: before, the others were reached with more needless treatments
# than the hospital accepts.
#
# What still separates the score from the true risk is not calibration.
# It is what the score has not learned about the patients. The
# decomposition puts a lower bound on that under *grouping*. A score
# made from more patients could win it.
#
# Report all of it: the figures above, the table with its intervals, how
# many patients and how many strokes there were, and which patients the
# update was fitted to. ``make_report(y, p)`` collects figures, tables
# and methods on one page.
