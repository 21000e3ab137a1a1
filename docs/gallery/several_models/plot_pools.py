"""
Average, pool or stack?
=======================

There are many ways to make one probability of several. An average is safe and
timid, a logarithmic pool is bolder, and fitted combiners learn how far to go.
Here all of them combine the same three models.
"""

# %%
# Three models see different measurements of the same tumours.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scoreprism.displays import house_style
from scoreprism.ensembles import COMBINERS, POOLS

data = load_breast_cancer()
X, rest, y, rest_y = train_test_split(
    data.data, data.target, test_size=0.6, stratify=data.target, random_state=0
)
columns = {"texture": [1], "smoothness": [4], "symmetry and area": [3, 8]}
members = {
    name: make_pipeline(StandardScaler(), LogisticRegression())
    .fit(X[:, c], y)
    .predict_proba(rest[:, c])[:, 1]
    for name, c in columns.items()
}
fit, test = slice(None, None, 2), slice(1, None, 2)
fit_members = {name: p[fit] for name, p in members.items()}
test_members = {name: p[test] for name, p in members.items()}

# %%

losses = {name: log_loss(rest_y[test], p) for name, p in test_members.items()}
losses |= {
    name: log_loss(rest_y[test], POOLS[name](test_members))
    for name in ("average", "log-pool")
}
for name, combiner in COMBINERS.items():
    law = combiner().fit(fit_members, rest_y[fit]).predict_proba(test_members)
    losses[name] = log_loss(rest_y[test], law)

with house_style():
    fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    colors = ["#B9BEC5"] * len(members) + ["#0072B2"] * (
        len(losses) - len(members)
    )
    ax.barh(list(losses), list(losses.values()), color=colors)
    ax.bar_label(ax.containers[0], fmt="%.3f", padding=3)
    ax.set(
        xlabel="log loss on fresh rows", xlim=(0, 1.12 * max(losses.values()))
    )
    ax.invert_yaxis()

# %%
# One member knows most. The average gives all three the same say, and ends up
# worse than that member alone. A fitted linear pool falls back on that member,
# and combiners that may also sharpen do better than any of them.
