"""
.. _tutorial-forecasters:

Three forecasters of rain
=========================

Three services forecast the probability of rain for tomorrow. Which one
is best, and can they be combined into something better than any of
them?

The tutorial ranks the forecasters, finds that the ranking depends on
who asks, measures what averaging them costs, and ends with a
combination that loses next to nothing. The weather is simulated, so
that we know what each service knows.
"""

# %%
# The forecasters
# ---------------
#
# Rain depends on two things: the air that arrives from the west, and
# the ground below. *West* knows the first, *Ground* knows the second,
# and both are honest: what they say is the chance of rain given what
# they know. *Bold* sees something of both, and exaggerates.

import numpy as np
from scipy.special import expit

rng = np.random.default_rng(0)
days = 3000
west, ground, blur = rng.normal(size=(3, days))
chance = expit(-0.5 + 1.3 * west + 1.1 * ground)
rain = (rng.random(days) < chance).astype(int)


def know_one(seen, unseen_weight):
    """Chance of rain given one of the two, averaged over the other."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    log_odds = -0.5 + seen[:, None] + unseen_weight * nodes
    return expit(log_odds) @ weights / weights.sum()


forecasts = {
    "West": know_one(1.3 * west, unseen_weight=1.1),
    "Ground": know_one(1.1 * ground, unseen_weight=1.3),
    "Bold": expit(-1.1 + 2.2 * west + 1.76 * ground + 1.54 * blur),
}
print(f"{days} days, rain on {rain.mean():.0%} of them")

# %%
# Who is best?
# ------------
#
# The log loss is proper: a forecaster does best by saying what it
# believes. ``compare`` ranks the three by it, and splits each loss into
# what recalibration would remove (reliability) and the rest
# (refinement).

import scoreprism

table = scoreprism.compare(rain, forecasts, random_state=0)
table

# %%
# Bold comes last. But look at the two columns: its loss is largely
# miscalibration, and its refinement is the smallest of the three. It
# knows most and says it badly.
#
# Does it matter that this is the log loss? Someone who takes an
# umbrella from a chance of 10 % on needs other forecasts than someone
# who cancels a walk at 80 %. A Murphy diagram draws the loss of those
# who act at each threshold. Every proper loss is an average of these
# losses over thresholds.

from scoreprism.displays import MurphyDisplay

figure = MurphyDisplay.from_predictions(rain, forecasts)

# %%
# The curves cross. For decisions at middling chances Bold is the best
# forecaster; for decisions at small or large ones it is the worst, and
# worse than always saying the average, which is the grey line. A
# forecaster whose curve lies below another's everywhere is better for
# everyone. West is better than Ground in nearly this sense. Where
# curves cross, which forecaster is best depends on what the forecast is
# for.
#
# Two honest forecasters, averaged
# --------------------------------
#
# West and Ground know different things, so it seems wise to listen to
# both. The simplest way is to average them.

from scoreprism.displays import ReliabilityDisplay
from scoreprism.ensembles import average

pair = {name: forecasts[name] for name in ("West", "Ground")}
mean = average(pair)
figure = ReliabilityDisplay.from_predictions(
    rain, mean, name="mean of West and Ground", random_state=0
)

# %%
# Each of them is calibrated, and their average is not. It is
# underconfident: the curve is steeper than the diagonal. When West and
# Ground both say 70 %, each for a reason of its own, the chance is more
# than 70 %. There is a theorem behind this: the average of different
# calibrated forecasts is never calibrated (Ranjan and Gneiting, 2010).
# The more they disagree, the further off it is. ``averaging_gap``
# computes from the forecasts alone how far off it must be, and compares
# that with the outcomes.

from scoreprism.ensembles import averaging_gap

averaging_gap(rain, pair)

# %%
# What averaging costs
# --------------------
#
# An average can lose in two ways. It is miscalibrated, and
# recalibration can repair that. And it keeps one number where there
# were several, which no map of that number can repair.
# ``aggregation_decomposition`` calls this second loss *projection*.
# Here it is for all three forecasters.

from scoreprism.ensembles import aggregation_decomposition

found = aggregation_decomposition(rain, forecasts, random_state=0)
figure = found.plot()

# %%
# For each forecaster alone, *projection* is what is lost by not
# listening to the others. For the mean, it is what is lost by keeping
# only the mean. The next table says what could be done about it, and
# what each action gains.

found.actions

# %%

print(*found.advice, sep="\n")

# %%
# Does the mean contain all that its members know? This is called
# sufficiency, and there is a test of it. A small p-value says that the
# mean does not.

from scoreprism.ensembles import sufficiency_test

for members in (forecasts, pair):
    test = sufficiency_test(rain, members)
    print(f"mean of {', '.join(members)}: p = {test.pvalue:.1g}")

# %%
# The mean of all three is not sufficient: it matters who said what. For
# the mean of West and Ground the test finds no such evidence. A mean
# can be miscalibrated and still contain everything that matters, and
# then it is enough to recalibrate it.
#
# Stacking
# --------
#
# Stacking fits a logistic regression to the log-odds of the members. It
# needs outcomes, and it must be judged on days on which it was not
# fitted. So the first half of the days fits it, and the second half
# judges everybody.

from scoreprism.ensembles import Stacking

past, later = slice(0, days // 2), slice(days // 2, None)
past_forecasts = {name: p[past] for name, p in forecasts.items()}
stack = Stacking().fit(past_forecasts, rain[past])
weights = np.ravel(stack.coef_)
for name, weight in zip(stack.member_names_, weights, strict=True):
    print(f"{name:7} {weight:.2f}")

# %%
# In an average of three, each would have a third of the weight. Here
# West and Ground have more than 1 each: the log-odds of honest
# forecasters who have different reasons add up. Bold gets little
# weight, since the other two together know what it knows.

later_forecasts = {name: p[later] for name, p in forecasts.items()}
candidates = later_forecasts | {
    "mean": average(later_forecasts),
    "stack": stack.predict_proba(later_forecasts)[:, 1],
    "true chance": chance[later],
}
final = scoreprism.compare(rain[later], candidates, random_state=0)
figure = final.plot()

# %%
# The simulation lets us draw the true chance as well, which nobody can
# beat except by luck. The stack is close to it.
#
# The answer
# ----------

gain = final.difference("mean", "stack")
error = 1.96 * gain.risk_std_error
best = min(forecasts, key=lambda name: final[name].risk)
print(f"best alone: {best}, log loss {final[best].risk:.3f}")
print(f"the mean of all three: {final['mean'].risk:.3f}")
print(f"the stack: {final['stack'].risk:.3f}")
print(f"the true chance: {final['true chance'].risk:.3f}")
print(f"\nthe stack gains {gain.risk:.3f} ± {error:.3f} over the mean")

# %%
# No forecaster is the best for everyone, because the Murphy curves
# cross. The average of all three is better than each of them in log
# loss, but it is miscalibrated and forgets who said what. If there are
# outcomes to learn from, stack the forecasters. If there are none,
# average them, and expect the average to be too timid.
