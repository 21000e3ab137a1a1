"""
Better for every decision, or only for some?
============================================

Two models with nearly the same loss may serve different decisions. A Murphy
diagram shows the loss at every decision threshold, from 0 to 1. A model whose
curve is lower everywhere is better under every proper loss. If curves cross,
the ranking depends on the decision.
"""

# %%
# Both models are calibrated. One tells low risks apart and lumps high ones
# together, the other does the reverse.

import numpy as np

from scoreprism.displays import MurphyDisplay
from scoreprism.metrics import log_loss

rng = np.random.default_rng(0)
chance = rng.beta(0.8, 0.8, 6000)
y = rng.random(chance.size) < chance
low = chance < 0.5
models = {
    "fine at low risk": np.where(low, chance, chance[~low].mean()),
    "fine at high risk": np.where(low, chance[low].mean(), chance),
}
display = MurphyDisplay.from_predictions(y, models)
for name, score in models.items():
    print(f"{name:18} log loss {float(log_loss(y, score)):.4f}")

# %%
# The curves cross in the middle: each model is better on its own side. One
# number for the loss would have hidden that.
