"""
Equal scores, unequal chances
=============================

Two people get the same score. Do they have the same chance? If their features say otherwise, the score groups cases
that differ, and a better model would tell them apart. Recalibration cannot.
"""

# %%
# Both scores are calibrated. One uses both features, the other only the first.

import numpy as np
from scipy.special import expit

from scoreprism.datasets import CopulaLaw
from scoreprism.displays import GroupingDisplay

X, y, q = CopulaLaw(rho=0.0).sample(4000, random_state=0)
law = CopulaLaw(rho=0.0)
first = np.linspace(0.005, 0.995, 100)
given_first = np.array([law.q(np.column_stack([np.full(200, x), np.linspace(0.0025, 0.9975, 200)])).mean() for x in first])
one_feature = np.interp(X[:, 0], first, given_first)  # P(Y = 1 | x1), by averaging over x2
display = GroupingDisplay.from_predictions(y, one_feature, q=q, random_state=0)

# %%
# Against the score that knows everything, there is nothing left to spread.

display = GroupingDisplay.from_predictions(y, {"one feature": one_feature, "both features": q}, q=q, random_state=0)

# %%
# Among cases of one score the chances spread widely for the first model, although it is calibrated. They do not for
# the second.
