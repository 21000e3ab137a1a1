"""
Does the last layer of a network lose something?
================================================

The last layer turns a hidden layer into logits. If the hidden layer knows more
about the label than the logits say, the layer can be trained again, and the
body of the network can stay as it is. The hidden layer goes in as features.
"""

# %%
# A small network reads handwritten digits, and its training stops too early. We
# keep its hidden layer and its logits.

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from scoreprism import Logits, decompose

images, digits = load_digits(return_X_y=True)
train, test, train_y, y = train_test_split(
    images / 16, digits, test_size=0.5, stratify=digits, random_state=0
)
network = MLPClassifier((128,), max_iter=60, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # on purpose
    network.fit(train, train_y)

hidden = np.maximum(test @ network.coefs_[0] + network.intercepts_[0], 0)
logits = hidden @ network.coefs_[1] + network.intercepts_[1]

# %%

found = decompose(y, Logits(logits), hidden, random_state=0)
figure = found.plot()
found

# %%
# Part of the loss is miscalibration, which a temperature would remove. The
# bound on grouping is above 0: the hidden layer knows a little more than the
# logits say.
