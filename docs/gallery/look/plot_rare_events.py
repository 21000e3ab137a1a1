"""
When all probabilities are small, look into the corner
======================================================

If one case in a hundred has the event, nearly all scores are below 0.1, and a
diagram from 0 to 1 is a blank page. Figures zoom to the corner that holds 99 %
of the scores. The numbers do not change.
"""

# %%
# Scores that promise twice as many events as there are.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from scoreprism.displays import ReliabilityDisplay, house_style
from scoreprism.metrics import observed_expected_ratio

rng = np.random.default_rng(0)
logit = rng.normal(-5, 1.2, 40_000)
y = rng.random(logit.size) < expit(logit)
score = expit(logit + np.log(2))

with house_style():
    fig, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
    for ax, zoom, title in zip(
        axes,
        ["auto", None],
        ["the corner, by default", "zoom=None"],
        strict=True,
    ):
        ReliabilityDisplay.from_predictions(
            y, score, ax=ax, zoom=zoom, random_state=0
        )
        ax.set_title(title)

# %%
# How many events are there for each one that was expected?

ratio = observed_expected_ratio(y, score)
interval = ratio.interval()
print(f"{int(y.sum())} events in {y.size:,} rows")
print(f"observed / expected {float(ratio):.2f}")
print(f"95 % interval {interval.low:.2f} to {interval.high:.2f}")

# %%
# In the corner the curve runs at half the height of the diagonal, as the ratio
# says. On the full square, almost all rows sit in the first tenth.
