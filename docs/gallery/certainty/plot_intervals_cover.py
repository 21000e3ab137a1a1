"""
Do 95 % intervals hold the truth 95 % of the time?
==================================================

An interval is a promise that can be checked where the truth is known. We draw
100 samples from a law whose exact reliability comes from quadrature, and count.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from scoreprism import decompose
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import house_style

law = CopulaLaw(rho=0.0)
truth = law.population(lambda x1, x2: expit(6 * x1 - 3), "brier").reliability

intervals = []
for seed in range(100):
    X, y, _ = law.sample(1000, random_state=seed)
    found = decompose(
        y, expit(6 * X[:, 0] - 3), loss="brier", repeats=1, random_state=0
    )
    intervals.append(found.interval("reliability"))
low, high = np.array([(one.low, one.high) for one in intervals]).T
holds = (low <= truth) & (truth <= high)

# %%

order = np.argsort(low + high)
with house_style():
    fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for row, i in enumerate(order):
        ax.plot(
            [row, row],
            [low[i], high[i]],
            color="#0072B2" if holds[i] else "#D55E00",
            linewidth=1.4,
        )
    ax.axhline(truth, color="#222222", linewidth=0.9)
    ax.set(
        xlabel="samples, in order of the middle of their interval",
        ylabel="reliability, Brier",
    )

share = holds.mean()
error = np.sqrt(0.95 * 0.05 / holds.size)
print(f"{holds.sum()} of {holds.size} intervals hold the truth, {truth:.5f}")
print(f"share {share:.2f}; 0.95 would have a standard error of {error:.3f}")

# %%
# Intervals that miss are orange. These intervals make no assumption about the
# shape of the calibration curve, and tend to be a little too wide rather than
# too narrow.
