"""
A floor under grouping that needs no model of the features
==========================================================

Is there anything left in the features? Split the cases of each score into
regions. If event rates differ between regions of one score, a better model
exists, whatever it looks like (Perez-Lebel et al. 2023).
"""

# %%
# The score uses one feature and leaves the other unused.

from scoreprism import decompose
from scoreprism.datasets import CopulaLaw
from scoreprism.references import partition_lower_bound

law = CopulaLaw(rho=0.0)
X, y, _ = law.sample(4000, random_state=0)
score = 0.1 + 0.8 * X[:, 0]
bound = partition_lower_bound(y, score, X, loss="brier", random_state=0)
figure = bound.plot()
bound

# %%
# Beside it stand the bound of `decompose`, which fits models to the features,
# and the truth, which is known here.

import matplotlib.pyplot as plt

from scoreprism.displays import house_style

# sphinx_gallery_thumbnail_number = 2
grouping = {
    "bound from regions": bound.lower_bound().value,
    "bound from models": decompose(y, score, X, loss="brier", random_state=0)
    .lower_bound("grouping")
    .value,
    "truth": law.population(lambda x1, x2: 0.1 + 0.8 * x1, "brier").grouping,
}
with house_style():
    fig, ax = plt.subplots(figsize=(6, 2), layout="constrained")
    ax.barh(
        list(grouping),
        list(grouping.values()),
        color=["#0072B2", "#0072B2", "#B9BEC5"],
    )
    ax.bar_label(ax.containers[0], fmt="%.4f", padding=3)
    ax.set(xlabel="grouping, Brier", xlim=(0, 1.15 * max(grouping.values())))
    ax.invert_yaxis()

# %%
# Both bounds are above 0, so something is left in the features. Both are below
# the truth, as bounds should be.
