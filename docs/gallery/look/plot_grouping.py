"""
Equal scores, unequal chances
=============================

Two people get the same score. Do they have the same chance? If their features
say otherwise, the score groups cases that differ, and a better model would tell
them apart. Recalibration cannot.
"""

# %%
# Both scores are calibrated. One uses both features, the other only the first.

import numpy as np

from scoreprism.datasets import CopulaLaw
from scoreprism.displays import GroupingDisplay

law = CopulaLaw(rho=0.0)
X, y, q = law.sample(4000, random_state=0)
known = law.score_law(lambda x1, x2: x1)
one_feature = np.interp(X[:, 0], known.score, known.calibrated)  # P(Y = 1 | x1)
display = GroupingDisplay.from_predictions(y, one_feature, q=q, random_state=0)

# %%
# Several models are compared by the spread alone. A hollow point does not
# refute that it is 0.

display = GroupingDisplay.from_predictions(
    y, {"one feature": one_feature, "both features": q}, q=q, random_state=0
)

# %%
# Among cases of one score the chances spread widely for the first model,
# although it is calibrated. For the second, which uses both features, no spread
# is shown.
