"""
Stop boosting later, and recalibrate
====================================

Early stopping watches the loss and stops when it rises. But the loss may rise
because the booster grows overconfident, while it still learns. Recalibration
removes the one and keeps the other, so the best stage after recalibration comes
later.
"""

# %%
# A booster that learns fast, judged on rows it was not trained on. The figure
# is a :class:`~scoreprism.displays.StageSelectionDisplay`.

from sklearn.datasets import make_hastie_10_2
from sklearn.ensemble import HistGradientBoostingClassifier

from scoreprism.ensembles import recalibrate_stages, select_stage

X, y = make_hastie_10_2(4000, random_state=0)
model = HistGradientBoostingClassifier(
    max_iter=120, learning_rate=0.5, early_stopping=False, random_state=0
)
model.fit(X[:2000], y[:2000])

choice = select_stage(y[2000:], model, X[2000:], random_state=0)
figure = choice.plot()
choice

# %%
# Recalibrating each stage by a map of its own shows where the overconfidence
# sets in (:class:`~scoreprism.displays.StageRecalibrationDisplay`).

stages = {
    t: p
    for t, p in enumerate(model.staged_predict_proba(X[2000:]), start=1)
    if t in (1, 5, 10, 20, 40, 80, 120)
}
figure = recalibrate_stages(
    y[2000:], stages, calibrator="platt", random_state=0
).plot()

# %%
# The loss as it is turns early, and the recalibrated loss goes on falling. What
# lies between the two lines is overconfidence, and it costs nothing once a map
# removes it.
