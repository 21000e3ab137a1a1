"""
Every calibration metric with its interval
==========================================

ECE, ICI, slope, O:E: each field has its favourite number, and most are printed
without an interval. Without one, nobody can say whether 0.03 is much. Here each
has an interval, and one call computes them all.
"""

# %%
# Out-of-fold probabilities of a forest on the German credit data. The figure is
# a :class:`~scoreprism.displays.MetricsDisplay`.

from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from scoreprism.datasets import load_german_credit
from scoreprism.metrics import evaluate

data = load_german_credit("pandas")
numbers = data.X.select_dtypes("number")
forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
p = cross_val_predict(forest, numbers, data.y, cv=5, method="predict_proba")[
    :, 1
]

gaps = ["ece", "debiased_ece", "smece", "ace", "ici", "e50", "e90", "lcs"]
table = evaluate(data.y, p, metrics=gaps, n_resamples=200)
figure = table.plot()
table

# %%
# The metrics of clinical prediction models have a value that they should take.

clinical = evaluate(
    data.y,
    p,
    metrics=["calibration_slope", "observed_expected_ratio", "auc"],
    n_resamples=200,
)
figure = clinical.plot()

# %%
# The plain ECE is larger than its debiased version, because bins of finite size
# have gaps by chance. The intervals show how much of each number is noise.
