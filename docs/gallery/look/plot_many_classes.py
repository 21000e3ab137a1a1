"""
Which of ten classes are miscalibrated?
=======================================

A classifier of ten classes makes ten promises. A diagram of the most probable
class alone hides which of them are broken. Here each class has a panel, the
worst first; of more than nine the nine worst are drawn.
"""

# %%
# Out-of-fold probabilities of a random forest for handwritten digits.

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from scoreprism.displays import ClasswiseReliabilityDisplay
from scoreprism.metrics import classwise_ece, top_label_ece

images, digits = load_digits(return_X_y=True)
forest = RandomForestClassifier(50, random_state=0)
p = cross_val_predict(forest, images, digits, cv=3, method="predict_proba")
display = ClasswiseReliabilityDisplay.from_predictions(
    digits, p, random_state=0
)

errors = {
    "most probable class": top_label_ece(digits, p),
    "every class": classwise_ece(digits, p),
}
for name, error in errors.items():
    low, high = error.interval().low, error.interval().high
    print(f"ECE, {name}: {float(error):.3f}, {low:.3f} to {high:.3f}")

# %%
# All curves are steeper than the diagonal. The forest is too timid about every
# digit: where it says 0.5, it is right far more often.
