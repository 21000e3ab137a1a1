"""
Would the same pipeline give the same numbers again?
====================================================

A model is trained, recalibrated and tested on three sets of rows. With other
rows each step would have come out differently. The bootstrap of the whole
pipeline draws all three sets again, and shows how far each number moves.
"""

# %%
# The figure is a :class:`~scoreprism.displays.PipelineBootstrapDisplay`.

from sklearn.naive_bayes import GaussianNB

from scoreprism.datasets import CopulaLaw
from scoreprism.pipelines import pipeline_bootstrap

X, y, _ = CopulaLaw(rho=0.7).sample(3000, random_state=0)
train, calibration, test = [(X[i::3], y[i::3]) for i in range(3)]
result = pipeline_bootstrap(
    GaussianNB(),
    train,
    calibration,
    test,
    calibrator="platt",
    refit="all",
    n_resamples=200,
    random_state=0,
)
figure = result.plot()
result

# %%
# Each hill holds the numbers of 200 bootstrapped pipelines, and its interval is
# printed beside it. The gain of recalibration lies above 0, so it does not hang
# on one lucky split.
