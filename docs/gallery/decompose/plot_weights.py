"""
Weights bring a sample back to its population
=============================================

Events are rare, so somebody kept all of them and only every tenth non-event. In
such a sample a calibrated score looks far too low. Weights undo the sampling:
`sample_weight` says how many rows of the population each row stands for.
"""

# %%

import numpy as np
from scipy.special import expit

from scoreprism import decompose
from scoreprism.displays import ReliabilityDisplay, house_style

rng = np.random.default_rng(0)
score = expit(rng.normal(-3, 1.2, 30_000))  # calibrated in the population
y = rng.random(score.size) < score
kept = y | (rng.random(score.size) < 0.1)
score, y = score[kept], y[kept]
weight = np.where(y, 1.0, 10.0)

# %%

import matplotlib.pyplot as plt

with house_style():
    fig, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
    for ax, title, options in zip(
        axes,
        ["the sample as it is", "weighted"],
        [{}, {"sample_weight": weight}],
        strict=True,
    ):
        ReliabilityDisplay.from_predictions(
            y, score, ax=ax, random_state=0, **options
        )
        ax.set_title(title)
        interval = decompose(y, score, random_state=0, **options).interval(
            "reliability"
        )
        low, high = interval.low, interval.high
        print(f"{title:20} reliability between {low:.4f} and {high:.4f}")

# %%
# Without weights the score seems to be far too low. With them it stays inside
# the band around the diagonal.
