"""
Uncertainty − resolution + reliability is the same loss
=======================================================

Meteorologists write the loss of a forecast as uncertainty minus resolution plus
reliability. That form starts at the base rate and credits the score for what it
resolves. The form with grouping starts at the score and names what is still
missing. Both hold the same reliability.
"""

# %%

import matplotlib.pyplot as plt
from scipy.special import expit

from scoreprism import decompose
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import house_style

X, y, _ = CopulaLaw(rho=0.0).sample(4000, random_state=0)
found = decompose(y, expit(6 * X[:, 0] - 3), X, loss="brier", random_state=0)

with house_style():
    fig, axes = plt.subplots(2, 1, figsize=(6.5, 4.6), layout="constrained")
    found.plot(ax=axes[0])
    axes[0].set_title("what is missing")
    found.resolution_form.plot(ax=axes[1])
    axes[1].set_title("what is resolved")

for form in (found, found.resolution_form):
    print({name: round(value, 4) for name, value in form.terms.items()})

# %%
# The upper bars go down to 0. The lower ones begin with the uncertainty of the
# base rate: resolution takes away what the score knows, and reliability puts
# back what its miscalibration costs.
