"""
The average of two calibrated scores is not calibrated
======================================================

When calibrated models are averaged, the average is too timid. Where two models
agree, they agree for a reason, and the truth lies further out than their mean.
First the paper's example, which is exact; then the same effect in data.
"""

# %%
# Each of two models says 1/4 or 3/4, and all four combinations are equally
# common. If both say 1/4 the event never happens, if both say 3/4 it always
# does.

import matplotlib.pyplot as plt
import numpy as np

from scoreprism import FiniteModel
from scoreprism.displays import house_style

first, second = np.array([[0.25, 0.25, 0.75, 0.75], [0.25, 0.75, 0.25, 0.75]])
population = FiniteModel(prob=np.full(4, 0.25), law=[0.0, 0.5, 0.5, 1.0])
mean = (first + second) / 2

with house_style():
    fig, ax = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
    ax.axline((0, 0), slope=1, color="#888888", linewidth=0.8)
    for name, score, marker in [
        ("each model", first, "s"),
        ("their average", mean, "o"),
    ]:
        ax.plot(
            score, population.level(score), marker, markersize=9, label=name
        )
    ax.set(
        xlabel="score",
        ylabel="event rate at that score",
        aspect="equal",
        xlim=(0, 1),
        ylim=(-0.03, 1.03),
    )
    ax.legend()

for name, score in [
    ("first model", first),
    ("second model", second),
    ("average", mean),
]:
    exact = population.decompose(score, {"C": score}, loss="brier")
    print(f"{name:13} reliability {exact.terms['reliability']:.5f}")

# %%
# In data the true chances are unknown, but the effect grows with the
# disagreement of the models. `averaging_gap` compares what the disagreement
# predicts with what the outcomes show. A few numbers with intervals are drawn
# by :class:`~scoreprism.displays.EstimatesDisplay`.

from scoreprism.ensembles import averaging_gap

rng = np.random.default_rng(0)
state = rng.integers(4, size=2000)
y = rng.random(2000) < population.law[state]
gap = averaging_gap(y, {"first": first[state], "second": second[state]})
figure = gap.plot()
gap

# %%
# Both models stand on the diagonal and their average does not: it says 1/4
# where the event never happens. The gap that the disagreement of the models
# predicts lies within the interval of the one that the outcomes show.
