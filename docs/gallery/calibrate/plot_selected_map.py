"""
Let cross-validation choose the map, or none
============================================

The safest default is a map that is chosen from a few, keeps the order of the
scores, and leaves them alone if nothing is shown to be better. That is
`SelectedCalibrator`, and it tells what it chose and why.
"""

# %%
# Three scores for the same outcomes: calibrated, too bold, and bent.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from scoreprism.calibrators import SelectedCalibrator
from scoreprism.displays import house_style

rng = np.random.default_rng(0)
chance = rng.beta(1.5, 1.5, 3000)
y = rng.random(3000) < chance
scores = {
    "calibrated": chance,
    "too bold": expit(2 * logit(chance)),
    "bent": chance**2,
}

with house_style():
    fig, axes = plt.subplots(
        1, 3, figsize=(9, 3.4), sharey=True, layout="constrained"
    )
    for ax, (name, score) in zip(axes, scores.items(), strict=True):
        chosen = SelectedCalibrator().fit(score, y)
        order = np.argsort(score)
        ax.axline((0, 0), slope=1, color="#888888", linewidth=0.8)
        ax.plot(score[order], chosen.calibrate(score[order]))
        ax.set(
            title=f"{name}: {chosen.selected_}",
            xlabel="score",
            aspect="equal",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        print(
            name,
            {
                candidate: round(float(loss), 4)
                for candidate, loss in chosen.losses_.items()
            },
        )

# %%
# The calibrated score stays as it is. The other two get the simplest map that
# cross-validation cannot tell from the best one.
