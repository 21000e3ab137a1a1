"""
What is lost on the way from the features to an average?
========================================================

An ensemble that is averaged loses twice: the mean may be miscalibrated, and one
number may say less than all members together. Both are terms of the same loss.
`aggregation_decomposition` estimates them along the chain from the mean, to the
mean recalibrated, to all members kept, to the features.
"""

# %%
# Two models see one feature each, and one of the features says much more. Which
# of the two losses of their mean is larger?

import numpy as np
from scipy.special import expit

from scoreprism.ensembles import aggregation_decomposition

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 2))
y = rng.random(4000) < expit(2.2 * X[:, 0] + 0.9 * X[:, 1])
members = {
    "first feature": expit(2 * X[:, 0]),
    "second feature": expit(0.6 * X[:, 1]),
}
found = aggregation_decomposition(y, members, X, random_state=0)
figure = found.plot()

# %%
# The terms belong to four actions, and each action has a gain with an interval.

figure = found.actions.plot()
print(*found.advice, sep="\n")

# %%
# Most of what the mean loses is miscalibration: it is too timid, and a map
# removes that. A smaller part, the projection, is what one number says less
# than both members, and stacking recovers it. A member alone loses mostly what
# the other one knows.
