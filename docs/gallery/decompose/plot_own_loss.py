"""
A loss of your own
==================

Suppose that a wrong probability hurts most where it is small, as in fraud. A
loss can be made from its entropy: any concave function gives a proper loss. A
loss that is not proper is refused, because its terms would mean nothing.
"""

# %%
# The entropy is written for one law `p` with a column for each class; here P(Y
# = 1) is raised to the power 0.7.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from scoreprism import decompose
from scoreprism.datasets import CopulaLaw
from scoreprism.losses import check_proper, from_entropy, from_loss


def entropy(p):
    return p[:, 1] ** 0.7 - p[:, 1]


fraud = from_entropy(entropy, name="fraud")
check_proper(fraud)

X, y, q = CopulaLaw(rho=0.0).sample(4000, random_state=0)
score = expit(6 * X[:, 0] - 4)
fig, axes = plt.subplots(2, 1, figsize=(6.5, 4.6), layout="constrained")
for ax, loss in zip(axes, ["brier", fraud], strict=True):
    decompose(y, score, q=q, loss=loss, random_state=0).plot(ax=ax)

# %%
# The absolute error looks innocent, but it is smallest for predictions of 0 and
# 1. It is refused.

try:
    check_proper(
        from_loss(lambda p, y: np.abs(y - p[:, 1]), name="absolute error")
    )
except ValueError as error:
    print(str(error)[:160])

# %%
# Everything in the library takes the new loss by itself: decompositions,
# intervals, figures, reports.
