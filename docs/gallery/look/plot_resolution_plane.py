"""
Which models to recalibrate, and which to drop?
===============================================

In the plane of reliability and resolution, models on one slanted line have the
same loss. Recalibration moves a model to the left, and learning more moves it
up. So the plane tells models that know little from models that say it badly.
"""

# %%
# The models see one feature or two, and say what they know timidly or boldly.

import numpy as np
from scipy.special import expit

from scoreprism.displays import ResolutionPlaneDisplay

rng = np.random.default_rng(0)
x1, x2 = rng.normal(size=(2, 5000))
y = rng.random(5000) < expit(1.5 * x1 + x2)
words = {0.5: "timid", 1.0: "plain", 2.0: "bold"}
logits = {"first": 1.3 * x1, "second": 0.8 * x2, "both": 1.5 * x1 + x2}
models = {
    f"{data}, {word}": expit(t * z)
    for data, z in logits.items()
    for t, word in words.items()
}
display = ResolutionPlaneDisplay.from_predictions(y, models, loss="brier")

# %%
# Models stand in three rows, one for what each of them knows. Within a row they
# differ by their boldness alone, and recalibration makes them equal.
