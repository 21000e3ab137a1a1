"""
A probability with an interval that is valid in small samples
=============================================================

A map fitted to 200 rows is uncertain, and a single number hides it. Venn–Abers
calibration gives two numbers for each score: one is computed as if this case
had no event, the other as if it had one. The one that fits the outcome is
calibrated, and all that is assumed is that rows are exchangeable.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

from scoreprism.calibrators import VennAbersCalibrator
from scoreprism.displays import house_style

rng = np.random.default_rng(0)
grid = np.linspace(0, 1, 501)

with house_style():
    fig, axes = plt.subplots(
        1, 2, figsize=(9, 4.3), sharey=True, layout="constrained"
    )
    for ax, n in zip(axes, [200, 5000], strict=True):
        score = rng.random(n)
        y = rng.random(n) < score**2
        calibrator = VennAbersCalibrator().fit(score, y)
        low, high = calibrator.predict_interval(grid).T
        ax.fill_between(
            grid,
            low,
            high,
            color="#0072B2",
            alpha=0.3,
            step="mid",
            label="interval",
        )
        ax.plot(grid, calibrator.calibrate(grid), label="one probability")
        ax.plot(grid, grid**2, color="#666666", linewidth=1, label="truth")
        ax.set(
            title=f"{n:,} rows",
            xlabel="score",
            aspect="equal",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        ax.legend(loc="upper left", bbox_to_anchor=(0.03, 0.98))
        print(f"{n:5,} rows: mean width {np.mean(high - low):.3f}")

# %%
# The interval is wide where rows are few and shrinks as they come in. It is not
# an interval for the curve: it says how much one more case could move the
# probability.
