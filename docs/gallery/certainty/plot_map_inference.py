"""
How sure are the slope and the intercept?
=========================================

Platt's map has two numbers, and validation studies report them: an intercept
near 0 and a slope near 1 speak for a good score. `map_inference` gives them
standard errors, also if patients are clustered in hospitals, and a band around
the map.
"""

# %%
# The score of another hospital: too bold, and a little too high.

import numpy as np
from scipy.special import expit

from scoreprism.inference import map_inference

rng = np.random.default_rng(0)
z = rng.normal(-1, 1.5, 800)
y = rng.random(800) < expit(0.7 * z - 0.2)
result = map_inference(y, expit(z), calibrator="platt")
result

# %%
# The band shows where the map is known. Summaries say what the departure
# amounts to.

figure = result.plot()
for kind in ("ici", "reliability"):
    print(result.summary(kind))

# %%
# The interval of the slope lies below 1: the score is bolder than it should be
# in this hospital.
