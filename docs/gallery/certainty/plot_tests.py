"""
Is it calibrated, and do the features add to it?
================================================

Two questions that deserve a test. Could a calibrated score have produced these
outcomes? And do the features know more about the outcome than the score does?
The first test looks for several kinds of faults at once, and shows a p-value
for each.
"""

# %%
# The score is calibrated, and ignores one of two features.
# :class:`~scoreprism.displays.TestDisplay` shows the p-values.

import numpy as np

from scoreprism import calibration_test, grouping_test

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 2))
score = 1 / (1 + np.exp(-X[:, 0]))
unused = 0.6 * (X[:, 1] > 0) - 0.3  # moves the chance, by 0 on average
y = rng.random(2000) < np.clip(score + unused * score * (1 - score) * 4, 0, 1)

calibrated = calibration_test(y, score, random_state=0)
figure = calibrated.plot()
calibrated

# %%

grouping = grouping_test(y, score, X, random_state=0)
figure = grouping.plot()
grouping

# %%
# The first test has no objection to the calibration of this score. The second
# has no doubt that the features know more.
