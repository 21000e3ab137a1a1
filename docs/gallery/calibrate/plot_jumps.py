"""
A smooth map cannot follow a jump
=================================

A score may be the leaf of a tree, a grade, or a rule with a cliff. Then the
event rate jumps, and a smooth map smears the jump. Steps, bins and trees can
follow it.
"""

# %%
# One stretch of scores hides a group with a high rate.

import matplotlib.pyplot as plt
import numpy as np

from scoreprism.calibrators import (
    BinEffectsCalibrator,
    BinningCalibrator,
    MonotoneSplineCalibrator,
    TreeCalibrator,
)
from scoreprism.displays import house_style
from scoreprism.losses import get_loss


def truth(s):
    return np.where((s > 0.4) & (s < 0.6), 0.9, s)


rng = np.random.default_rng(0)
score = rng.random(5000)
y = rng.random(5000) < truth(score)
maps = [
    MonotoneSplineCalibrator(),
    BinningCalibrator(),
    BinEffectsCalibrator(),
    TreeCalibrator(),
]

# %%

grid = np.linspace(0.001, 0.999, 999)
with house_style():
    fig, axes = plt.subplots(
        1, 4, figsize=(11, 3.3), sharey=True, layout="constrained"
    )
    for ax, calibrator in zip(axes, maps, strict=True):
        calibrated = calibrator.fit(score, y).calibrate(grid)
        ax.plot(grid, truth(grid), color="#7D848D", linewidth=1)
        ax.plot(grid, calibrated)
        ax.set(title=calibrator.name, xlabel="score", aspect="equal")
        excess = get_loss("log").divergence(calibrated, truth(grid)).mean()
        print(f"{calibrator.name:16} costs {excess:.4f} more than the truth")

# %%
# Bins and the tree find both edges. The monotone spline keeps the order of the
# scores, as it promises, and so it cannot follow a rate that falls again.
