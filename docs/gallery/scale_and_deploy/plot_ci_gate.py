"""
Let CI refuse a miscalibrated model
===================================

A model that gets worse should not be deployed by accident. On the command line
a gate turns a limit into an exit code, and every CI system stops at an exit
code that is not 0.
"""

# %%
# Predictions of two versions of a model lie in a file. The new one is too bold.

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import expit

rng = np.random.default_rng(0)
logit = rng.normal(-1, 1.5, 3000)
y = (rng.random(3000) < expit(logit)).astype(int)
path = Path(tempfile.mkdtemp()) / "predictions.csv"
pl.DataFrame(
    {"event": y, "old": expit(logit), "new": expit(1.8 * logit)}
).write_csv(path)

scoreprism = [sys.executable, "-m", "scoreprism", "diagnose", str(path)]
gate = shlex.split("--max-reliability 0.01 --gate-on lower --format csv")
for version in ("old", "new"):
    command = [*scoreprism, "--target", "event", "--score", version, *gate]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in run.stderr.splitlines() if line.startswith("gate")]
    print(f"{version}: exit code {run.returncode}", *said)

# %%
# The gate compares the lower end of the interval, so that a run fails only if
# the excess is shown.

import matplotlib.pyplot as plt

from scoreprism import decompose
from scoreprism.displays import house_style

with house_style():
    fig, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
    for row, factor in enumerate([1.0, 1.8]):
        found = decompose(y, expit(factor * logit), random_state=0)
        interval = found.interval("reliability")
        ax.plot([interval.low, interval.high], [row, row], linewidth=4)
    ax.axvline(0.01, color="#222222", linestyle="--", linewidth=1)
    ax.set(
        yticks=[0, 1],
        yticklabels=["old", "new"],
        ylim=(1.5, -0.5),
        xlabel="reliability, log loss, 95 % interval",
    )

# %%
# The old version passes. The interval of the new one lies beyond the limit, and
# its run ends with exit code 1.
