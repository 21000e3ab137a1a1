"""
One temperature, or a whole matrix?
===================================

With ten classes, a map can sharpen all probabilities at once, shift single
classes, or mix them. More parameters fix more faults and need more rows. Here
the families compete on the logits of a small network.
"""

# %%
# The network stops too early. Half of the held-out rows fit the maps, the other
# half judge them.

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from scoreprism.calibrators import get_calibrator

images, digits = load_digits(return_X_y=True)
train, held, train_y, y = train_test_split(
    images / 16, digits, test_size=0.7, stratify=digits, random_state=0
)
network = MLPClassifier((64,), max_iter=60, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # on purpose
    network.fit(train, train_y)
hidden = np.maximum(held @ network.coefs_[0] + network.intercepts_[0], 0)
logits = hidden @ network.coefs_[1] + network.intercepts_[1]
fit, test = slice(None, None, 2), slice(1, None, 2)

names = ["identity", "temperature", "vector-scaling", "matrix-scaling"]
names += ["structured-matrix", "dirichlet", "polynomial", "one-vs-rest"]
losses = {}
for name in names:
    calibrator = get_calibrator(name, kind="logit").fit(logits[fit], y[fit])
    losses[name] = log_loss(y[test], calibrator.predict_proba(logits[test]))

# %%

import matplotlib.pyplot as plt

from scoreprism.displays import house_style

with house_style():
    fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    ax.barh(names, list(losses.values()), color="#0072B2")
    ax.bar_label(ax.containers[0], fmt="%.4f", padding=3)
    ax.set(
        xlabel="log loss on fresh rows", xlim=(0, 1.15 * max(losses.values()))
    )
    ax.invert_yaxis()

# %%
# A single temperature removes much of what can be removed. Matrix scaling,
# structured or not, and the polynomial map mix the classes and go further: the
# last layer was trained too briefly, and they make up for some of that.
# Dirichlet calibration, whose ridge is weak by default, fits noise instead.
