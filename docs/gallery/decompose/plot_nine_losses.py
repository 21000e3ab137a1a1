"""
Each proper loss weighs the same faults in its own way
======================================================

Which loss should you decompose? All proper losses are smallest for the true
probability, and they differ in which mistakes they charge for. The laws are
fitted once, so that the next loss costs almost nothing.
"""

# %%
# The bar of each loss shows which share of it is reliability, grouping and
# irreducible. The predictions are the same.

import matplotlib.pyplot as plt
from scipy.special import expit

from scoreprism import LOSSES, decompose
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import house_style

X, y, q = CopulaLaw(rho=0.0).sample(4000, random_state=0)
found = decompose(y, expit(8 * X[:, 0] - 4), q=q, random_state=0)

with house_style():
    fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
    for row, name in enumerate(LOSSES):
        one = found.chain.decompose(name)
        left = 0.0
        for term, color in [
            ("reliability", "#E69F00"),
            ("grouping", "#0072B2"),
            ("irreducible", "#B9BEC5"),
        ]:
            share = 100 * one.terms[term] / one.risk
            ax.barh(
                row,
                share,
                left=left,
                color=color,
                label=term if row == 0 else None,
            )
            left += share
        part = one.terms["reliability"] / one.risk
        print(f"{name:18} loss {one.risk:.4f}, reliability {part:6.1%}")
    ax.set(
        yticks=range(len(LOSSES)),
        yticklabels=list(LOSSES),
        xlabel="share of the loss, %",
    )
    ax.invert_yaxis()
    ax.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1.01))

# %%
# The log loss and the beta loss look at the ends and charge most for bold
# mistakes. The elementary and the cost-weighted loss look at one threshold, one
# half, where the boldness of this score changes no decision and costs nothing.
