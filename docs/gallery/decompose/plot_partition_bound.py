"""
A floor under grouping that needs no model of the features
==========================================================

Is there anything left in the features? Split the cases of each score into regions. If event rates differ between
regions of one score, a better model exists, whatever it looks like (Perez-Lebel et al. 2023).
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

# %%
# The estimate of `decompose` stands above the bound, and the truth is known here.

found = decompose(y, score, X, loss="brier", random_state=0)
truth = law.population(lambda x1, x2: 0.1 + 0.8 * x1, "brier").grouping
print(bound)
print(f"estimated grouping {found.terms['grouping']:.4f}, truth {truth:.4f}")

# %%
# The bound is well above 0, so some features are unused. It is below the truth, as a bound from a few regions must be.
