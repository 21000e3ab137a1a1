"""
What is lost on the way from the features to an average?
========================================================

An ensemble that is averaged loses twice: the mean may be miscalibrated, and one number may say less than all members
together. Both are terms of the same loss. `aggregation_decomposition` estimates them along the chain from the mean, to
the mean recalibrated, to all members kept, to the features.
"""

# %%
# Two models see one feature each. Which of the two losses is larger?

from scipy.special import expit

from scoreprism.datasets import CopulaLaw
from scoreprism.ensembles import aggregation_decomposition

X, y, _ = CopulaLaw(rho=0.0).sample(4000, random_state=0)
members = {"first feature": expit(4 * X[:, 0] - 2), "second feature": expit(4 * X[:, 1] - 2)}
found = aggregation_decomposition(y, members, X, random_state=0)
figure = found.plot()

# %%
# The terms belong to four actions, and each action has a gain with an interval.

figure = found.actions.plot()
print(*found.advice, sep="\n")

# %%
# A single model loses mostly what the other one knows. The mean loses less, but recalibrating it recovers only a part
# of what stacking the two members recovers.
