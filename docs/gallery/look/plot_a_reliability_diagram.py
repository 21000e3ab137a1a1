"""
Is the curve off the diagonal by more than chance?
==================================================

A reliability diagram always wiggles. The band shows where the curve would run
if the scores were calibrated, so what leaves the band is not chance. There are
no bins to choose, and four ways to draw the curve.
"""

# %%
# An overconfident score: too low where it is low, too high where it is high.

import matplotlib.pyplot as plt
from scipy.special import expit

from scoreprism.datasets import CopulaLaw
from scoreprism.displays import ReliabilityDisplay, house_style

X, y, _ = CopulaLaw(rho=0.0).sample(2500, random_state=0)
score = expit(7 * X[:, 0] + 3 * X[:, 1] - 5)
display = ReliabilityDisplay.from_predictions(
    y, score, name="overconfident", random_state=0
)

# %%
# The default is isotonic regression, which assumes only that higher scores do
# not mean lower event rates. A spline is smooth, a kernel and bins assume no
# order. Here they carry a band for the true curve instead.

with house_style():
    fig, axes = plt.subplots(1, 3, figsize=(12, 4.9), layout="constrained")
    for ax, method in zip(axes, ["spline", "kernel", "bins"], strict=True):
        ReliabilityDisplay.from_predictions(
            y, score, method=method, band="confidence", random_state=0, ax=ax
        )
        ax.set_title(method)

# %%
# The curve leaves the consistency band at both ends: this score is bolder than
# its outcomes allow, and chance alone does not explain it.
