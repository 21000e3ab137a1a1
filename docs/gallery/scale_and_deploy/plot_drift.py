"""
Did the scores change, or the outcomes?
=======================================

The loss went up in May. Perhaps other customers came, perhaps the same scores
now mean something else. Sums of the rows, by month, are enough to tell. Polars
adds them up in one pass, however long the table is.
"""

# %%
# A table of 120,000 rows over six months. In the last two months the event rate
# at each score goes up. :class:`~scoreprism.displays.DriftDisplay` marks the
# months that differ from the one before.

import numpy as np
import polars as pl
from scipy.special import expit, logit

from scoreprism import scale

rng = np.random.default_rng(0)
n = 120_000
score = rng.beta(1.5, 4, n)
month = rng.integers(1, 7, n)
chance = expit(logit(score) + np.where(month >= 5, 0.4, 0.0))
table = pl.LazyFrame(
    {"default": rng.random(n) < chance, "score": score, "month": month}
)

sums = scale.aggregate(
    table, target="default", score="score", time="month", loss="log"
)
drift = sums.decompose("log").drift()
figure = drift.plot()

# %%
# Each month against the one before. `mix()` splits the change of the loss into
# scores that moved and outcomes that did.

figure = drift.mix().plot()
drift.mix()

# %%
# The loss and its reliability rise in the fifth month and stay there. The
# scores are those of before, and outcomes at a given score have changed: the
# map has to be fitted again. One of the small changes before May has an
# interval without 0 as well. The marks of the first figure allow for so many
# comparisons, and leave it out.
