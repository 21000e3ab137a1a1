"""
No recalibration gets below the refinement
==========================================

Among all functions of a score, the best one is C = P(Y | S). Any other map
costs exactly its distance to C more. So there is a floor that no recalibration
can pass, and only a better score can. Here the law is known, and the floor is
exact.
"""

# %%
# The score is too bold. We soften its log-odds by a temperature, and compute
# the exact loss of each softened score.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from scoreprism.datasets import CopulaLaw
from scoreprism.displays import house_style
from scoreprism.losses import get_loss

loss = get_loss("log")
law = CopulaLaw(rho=0.0)
nodes = law.score_law(
    lambda x1, x2: expit(8 * x1 + 2 * x2 - 5)
)  # S and C, with their probabilities
temperatures = np.linspace(1.3, 5, 80)
softened = expit(logit(nodes.score) / temperatures[:, None])
excess = np.array(
    [nodes.mass @ loss.divergence(s, nodes.calibrated) for s in softened]
)
refinement = nodes.mass @ loss.entropy(nodes.calibrated)
irreducible = law.irreducible("log")

# %%

with house_style():
    fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    ax.plot(
        temperatures, refinement + excess, label="loss of the softened score"
    )
    ax.axhline(
        refinement, color="#B87700", label="refinement: loss of C, the best map"
    )
    ax.axhline(
        irreducible,
        color="#7D848D",
        label="irreducible: loss of the best score",
    )
    ax.set(xlabel="temperature", ylabel="expected log loss")
    ax.legend()

best = int(np.argmin(excess))
print(f"best temperature {temperatures[best]:.2f}")
print(f"{excess[best]:.5f} above the refinement")
print(f"what no map of this score can remove: {refinement - irreducible:.5f}")

# %%
# The curve comes close to the floor and does not cross it: temperatures are
# only some of the possible maps. The gap between the two lines is the grouping
# term, and recalibration leaves it alone.
