"""
The stages of a booster add up to its loss
==========================================

A booster knows more after every round. The loss of its first stage is a sum:
the miscalibration of that stage, what each later stage adds, and what the last
one still does not know. Nothing is counted twice, because the sum telescopes.
"""

# %%
# We decompose a boosted model on rows it was not trained on, on a grid of its
# stages. The figure is a :class:`~scoreprism.displays.StagewiseDisplay`.

from sklearn.datasets import make_hastie_10_2
from sklearn.ensemble import GradientBoostingClassifier

from scoreprism.ensembles import stagewise_decomposition

X, y = make_hastie_10_2(4000, random_state=0)
model = GradientBoostingClassifier(
    n_estimators=100, learning_rate=0.3, max_depth=3, random_state=0
)
model.fit(X[:2000], y[:2000])
path = stagewise_decomposition(
    y[2000:],
    model,
    X[2000:],
    grid=[1, 5, 20, 50, 100],
    calibrator="platt",
    random_state=0,
)
figure = path.plot()

# %%
# The terms add up to the loss of the first stage, to rounding.

from sklearn.metrics import log_loss

first_stage = next(model.staged_predict_proba(X[2000:]))
print({name: round(value, 4) for name, value in path.terms.items()})
print(f"sum of the terms {sum(path.terms.values()):.12f}")
print(f"loss of stage 1  {log_loss(y[2000:], first_stage):.12f}")

# %%
# Most of what this booster knows it has learned by stage 20. All gains together
# turn the loss of the first stage into what remains after the last.
