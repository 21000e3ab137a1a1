"""
What could be removed from this loss?
=====================================

One number for the loss says little by itself. Is the score miscalibrated, does
the model leave information unused, or do the features know no more? The
waterfall shows how much of the loss belongs to each.
"""

# %%
# An overconfident model sees one of two features. Predictions are of rows it
# was not trained on. `plot()` draws a
# :class:`~scoreprism.displays.DecompositionDisplay`.

from scipy.special import expit

from scoreprism import decompose
from scoreprism.datasets import CopulaLaw

X, y, _ = CopulaLaw(rho=0.0).sample(4000, random_state=0)
score = expit(6 * X[:, 0] - 3)
found = decompose(y, score, X, random_state=0)
figure = found.plot()

# %%
# The summary holds the same numbers, what is known about each of them, and what
# to do.

found.summary()

# %%
# Reliability is what recalibration removes, grouping is what a better model of
# the same features could remove, and the rest would take better data.
