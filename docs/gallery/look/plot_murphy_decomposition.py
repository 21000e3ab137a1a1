"""
At which decisions is the loss lost?
====================================

A score is used at a threshold: treat above 10 %, lend below 5 %. Miscalibration
that never comes near that threshold costs nothing. This figure splits the loss
into its terms at every threshold.
"""

# %%

from scipy.special import expit

from scoreprism.curves import murphy_decomposition
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import MurphyDecompositionDisplay

X, y, q = CopulaLaw(rho=0.0).sample(4000, random_state=0)
score = expit(6 * X[:, 0] - 3)
display = MurphyDecompositionDisplay.from_predictions(
    y, score, q=q, random_state=0
)

# %%
# The areas are not only a picture. Weighted over the thresholds they give the
# terms of any proper loss.

terms = murphy_decomposition(y, score, q=q, random_state=0)
for loss in ("brier", "log"):
    print(
        loss,
        {
            name: round(value, 4)
            for name, value in terms.integrate(loss).items()
        },
    )

# %%
# Reliability is lost at thresholds away from one half, and next to nothing at
# one half itself. Grouping is lost in the middle.
