"""
One map for Python, a lazy frame and a file
===========================================

A map that is fitted today is applied next year, on another machine, in another
library. It is saved as JSON that holds no code, and a frame of any engine gets
a recalibrated column without leaving that engine.
"""

# %%

import numpy as np
import polars as pl

from scoreprism import scale
from scoreprism.calibrators import BetaCalibrator, from_json

rng = np.random.default_rng(0)
rows = pl.DataFrame({"score": rng.random(4000)})
y = rng.random(4000) < rows["score"].to_numpy() ** 1.5
text = BetaCalibrator().fit(rows["score"], y).to_json()
print(text[:200], "…")

# %%
# Years later, with a table that is only read when it is needed:

calibrator = from_json(text)
lazy = scale.apply(rows.lazy(), calibrator, score="score", name="calibrated")
print(lazy.head(3).collect())
same = lazy.collect()["calibrated"].to_numpy() == calibrator.calibrate(
    rows["score"].to_numpy()
)
print("equal to the last bit:", bool(same.all()))
print(
    calibrator.provenance_.rows,
    "rows fitted it, by version",
    calibrator.provenance_.version,
)

# %%

from scoreprism.displays import CalibrationMapDisplay

display = CalibrationMapDisplay.from_predictions(
    y, rows["score"], calibrator=calibrator
)

# %%
# The map of the file is the map that was fitted, to the last bit.
