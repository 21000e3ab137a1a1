"""
With a latent state the loss has four terms
===========================================

"Irreducible" means irreducible with the features at hand. If something else
drives the outcome, a latent state with chances of its own, part of that term is
what better data would remove. In a simulation the state is known, and `latent=`
splits the term in two.
"""

# %%
# The features give the chance q. A latent state moves the chance of each case
# up or down, and q is its mean. The score is a bold function of one feature.

import numpy as np
from scipy.special import expit

from scoreprism import decompose
from scoreprism.datasets import CopulaLaw

rng = np.random.default_rng(0)
X, _, q = CopulaLaw(rho=0.0).sample(20_000, random_state=0)
chance = rng.beta(4 * q, 4 * (1 - q))  # given the features, its mean is q
y = rng.random(q.size) < chance
score = expit(6 * X[:, 0] - 3)

found = decompose(y, score, q=q, latent=chance, random_state=0)
figure = found.plot()
found

# %%
# The same score, judged without the latent state, has three terms. The last of
# them is the sum of the last two above.

three = decompose(y, score, q=q, random_state=0)
rest = found.terms["heterogeneity"] + found.terms["noise"]
print(f"irreducible {three.terms['irreducible']:.4f}")
print(f"heterogeneity + noise {rest:.4f}")

# %%
# A large part of what looked irreducible is heterogeneity, which would go away
# if the state were observed.
