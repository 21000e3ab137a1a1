"""
A calibrated score can know nothing
===================================

Calibration is a promise about averages: among the cases scored 0.5, half have
the event. A score that gives everybody the average keeps that promise and tells
nobody anything. This is the first example of the paper, where the population is
known and nothing is estimated.
"""

# %%
# Two kinds of cases are equally common. The event follows nine times in ten in
# one kind, and one time in ten in the other. We compare three scores: a
# constant, the true chance, and the true chance pushed too far.

import matplotlib.pyplot as plt

from scoreprism import FiniteModel
from scoreprism.displays import house_style

population = FiniteModel(prob=[0.5, 0.5], law=[0.9, 0.1])
scores = {
    "constant, 0.5": ([0.5, 0.5], ["all", "all"]),
    "the true chance": ([0.9, 0.1], ["first", "second"]),
    "overconfident": ([0.99, 0.01], ["first", "second"]),
}

with house_style():
    fig, axes = plt.subplots(3, 1, figsize=(6.5, 6.6), layout="constrained")
    for ax, (name, (score, same_score)) in zip(
        axes, scores.items(), strict=True
    ):
        exact = population.decompose(
            score, {"C": same_score, "Q": ["first", "second"]}, loss="brier"
        )
        exact.plot(ax=ax)
        ax.set(title=name, xlim=(0, 0.3))
        print(
            f"{name:16}",
            {term: round(value, 4) for term, value in exact.terms.items()},
        )

# %%
# The constant has a reliability of exactly 0, and recalibration can do nothing
# for it. All that it loses beyond the irreducible 0.09 is grouping: two kinds
# of cases share one score.
