"""
Was it the method, or the split?
================================

One split of the data gives one ranking of the methods, and another split may
give another. Repeated splits show how much of a difference is luck. A paired
comparison counts each split once, and knows that the splits share rows.
"""

# %%
# :class:`~scoreprism.displays.SplitsDisplay` shows the reliability of each
# method in each split.

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scoreprism.datasets import load_german_credit
from scoreprism.pipelines import (
    paired_comparison,
    repeated_splits,
    splits_summary,
)

data = load_german_credit("pandas")
X = data.X.select_dtypes("number")
models = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(20, min_samples_leaf=5, random_state=0),
}
table = repeated_splits(
    models,
    X,
    data.y,
    n_splits=10,
    calibrator="platt",
    loss="log",
    noise_floor=1,
    random_state=0,
)
summary = splits_summary(table)
figure = summary.plot()

# %%
# The average of the two models is the baseline, and
# :class:`~scoreprism.displays.PairedDisplay` shows the difference from it,
# split by split.

comparison = paired_comparison(
    table, baseline="average", metric="raw", alternative="two-sided"
)
figure = comparison.plot()
comparison

# %%
# In the first figure the plug-in finds miscalibration wherever it looks, and
# has to be held against its noise floor. In the second, each interval contains
# 0: ten splits of these data do not tell the methods apart.
