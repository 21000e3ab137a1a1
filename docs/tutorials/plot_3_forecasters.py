"""
.. _tutorial-forecasters:

Three forecasters of rain
=========================

Three services forecast the probability of rain for tomorrow. Which one is best, and can they be combined into
something better than any of them?

The tutorial ranks the forecasters, finds that the ranking depends on who asks, averages them, sees what averaging costs,
and ends with a combination that loses next to nothing. The weather is simulated, so that we know what each service knows.
"""

# %%
# The forecasters
# ---------------
#
# Rain depends on two things: the air that arrives from the west, and the ground below. *West* knows the first, *Ground*
# knows the second, and both are honest: what they say is the chance of rain given what they know. *Bold* sees something
# of both, and exaggerates.

import numpy as np
from scipy.special import expit

rng = np.random.default_rng(0)
days = 3000
west, ground, blur = rng.normal(size=(3, days))
chance = expit(-0.5 + 1.3 * west + 1.1 * ground)
rain = (rng.random(days) < chance).astype(int)


def know_one(seen, unseen_weight):
    """The chance of rain given one of the two, averaged over the other."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return expit(-0.5 + seen[:, None] + unseen_weight * nodes) @ weights / weights.sum()


forecasts = {
    "West": know_one(1.3 * west, unseen_weight=1.1),
    "Ground": know_one(1.1 * ground, unseen_weight=1.3),
    "Bold": expit(2.2 * (-0.5 + 1.0 * west + 0.8 * ground + 0.7 * blur)),
}
print(f"{days} days, rain on {rain.mean():.0%} of them")

# %%
# Who is best?
# ------------
#
# The log loss is proper: a forecaster does best by saying what it believes. ``compare`` ranks the three by it, and
# splits each loss into what recalibration would remove (reliability) and the rest (refinement).

import scoreprism

table = scoreprism.compare(rain, forecasts, random_state=0)
table

# %%
# Bold comes last. But look at the two columns: its loss is largely miscalibration, and its refinement is the smallest of
# the three. It knows most and says it badly.
#
# Does it matter that this is the log loss? There are as many proper losses as there are uses of a forecast. Someone who
# cancels a walk from a chance of 80 % has another loss than someone who takes an umbrella from a chance of 10 %. A Murphy
# diagram shows all of them at once: the loss of those who act from each threshold.

from scoreprism.displays import MurphyDisplay

figure = MurphyDisplay.from_predictions(rain, forecasts)

# %%
# The curves cross. For decisions at middling chances Bold is the best forecaster; for decisions at small or large ones
# it is the worst, and worse than always saying the average, which is the grey line. A forecaster whose curve lies below
# another's everywhere is better for everyone; West is better than Ground in nearly this sense. Where curves cross, "the
# best forecaster" means nothing until one says what the forecast is for.
#
# Two honest forecasters, averaged
# --------------------------------
#
# West and Ground know different things, so it seems wise to listen to both. The simplest way is to average them.

from scoreprism.displays import ReliabilityDisplay
from scoreprism.ensembles import average

pair = {name: forecasts[name] for name in ("West", "Ground")}
mean = average(pair)
figure = ReliabilityDisplay.from_predictions(rain, mean, name="mean of West and Ground", random_state=0)

# %%
# Each of them is calibrated, and their average is not. It is underconfident: the curve is steeper than the diagonal. When
# West and Ground both say 70 %, each for a reason of its own, the chance is more than 70 %. This is a theorem, not bad
# luck. The average of different calibrated forecasts is never calibrated (Ranjan and Gneiting, 2010), and the more they
# disagree, the further off it is. ``averaging_gap`` computes how far off it must be, from the forecasts alone, and
# compares that with the outcomes.

from scoreprism.ensembles import averaging_gap

averaging_gap(rain, pair)

# %%
# What averaging costs
# --------------------
#
# An average can lose in two ways. It is miscalibrated, which recalibration repairs. And it keeps one number where there
# were two, which no map of that number can repair. ``aggregation_decomposition`` calls the second loss *projection*. We
# ask it about all three forecasters.

from scoreprism.ensembles import aggregation_decomposition

found = aggregation_decomposition(rain, forecasts, random_state=0)
figure = found.plot()

# %%
# For each forecaster alone, *projection* is what is lost by not listening to the others. For the mean, it is what is lost
# by keeping only the mean. What could be done about it, and what each action gains:

found.actions

# %%

print(*found.advice, sep="\n")

# %%
# Does the average contain all that the three know? That is a question of its own, called sufficiency, and has a test of
# its own. A small p-value says that it does not. For the mean of West and Ground the test finds no such evidence: a mean
# can be miscalibrated and still contain everything that matters. Then recalibrating it is enough. For all three the mean
# forgets who said what, and it matters who said it.

from scoreprism.ensembles import sufficiency_test

print(f"all three: p = {sufficiency_test(rain, forecasts).pvalue:.1g}")
print(f"West and Ground alone: p = {sufficiency_test(rain, pair).pvalue:.1g}")

# %%
# Stacking
# --------
#
# Stacking fits a logistic regression to the log-odds of the members. It needs outcomes, and it must be judged on days on
# which it was not fitted. So the first half of the days fits it, and the second half judges everybody.

from scoreprism.ensembles import Stacking

past, later = slice(0, days // 2), slice(days // 2, None)
stack = Stacking().fit({name: p[past] for name, p in forecasts.items()}, rain[past])
for name, weight in zip(stack.member_names_, np.ravel(stack.coef_), strict=True):
    print(f"{name:7} {weight:.2f}")

# %%
# In an average of three each would count a third. Here West and Ground count for more than 1: the log-odds of honest
# forecasters who have different reasons add up. Bold gets little weight, since the other two together know what it
# knows.

later_forecasts = {name: p[later] for name, p in forecasts.items()}
candidates = later_forecasts | {
    "mean": average(later_forecasts),
    "stack": stack.predict_proba(later_forecasts)[:, 1],
    "true chance": chance[later],
}
final = scoreprism.compare(rain[later], candidates, random_state=0)
figure = final.plot()

# %%
# The simulation lets us draw the true chance as well, which nobody can beat except by luck. The stack is close to it.
#
# The answer
# ----------

gain = final.difference("mean", "stack")
error = 1.96 * gain.risk_std_error
best = min(forecasts, key=lambda name: final[name].risk)
print(f"best alone: {best}, log loss {final[best].risk:.3f}")
print(f"the mean of all three: {final['mean'].risk:.3f}")
print(f"the stack: {final['stack'].risk:.3f}, better than the mean by {gain.risk:.3f} ± {error:.3f}")
print(f"the true chance: {final['true chance'].risk:.3f}")

# %%
# No forecaster is the best for everyone, because their Murphy curves cross. Averaging all three beats each of them, and
# still leaves something on the table, part of it as miscalibration and part of it as forgotten differences. If there
# are outcomes to learn from, stack the forecasters. If there are none, average them, and expect the average to be too
# timid.
