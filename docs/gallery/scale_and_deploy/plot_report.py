"""
A report to hand over, from three lines of Python
=================================================

Colleagues want a page, not a notebook. `make_report` judges one model or
several and writes one file of HTML: a verdict in sentences, what to do,
figures, tables, and how everything was computed. It needs no network and no
script.
"""

# %%

import tempfile
from pathlib import Path

import numpy as np
from scipy.special import expit

from scoreprism import make_report
from scoreprism.datasets import CopulaLaw

X, y, _ = CopulaLaw(rho=0.0).sample(3000, random_state=0)
models = {"bold": expit(6 * X[:, 0] - 3), "plain": expit(3 * X[:, 0] - 1.5)}
region = np.where(X[:, 1] > 0.5, "north", "south")

folder = Path(tempfile.mkdtemp())
report = make_report(
    y, models, segments={"region": region}, output=folder / "report.html"
)
print(
    f"{len((folder / 'report.html').read_text(encoding='utf-8')) / 1e3:.0f} kB"
)

# %%
# The headline and a figure of all models are there for programs, too.

figure = report.plot()
print(report.headline)

# %%
# The orange part of the bold model is what recalibration would remove. The
# headline says so, and so does the page.
