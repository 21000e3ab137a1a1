"""
With few rows, simple maps win
==============================

A flexible map can follow any curve and pays for that with noise. How many rows
does it need before it is worth it? The true curve is known here, so we can
compute what each map costs beyond the best one.
"""

# %%
# The score is twice as bold as it should be. For each size we fit the maps to
# 20 samples.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from scoreprism.calibrators import get_calibrator
from scoreprism.displays import house_style
from scoreprism.losses import get_loss

loss = get_loss("log")
grid = np.linspace(0.005, 0.995, 199)  # uniform scores
truth = expit(0.5 * logit(grid))
rng = np.random.default_rng(0)
sizes = [100, 200, 500, 1000, 2000, 5000]
names = ["identity", "platt", "isotonic", "monotone-spline", "selected"]
excess = {name: [] for name in names}
for n in sizes:
    samples = [rng.random(n) for _ in range(20)]
    outcomes = [rng.random(n) < expit(0.5 * logit(s)) for s in samples]
    for name in names:
        maps = [
            get_calibrator(name).fit(s, y)
            for s, y in zip(samples, outcomes, strict=True)
        ]
        excess[name].append(
            np.mean(
                [loss.divergence(m.calibrate(grid), truth).mean() for m in maps]
            )
        )

# %%

with house_style():
    fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
    for name, costs in excess.items():
        ax.plot(sizes, costs, "o-", label=name)
    ax.set(
        xscale="log",
        yscale="log",
        xticks=sizes,
        xticklabels=sizes,
        xlabel="rows to fit the map",
    )
    ax.set_ylabel("log loss above that of the best map")
    ax.minorticks_off()
    ax.legend()

# %%
# Platt's line is true here, and hardly anything beats it. The monotone spline
# costs little more, and isotonic regression needs many times the rows. The
# selected map is cautious: with 100 rows it often leaves the score alone, and
# from 500 rows on it is nearly as good as the best.
