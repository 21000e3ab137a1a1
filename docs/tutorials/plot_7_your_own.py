"""
.. _tutorial-your-own:

A loss and a calibrator of your own
===================================

A factory inspects machines that are likely to break down. It knows what
an inspection costs and roughly what a breakdown costs. What does a bad
probability cost, in its own currency, and what is the smallest repair?

Neither the loss nor the repair is in the library. You will write both,
in a few lines each. On the way you will meet a loss that seems to make
sense and does not.
"""

# %%
# Two models
# ----------
#
# Breakdowns are rare. So one of two models was trained with balanced
# classes, as is often advised.

# sphinx_gallery_thumbnail_number = 2
import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 4))
chance = expit(-2.6 + X @ [1.0, 0.7, 0.5, 0.0])
y = (rng.random(len(X)) < chance).astype(int)
train, fit, judge = slice(0, 3000), slice(3000, 3500), slice(3500, None)

models = {
    "plain": LogisticRegression(),
    "balanced": LogisticRegression(class_weight="balanced"),
}
scores = {}
for name, model in models.items():
    scores[name] = model.fit(X[train], y[train]).predict_proba(X)[:, 1]

print(f"{y.mean():.1%} of the machines break down")
for name, p in scores.items():
    print(f"{name:9} mean probability {p.mean():.1%}")

# %%
# A loss that seems to make sense
# -------------------------------
#
# A breakdown costs about six times as much as an inspection. So why not
# count the log loss of breakdowns six times? ``check_proper`` looks for
# a probability that pays better than the truth.

from scoreprism.exceptions import ImproperLossError
from scoreprism.losses import check_proper


def weighted_log_loss(p, y):
    """Six times the log loss where the machine broke down."""
    return -np.where(y == 1, 6 * np.log(p), np.log1p(-p))


try:
    check_proper(weighted_log_loss)
except ImproperLossError as error:
    print(error)

# %%
# Whoever minimises this loss must say probabilities that are too high.
# Judged by it, the balanced model would look good because it is wrong.
# The library makes no loss of such a function.
#
# The loss of the decision
# ------------------------
#
# Costs belong to decisions. If a breakdown costs as much as :math:`c`
# inspections, a machine should be inspected when its probability is
# above :math:`1/(1+c)`. A needless inspection then costs 1, and a
# breakdown that was not prevented costs :math:`c`. The factory is not
# sure about :math:`c`, only that it is between 3 and 9. So the loss is
# the average over these costs.

from scoreprism.losses import from_loss

costs = np.arange(3, 10)


def cost_of_decisions(p, y):
    """Cost of inspecting above 1/(1+c), averaged over the costs c."""
    inspected = p[:, None] > 1 / (1 + costs)
    cost = np.where(y[:, None] == 1, costs * ~inspected, inspected)
    return cost.mean(axis=1)


factory_loss = from_loss(cost_of_decisions, name="factory")
for p in (0.05, 0.15, 0.5):
    breakdown, none = factory_loss.loss([p, p], [1, 0])
    print(f"{p:.2f}: breakdown costs {breakdown:.2f}, none {none:.2f}")

# %%
# ``from_loss`` has checked that it is proper. Now everything in the
# library takes it, and answers in inspections per machine.

from scoreprism import compare

judged = {name: p[judge] for name, p in scores.items()}
by_cost = compare(y[judge], judged, loss=factory_loss, random_state=0)
by_cost

# %%

figure = by_cost.plot()

# %%
# The balanced model costs more, and the difference is reliability. The
# Murphy diagram shows at which decisions it arises. The factory's
# thresholds are in the shaded part.

from scoreprism.displays import MurphyDisplay

display = MurphyDisplay.from_predictions(y[judge], judged)
least, most = 1 / (1 + costs.max()), 1 / (1 + costs.min())
shade = display.ax_.axvspan(least, most, color="#7D848D", alpha=0.2)

# %%
# A loss from an entropy
# ----------------------
#
# There is a second way to make a loss: say how uncertain a probability
# is. For that any concave function of the probabilities will do, and
# the loss that belongs to it is proper. The sum of the square roots
# bends more at small probabilities than the entropy of the log loss
# does, so its loss gives more weight to rare events. The second
# function is its gradient, which may be left out.

from scoreprism.losses import from_entropy

root_loss = from_entropy(
    lambda q: np.sqrt(q).sum(axis=1) - 1,
    lambda q: 0.5 / np.sqrt(q),
    name="root",
)
compare(y[judge], judged, loss=root_loss, random_state=0)

# %%
# The models come in the same order, and again the difference is
# reliability. The weight of rare events has a price: single rows carry
# much of the variance.
#
# A calibrator of your own
# ------------------------
#
# What balancing does to a logistic regression is known: it adds nearly
# the same number to all log-odds. So one number should repair it. No
# calibrator in the library is that small. To write one, derive from
# ``Calibrator``, state what holds for every data set, and return the
# fitted map from ``_fit``. The map can be any function of an array of
# scores.

from dataclasses import dataclass

from scipy.optimize import brentq

from scoreprism.calibrators import Calibrator


@dataclass(frozen=True)
class Shifted:
    """Scores with the same number added to all log-odds."""

    shift: float

    def __call__(self, score):
        return expit(logit(score) + self.shift)


class ShiftCalibrator(Calibrator):
    """Add a number to all log-odds, so that the mean is right."""

    name = "shift"
    monotone = strictly_increasing = smooth = True

    def __init__(self, kind="probability"):
        self.kind = kind

    def _fit(self, data):
        def excess(shift):
            more = Shifted(shift)(data.score) - data.codes
            return np.average(more, weights=data.weight)

        self.shift_ = brentq(excess, -20, 20)
        return Shifted(self.shift_)


shift = ShiftCalibrator().fit(scores["balanced"][fit], y[fit])
print(f"shift of the log-odds: {shift.shift_:.2f}")

# %%
# Labels of any kind, frames and weights work from here on, and what
# makes no sense is refused.

from scoreprism.exceptions import InputError

yes_or_no = np.where(y[fit] == 1, "yes", "no")
words = ShiftCalibrator().fit(scores["balanced"][fit], yes_or_no)
print("classes:", *words.classes_)
try:
    shift.calibrate(100 * judged["balanced"])
except InputError as error:
    print(error)

# %%
# The calibrator can be passed wherever one is taken: ``decompose`` has
# an argument ``calibrator``, and so has ``RecalibratedClassifier``.
# What it does not have are files and SQL, which the library writes for
# its own maps only. Keep it with ``pickle``.
#
# Is one number enough?
# ---------------------
#
# The map was fitted to 500 machines. Here it is beside maps with more
# parameters, which were fitted to the same machines. All of them are
# judged on other machines.

from scoreprism.calibrators import IsotonicCalibrator, PlattCalibrator

for calibrator in (shift, PlattCalibrator(), IsotonicCalibrator()):
    calibrator.fit(scores["balanced"][fit], y[fit])
    repaired = calibrator.calibrate(scores["balanced"][judge])
    judged[f"balanced, {calibrator.name}"] = repaired
final = compare(y[judge], judged, loss=factory_loss, random_state=0)
figure = final.plot(terms=["reliability"])

# %%
# The answer
# ----------

print("inspections per machine, and how many more than the plain model")
for name in final.ranking():
    more = final.difference(name, "plain")
    difference = f"{more.risk:+.3f} ± {1.96 * more.risk_std_error:.3f}"
    print(f"{name:19} {final[name].risk:.3f}   {difference}")

# %%
# Balancing the classes made the decisions of the factory much more
# expensive. One number, fitted to 500 machines, repairs that. It is
# better still not to balance: the plain model needed no repair. And
# check a loss of your own before you use it, because the first that
# comes to mind may not be proper.
