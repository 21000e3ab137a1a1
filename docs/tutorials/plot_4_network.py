"""
.. _tutorial-network:

A neural network and its ten classes
====================================

A network reads handwritten digits. Its training was stopped too early.
How much of its loss does recalibration remove, how much could a better
last layer remove, and what remains?

You will pass logits and embeddings to ``decompose``, scale the
temperature, look at single classes, and see which questions 900 images
answer and which they do not.
"""

# %%
# A network and its logits
# ------------------------
#
# Scikit-learn brings 1797 images of 8 × 8 pixels. Half of them train a
# network with one hidden layer of 128 units.

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

images, digits = load_digits(return_X_y=True)
X_train, X, y_train, y = train_test_split(
    images / 16, digits, test_size=0.5, stratify=digits, random_state=0
)
network = MLPClassifier((128,), max_iter=60, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    network.fit(X_train, y_train)

# %%
# The other half is for everything below. A network in PyTorch would
# return two tensors, and they could be passed as they are. Here we
# compute both from the weights: the activations of the hidden layer
# (the embedding), and the logits.

(first, last), (shift, last_shift) = network.coefs_, network.intercepts_
embedding = np.maximum(X @ first + shift, 0)
z = embedding @ last + last_shift
print(f"embedding {embedding.shape}, logits {z.shape}")
print(f"accuracy {np.mean(z.argmax(axis=1) == y):.1%}")

# %%
# These are the images to which the network gave the smallest
# probability of the digit that they show.

import matplotlib.pyplot as plt
from scipy.special import softmax

p = softmax(z, axis=1)
of_truth = p[np.arange(len(y)), y]
figure, axes = plt.subplots(
    1, 6, figsize=(7, 1.7), layout="constrained"
)
for ax, row in zip(axes, np.argsort(of_truth), strict=False):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{y[row]}, not {p[row].argmax()}", fontsize=10)
    ax.axis("off")

# %%
# Reliability
# -----------
#
# Logits are declared with ``Logits``. They are never guessed: numbers
# outside 0 and 1 that are not declared are refused.

from scoreprism import Logits, decompose

decompose(y, Logits(z), random_state=0).summary()

# %%
# A good part of the log loss is miscalibration, and the interval of the
# reliability is far from 0. Which way is the network wrong? A
# reliability diagram can be drawn for one class at a time: how often
# was it a seven where the network gave the seven 80 %?

from scoreprism.displays import ClasswiseReliabilityDisplay

figure = ClasswiseReliabilityDisplay.from_predictions(y, p)

# %%
# Most curves are steeper than the diagonal: where the network says 80
# %, it is nearly always right. It is timid, because it was stopped too
# early. (Networks that train for too long are often too bold.) Nine
# classes have a panel, those whose curves are furthest from the
# diagonal.
#
# What the hidden layer knows
# ---------------------------
#
# What recalibration cannot remove may still be the network's fault. The
# last layer makes ten logits of 128 numbers. Does it lose something on
# the way? Pass the embedding as features.

found = decompose(y, Logits(z), embedding, random_state=0)
figure = found.plot()

# %%

found.summary()

# %%
# *Grouping* is what the embedding knows and the logits have forgotten:
# images with the same logits, but other activations, have other
# chances. Its lower bound is above 0. A better last layer, for instance
# one that is trained for longer, would gain at least that much. What is
# left after that, the *irreducible* loss, cannot be won from these
# activations as far as the learners can tell. It takes another network,
# or more images.
#
# The last line of the summary is a warning. The loss depends on a few
# images to which the network gave a small chance, such as those at the
# top of this page. That makes 900 rows fewer than they seem.
#
# Temperature
# -----------
#
# Temperature scaling divides all logits by one number. Half of the rows
# find it, and the other half judges the result.

from scoreprism import compare
from scoreprism.calibrators import TemperatureCalibrator

z_fit, z_test, _, embedding_test, y_fit, y_test = train_test_split(
    z, embedding, y, test_size=0.5, stratify=y, random_state=0
)
temperature = TemperatureCalibrator(kind="logit").fit(z_fit, y_fit)
print(f"the logits are divided by {temperature.temperature_:.2f}")

# %%
# A temperature below 1 makes a timid network bolder.

recalibrated = temperature.calibrate(z_test)
both = compare(
    y_test,
    {"as trained": Logits(z_test), "recalibrated": recalibrated},
    random_state=0,
)
figure = both.plot()

# %%

both.difference("as trained", "recalibrated")

# %%
# The reliability is gone, and the refinement is what it was. The
# accuracy cannot change either: when all logits of an image are divided
# by the same number, the largest one is still the largest.
#
# Is one number enough?
# ---------------------
#
# Vector scaling gives each class a factor and a shift of its own,
# Dirichlet calibration a whole matrix. A map with more parameters can
# repair more. It can also fit noise, and these maps have only half of
# the images to be fitted to.

from scoreprism.calibrators import (
    DirichletCalibrator,
    VectorScalingCalibrator,
)

maps = {
    "temperature": temperature,
    "vector scaling": VectorScalingCalibrator(kind="logit"),
    "Dirichlet": DirichletCalibrator(kind="logit"),
}
laws = {"as trained": Logits(z_test)}
for name, calibrator in maps.items():
    laws[name] = calibrator.fit(z_fit, y_fit).calibrate(z_test)
table = compare(y_test, laws, random_state=0)
for name in table.ranking():
    print(f"{name:14} log loss {table[name].risk:.3f}")

# %%
# Are the other two better than one number, or worse? The differences
# from temperature scaling on the same images, with the margins of 95 %
# intervals:

for name in ("vector scaling", "Dirichlet"):
    more = table.difference(name, "temperature")
    margin = 1.96 * more.risk_std_error
    print(f"{name:14} {more.risk:+.3f} ± {margin:.3f}")

# %%
# Neither is shown to be better, and the matrix has clearly learned
# noise. We keep the temperature. ``temperature.to_json()`` writes it to
# a file without code, and ``temperature.to_torch()`` gives a function
# of tensors to put behind a network in PyTorch.
#
# The answer
# ----------

before, after = both["as trained"], both["recalibrated"]
bound = found.lower_bound("grouping").value
print(f"all {len(y)} images:")
print(f"  log loss {found.risk:.3f}")
print(f"  miscalibration {found.terms['reliability']:.3f}")
print(f"  a better last layer gains {bound:.4f} at least")
print(f"the {len(y_test)} test images, with temperature scaling:")
print(f"  log loss {before.risk:.3f} → {after.risk:.3f}")

# %%
# Recalibrate first: one number removes the miscalibration, and no
# weight of the network changes. After that, train the last layer again
# if the bound of the grouping is worth it to you. Only then think about
# a larger network.
