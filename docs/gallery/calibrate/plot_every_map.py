"""
Thirteen maps for one score
===========================

Recalibration replaces a score by what its outcomes say. Which curve should do
that? Here is every map for two classes on the same 2,000 scores, beside the
truth. Lines, steps and splines differ in what they assume and in what they can
follow.
"""

# %%
# The true event rate bends: it is low at first, rises steeply in the middle,
# and stays high.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from scoreprism.calibrators import CALIBRATORS, get_calibrator
from scoreprism.curves import calibration_map
from scoreprism.displays import CalibrationMapDisplay, house_style


def truth(s):
    return 0.1 + 0.8 * expit(15 * (s - 0.5))


rng = np.random.default_rng(0)
score = rng.random(2000)
y = rng.random(2000) < truth(score)

names = ["identity", "platt", "temperature", "beta", "isotonic", "venn-abers"]
names += ["binning", "bin-effects", "kernel", "spline", "natural-spline"]
names += ["monotone-spline", "tree"]

# %%
# Each calibrator is a scikit-learn estimator, and `calibrate` keeps the shape
# of what comes in.

grid = np.linspace(0, 1, 201)
with house_style():
    fig, axes = plt.subplots(3, 5, figsize=(10.5, 6.8), layout="constrained")
    for ax, name in zip(axes.flat, names, strict=False):
        calibrator = get_calibrator(name).fit(score, y)
        ax.plot(grid, truth(grid), color="#7D848D", linewidth=1)
        ax.plot(grid, calibrator.calibrate(grid))
        ax.set(title=name, aspect="equal", xlim=(0, 1), ylim=(0, 1))
    for ax in axes.flat[len(names) :]:
        ax.axis("off")

# %%
# A display draws several maps on one page. The remaining families are for many
# classes, or choose among others.

shown = [
    calibration_map(y, score, calibrator=name, name=name)
    for name in ("platt", "isotonic", "monotone-spline")
]
display = CalibrationMapDisplay(shown).plot()
print("also:", *[name for name in CALIBRATORS if name not in names])

# %%
# Maps with two or three parameters cannot follow this bend. Steps and splines
# can, and the monotone spline does it smoothly without ever falling.
