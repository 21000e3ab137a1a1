"""
How many rows does it take to see a miscalibration?
===================================================

A test that finds nothing in 300 rows may say more about 300 than about the
score. Before data are collected, ask how many rows would show the
miscalibration that matters.
"""

# %%
# A miscalibration that costs 0.005 of the log loss, in scores like those that
# we have, should be found with a probability of 80 %.
# :class:`~scoreprism.displays.SampleSizeDisplay` draws that probability over
# the rows.

import numpy as np

from scoreprism import required_sample_size

scores = np.random.default_rng(0).beta(1.5, 6, 5000)
needed = required_sample_size(
    reliability=0.005, loss="log", y_proba=scores, power=0.8
)
figure = needed.plot()
needed

# %%
# Half the effect takes twice the rows, and so on.

for reliability in (0.02, 0.01, 0.005, 0.0025):
    n = required_sample_size(
        reliability=reliability, loss="log", y_proba=scores
    ).n
    print(f"reliability {reliability}: {n:,} rows")

# %%
# The curve rises towards certainty. With fewer rows than the mark, a
# miscalibration of this size is easily missed.
