"""
A rising map leaves the ROC curve alone
=======================================

Recalibration by a rising map changes what the probabilities mean and keeps how
cases are ranked. So it may mend the reliability diagram completely while the
ROC curve does not move, and a high AUC says nothing about calibration.
"""

# %%
# An overconfident score is recalibrated on a third of the rows, by a map that
# strictly rises, and judged on the others.

import matplotlib.pyplot as plt
from scipy.special import expit

from scoreprism.calibrators import MonotoneSplineCalibrator
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import ReliabilityDisplay, RocDisplay
from scoreprism.metrics import auc, ici

X, y, _ = CopulaLaw(rho=0.0).sample(12_000, random_state=0)
score = expit(8 * X[:, 0] + 4 * X[:, 1] - 5)
calibrator = MonotoneSplineCalibrator(strict=True).fit(score[:4000], y[:4000])
test = slice(4000, None)
before_after = {
    "before": score[test],
    "after": calibrator.calibrate(score[test]),
}

fig, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
ReliabilityDisplay.from_predictions(y[test], before_after, ax=axes[0])
RocDisplay.from_predictions(y[test], before_after, ax=axes[1])

for name, p in before_after.items():
    area, index = float(auc(y[test], p)), float(ici(y[test], p))
    print(f"{name:7} AUC {area:.6f}, integrated calibration index {index:.4f}")

# %%
# The two ROC curves are one, to the last digit of the AUC. The reliability
# diagram has moved to the diagonal.
