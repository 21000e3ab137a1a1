"""
Which segment loses the most?
=============================

A score may be fine on average and wrong for a group. `contributions` splits the
terms of the whole by segment, and `decompose_by` gives each segment a
decomposition of its own.
"""

# %%
# In one of three regions the score is too high. What each region contributes is
# drawn by :class:`~scoreprism.displays.ContributionsDisplay`.

import numpy as np
from scipy.special import expit, logit

from scoreprism import decompose, decompose_by
from scoreprism.datasets import CopulaLaw

X, y, q = CopulaLaw(rho=0.0).sample(6000, random_state=0)
region = np.random.default_rng(0).choice(
    ["coast", "hills", "city"], y.size, p=[0.5, 0.3, 0.2]
)
score = np.where(region == "city", expit(logit(q) + 1.2), q)

figure = decompose(y, score, random_state=0).contributions(region).plot()

# %%
# In the pooled rows the curve of the city is mixed with the others. Judged by
# its own curve, its miscalibration is plain to see.

by = decompose_by(y, score, segments=region, random_state=0)
figure = by.plot()
print(
    {
        name: round(bound, 3)
        for name, bound in by.lower_bounds("reliability").items()
    }
)

# %%
# The bounds hold together: the city is shown to be miscalibrated, and the other
# two regions are not.
