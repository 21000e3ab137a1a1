"""A small network and its logits: what it loses, what temperature mends, and what its hidden layer still knows.

``python examples/digits_network.py [--out FOLDER]`` prints the tables of docs/digits.md, and writes report and figure.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

mpl.use("Agg")

import matplotlib.pyplot as plt

from scoreprism import Logits, decompose
from scoreprism.calibrators import TemperatureCalibrator
from scoreprism.report import make_report


def train():
    """A network trained on half of the digits for too short a time; the other half."""
    X, y = load_digits(return_X_y=True)
    train_X, X, train_y, y = train_test_split(X / 16, y, test_size=0.5, stratify=y, random_state=0)
    network = MLPClassifier((128,), max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(train_X, train_y)
    return network, X, y


def layers(network, X):
    """The hidden layer after its ReLU, and the logits."""
    hidden = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
    return hidden, hidden @ network.coefs_[1] + network.intercepts_[1]


def draw(before, after, path):
    """The terms before and after temperature scaling."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharex=True, layout="constrained")
    for one, ax, title in ((before, axes[0], "as trained"), (after, axes[1], "after temperature scaling")):
        one.plot(ax=ax)
        ax.set_title(title)
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python examples/digits_network.py")
    parser.add_argument("--out", type=Path, default=Path())
    folder = parser.parse_args(arguments).out
    network, X, y = train()
    hidden, z = layers(network, X)
    print(decompose(y, Logits(z)), decompose(y, Logits(z), hidden), sep="\n\n")

    parts = train_test_split(z, hidden, y, test_size=0.5, stratify=y, random_state=0)
    z_fit, z_test, _, hidden_test, y_fit, y_test = parts
    temperature = TemperatureCalibrator(kind="logit").fit(z_fit, y_fit)
    law = temperature.calibrate(z_test)
    before, after = decompose(y_test, Logits(z_test), hidden_test), decompose(y_test, law, hidden_test)
    print(f"loss {before.risk:.3f} before, {after.risk:.3f} after")
    draw(before, after, folder / "digits.png")
    make_report(y_test, {"network": Logits(z_test), "recalibrated": law}, hidden_test).save(folder / "digits.html")


if __name__ == "__main__":
    main()
