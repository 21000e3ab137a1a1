"""
.. _tutorial-your-own:

A loss and a calibrator of your own
===================================

A factory inspects machines that are likely to break down. It knows what an inspection costs and roughly what a breakdown
costs. What does a bad probability cost, in its own currency, and what is the smallest repair?

Neither the loss nor the map is in the library. You will write both, a few lines each. On the way you will meet a loss
that seems to make sense and does not.
"""

# %%
# Two models
# ----------
#
# Breakdowns are rare, so one of the two models was trained with classes balanced, as is often advised.

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 4))
chance = expit(-2.6 + X @ [1.0, 0.7, 0.5, 0.0])
y = (rng.random(len(X)) < chance).astype(int)
train, fit, judge = slice(0, 3000), slice(3000, 3500), slice(3500, None)

scores = {
    "plain": LogisticRegression().fit(X[train], y[train]).predict_proba(X)[:, 1],
    "balanced": LogisticRegression(class_weight="balanced").fit(X[train], y[train]).predict_proba(X)[:, 1],
}
print(f"{y.mean():.1%} of the machines break down")
for name, p in scores.items():
    print(f"{name:9} mean probability {p[judge].mean():.1%}")

# %%
# A loss that seems to make sense
# -------------------------------
#
# A breakdown costs about six times as much as an inspection. So why not count the log loss of breakdowns six times?
# ``check_proper`` looks for a probability that pays better than the truth.

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
# This loss asks for lies. Whoever minimises it says probabilities that are too high, and judged by it the balanced model
# would look good because it is wrong. The library refuses such a loss wherever it is passed.
#
# The loss of the decision
# ------------------------
#
# Costs belong to decisions. If a breakdown costs :math:`c` inspections, a machine should be inspected from a probability
# of :math:`1/(1+c)`. A needless inspection then costs 1, and a breakdown that was not prevented costs :math:`c`. The
# factory is not sure about :math:`c`. It is somewhere between 3 and 9, so the loss is the average over these costs.

from scoreprism.losses import from_loss

costs = np.arange(3, 10)


def cost_of_decisions(p, y):
    """Mean cost of inspecting above 1/(1+c), in inspections, over the costs c of a breakdown."""
    inspected = p[:, None] > 1 / (1 + costs)
    return np.where(y[:, None] == 1, costs * ~inspected, inspected).mean(axis=1)


factory_loss = from_loss(cost_of_decisions, name="factory")
for p in (0.05, 0.15, 0.5):
    breakdown, none = factory_loss.loss([p, p], [1, 0])
    print(f"a probability of {p:.2f} costs {breakdown:.2f} if the machine breaks down, {none:.2f} if not")

# %%
# ``from_loss`` checked that it is proper. Everything in the library takes it now, and answers in inspections per machine.

from scoreprism import compare

by_cost = compare(y[judge], {name: p[judge] for name, p in scores.items()}, loss=factory_loss, random_state=0)
by_cost

# %%

figure = by_cost.plot()

# %%
# The balanced model costs more, and all that it costs more is reliability. The Murphy diagram shows where: it draws the
# loss at each decision threshold. The factory's thresholds are in the shaded part.

from scoreprism.displays import MurphyDisplay

display = MurphyDisplay.from_predictions(y[judge], {name: p[judge] for name, p in scores.items()})
shade = display.ax_.axvspan(1 / (1 + costs.max()), 1 / (1 + costs.min()), color="#7D848D", alpha=0.2, linewidth=0)

# %%
# A loss from an entropy
# ----------------------
#
# There is a second way to make a loss: say how uncertain a probability is. Any concave function of the probabilities will
# do, and the loss that belongs to it is proper by construction. The sum of the square roots bends most at small
# probabilities, so its loss cares more about rare events than the log loss does. It works for any number of classes.

from scoreprism.losses import from_entropy

root_loss = from_entropy(lambda q: np.sqrt(q).sum(axis=1) - 1, lambda q: 0.5 / np.sqrt(q), name="root")
compare(y[judge], {name: p[judge] for name, p in scores.items()}, loss=root_loss, random_state=0)

# %%
# The order of the models is the same, and again the difference is reliability.
#
# A calibrator of your own
# ------------------------
#
# What balancing does to the probabilities of a logistic regression is known: it adds nearly the same number to all
# log-odds. So one number should repair it. No calibrator in the library is that small. To write one, derive from ``Calibrator``, say what holds for every data set,
# and return the fitted map from ``_fit``. The map can be any function of an array of scores.

from dataclasses import dataclass

from scipy.optimize import brentq

from scoreprism.calibrators import Calibrator


@dataclass(frozen=True)
class Shifted:
    """Scores with the same number added to all log-odds."""

    shift: float

    def __call__(self, score):
        return expit(logit(np.clip(score, 1e-9, 1 - 1e-9)) + self.shift)


class ShiftCalibrator(Calibrator):
    """Add to all log-odds the number that makes the mean probability right."""

    name = "shift"
    monotone = strictly_increasing = smooth = True

    def __init__(self, kind="probability"):
        self.kind = kind

    def _fit(self, data):
        rate = np.average(data.codes, weights=data.weight)
        self.shift_ = brentq(lambda shift: np.average(Shifted(shift)(data.score), weights=data.weight) - rate, -20, 20)
        return Shifted(self.shift_)


shift = ShiftCalibrator().fit(scores["balanced"][fit], y[fit])
print(f"shift of the log-odds: {shift.shift_:.2f}")

# %%
# What comes for free: labels of any kind, frames, weights, and clear refusals,

from scoreprism.exceptions import InputError

words = ShiftCalibrator().fit(scores["balanced"][fit], np.where(y[fit] == 1, "yes", "no"))
print("classes:", *words.classes_)
try:
    shift.calibrate(100 * scores["balanced"][judge])
except InputError as error:
    print(error)

# %%
# and a place wherever a calibrator is taken: in ``decompose(calibrator=...)``, in ``RecalibratedClassifier``, in
# scikit-learn's pipelines. What does not come for free are files and SQL: the library writes its own maps only, because
# it would have to store your code.
#
# Is small good?
# --------------
#
# The map was fitted to 500 machines. Here it is against maps with more parameters, fitted to the same machines, on
# machines that none of them has seen.

from scoreprism.calibrators import IsotonicCalibrator, PlattCalibrator

maps = {"shift": shift, "platt": PlattCalibrator(), "isotonic": IsotonicCalibrator()}
repaired = {"plain": scores["plain"][judge], "balanced": scores["balanced"][judge]}
for name, calibrator in maps.items():
    calibrator.fit(scores["balanced"][fit], y[fit])
    repaired[f"balanced, {name}"] = calibrator.calibrate(scores["balanced"][judge])
final = compare(y[judge], repaired, loss=factory_loss, random_state=0)
figure = final.plot(terms=["reliability"])

# %%
# The answer
# ----------

print("inspections per machine:")
for name in final.ranking():
    difference = final.difference(name, "plain")
    margin = 1.96 * difference.risk_std_error
    versus = "" if name == "plain" else f", {difference.risk:+.3f} ± {margin:.3f} against plain"
    print(f"  {name:19} {final[name].risk:.3f}{versus}")

# %%
# Balancing the classes cost the factory a good part of an inspection for each machine, in decisions it would not have
# made at the right probabilities. One number, learned from 500 machines, gives it back. Better still is not to balance:
# the plain model needed no repair. And the loss one thinks of first may be improper, so check it before you trust it.
