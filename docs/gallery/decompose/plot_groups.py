"""
Ten rows of one patient are not ten patients
============================================

Rows that belong together carry less information than as many independent rows.
If they are treated as independent, intervals are too short. `groups=` says
which rows belong together.
"""

# %%
# Each of 150 patients is seen ten times. Something that the score does not know
# is the same at every visit, so the outcomes of a patient are alike.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from scoreprism import decompose
from scoreprism.displays import house_style

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(150), 10)
known = rng.normal(size=1500)  # differs from visit to visit
unknown = (
    2 * rng.normal(size=150)[patient]
)  # is the same in all ten rows of a patient
score = expit(known - 2)
y = rng.random(1500) < expit(known - 2 + unknown)

found = {
    "as 1,500 rows": decompose(y, score, random_state=0),
    "as 150 patients": decompose(y, score, groups=patient, random_state=0),
}

# %%

with house_style():
    fig, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
    for row, (name, one) in enumerate(found.items()):
        interval = one.interval("refinement")
        ax.plot([interval.low, interval.high], [row, row], linewidth=3)
        ax.plot(one.terms["refinement"], row, "o", color="#222222")
        print(f"{name:16} {interval.low:.3f} to {interval.high:.3f}")
    ax.set(
        yticks=[0, 1],
        yticklabels=list(found),
        ylim=(1.6, -0.6),
        xlabel="refinement, log loss, 95 % interval",
    )

# %%
# The interval of the patients is much wider, and only that one is honest.
