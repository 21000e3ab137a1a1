"""
.. _tutorial-network:

A neural network and its ten classes
====================================

A network reads handwritten digits. Its training was stopped too early. How much of its loss does recalibration remove,
how much could a better last layer remove, and what remains?

You will pass logits and embeddings to ``decompose``, scale the temperature, look at single classes, and see which
questions 900 images answer and which they do not.
"""

# %%
# A network and its logits
# ------------------------
#
# Scikit-learn brings 1797 images of 8 × 8 pixels. Half of them train a network with one hidden layer of 128 units.

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

images, digits = load_digits(return_X_y=True)
X_train, X, y_train, y = train_test_split(images / 16, digits, test_size=0.5, stratify=digits, random_state=0)
network = MLPClassifier((128,), max_iter=60, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # stopped too early: that is the point
    network.fit(X_train, y_train)

# %%
# The other half is for everything below. A network in PyTorch would return two tensors, and they could be passed as they
# are. Here we compute both from the weights: what the hidden layer says (the embedding), and the logits.

embedding = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
z = embedding @ network.coefs_[1] + network.intercepts_[1]
print(f"embedding {embedding.shape}, logits {z.shape}")
print(f"accuracy {np.mean(z.argmax(axis=1) == y):.1%}")

# %%
# Reliability
# -----------
#
# Logits are declared with ``Logits``. They are never guessed: a matrix of numbers that happens to look like
# probabilities, or like percentages, is not taken for logits.

from scoreprism import Logits, decompose

decompose(y, Logits(z), random_state=0).summary()

# %%
# A good part of the log loss is miscalibration, and the interval of the reliability is far from 0. Which way is the
# network wrong? For one class at a time, the reliability diagram is that of a binary forecast: how often was it a seven
# where the network said a seven with 80 %?

from scipy.special import softmax

from scoreprism.displays import ClasswiseReliabilityDisplay

p = softmax(z, axis=1)
figure = ClasswiseReliabilityDisplay.from_predictions(y, p)

# %%
# The curves are steeper than the diagonal: where the network says 80 %, it is nearly always right. It is timid, as
# networks are that were stopped too early. (Networks that train for too long are too bold.) The panels are the nine
# classes with the largest miscalibration.
#
# What the hidden layer knows
# ---------------------------
#
# What recalibration cannot remove may still be the network's fault. The last layer makes ten logits of 128 numbers. Does
# it lose something on the way? Pass the embedding as features.

found = decompose(y, Logits(z), embedding, random_state=0)
figure = found.plot()

# %%

found.summary()

# %%
# *Grouping* is what the embedding knows and the logits have forgotten: images with the same logits, but other
# activations, have other chances. Its lower bound is above 0. A better last layer would gain that much, for instance one
# that was trained for longer. What is left after that, the *irreducible* loss, cannot be had from these activations as
# far as the learners can tell. It takes another network, or more images.
#
# The last line of the summary is a warning. A few images to which the network gave a small chance decide how large the
# loss is. With a loss like this one, 900 rows are fewer than they seem.
#
# Temperature
# -----------
#
# Temperature scaling divides all logits by one number. Half of the rows find it, and the other half judges the result.

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
both = compare(y_test, {"as trained": softmax(z_test, axis=1), "recalibrated": recalibrated}, random_state=0)
figure = both.plot()

# %%

both.difference("as trained", "recalibrated")

# %%
# The reliability is gone and the refinement is what it was. The accuracy cannot change either, because dividing all
# logits by the same number leaves the largest one the largest.
#
# Is one number enough?
# ---------------------
#
# Vector scaling gives each class a factor and a shift of its own, Dirichlet calibration a whole matrix. A map with more
# parameters can repair more. It can also fit noise, and these maps have only half of the images to be fitted to.

from scoreprism.calibrators import DirichletCalibrator, VectorScalingCalibrator

maps = {
    "temperature": temperature,
    "vector scaling": VectorScalingCalibrator(kind="logit").fit(z_fit, y_fit),
    "Dirichlet": DirichletCalibrator(kind="logit").fit(z_fit, y_fit),
}
laws = {"as trained": softmax(z_test, axis=1)} | {name: fitted.calibrate(z_test) for name, fitted in maps.items()}
table = compare(y_test, laws, random_state=0)
print(" < ".join(f"{name} {table[name].risk:.3f}" for name in table.ranking()))

# %%
# Are the other two better than one number, or worse? The paired intervals say what these images can tell.

for name in ("vector scaling", "Dirichlet"):
    more = table.difference(name, "temperature")
    print(f"{name:14} against temperature: {more.risk:+.4f} ± {1.96 * more.risk_std_error:.4f}")

# %%
# Neither is shown to be better, and the matrix has clearly learned noise. Temperature scaling it is.
#
# Deploy
# ------
#
# The map is one number, and the file that holds it contains no code. With PyTorch at hand, ``temperature.to_torch()``
# gives a module that takes logits, so that the map can be exported together with the network.

print(len(temperature.to_json()), "characters of JSON")

# %%
# The answer
# ----------

before, after = both["as trained"], both["recalibrated"]
print(f"On all {len(y)} images: loss {found.risk:.3f}, of which {found.terms['reliability']:.3f} is miscalibration,")
print(f"and a better last layer would gain {found.lower_bound('grouping').value:.4f} at least.")
print(f"On the {len(y_test)} test images temperature scaling takes the loss from {before.risk:.3f} to {after.risk:.3f}.")

# %%
# Recalibrate first: one number, found in a moment, removes the miscalibration without touching a weight. After that, train
# the last layer again if the bound of grouping is worth it to you. Only then think about a larger network.
#
# The user guide says how embeddings are handled, and what to do with a thousand classes. A network with torch takes the
# same calls: pass ``Logits(tensor)``, on whichever device it is.
