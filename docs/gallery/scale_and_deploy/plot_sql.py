"""
A calibration map as SQL
========================

The scores live in a database, and no Python runs there. Every map of two
classes writes itself as an SQL expression of plain arithmetic and CASE. Here
DuckDB computes it, and we compare it with Python.
"""

# %%
# We fit a map to 5,000 scores, and export it.

import duckdb
import numpy as np
import polars as pl

from scoreprism.calibrators import BetaCalibrator

rng = np.random.default_rng(0)
score = rng.random(5000)
y = rng.random(5000) < score**2
calibrator = BetaCalibrator().fit(score, y)
sql = calibrator.to_sql("score")
print(f"{len(sql):,} characters: {sql[:90]} …")

# %%

rows = pl.DataFrame({"score": np.sort(rng.random(10_000))})
in_database = duckdb.sql(f"SELECT score, {sql} AS calibrated FROM rows").pl()
in_python = calibrator.calibrate(rows["score"].to_numpy())
largest = np.abs(in_database["calibrated"] - in_python).max()
print(f"largest difference over {len(rows):,} rows: {largest:.1e}")

# %%

import matplotlib.pyplot as plt

from scoreprism.displays import house_style

with house_style():
    fig, ax = plt.subplots(figsize=(4.6, 4.3), layout="constrained")
    ax.axline((0, 0), slope=1, color="#888888", linewidth=0.8)
    ax.plot(
        in_database["score"],
        in_database["calibrated"],
        label="computed by DuckDB",
    )
    ax.plot(
        rows["score"][::1000],
        in_python[::1000],
        "o",
        label="computed by Python",
    )
    ax.set(
        xlabel="score",
        ylabel="recalibrated probability",
        aspect="equal",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    ax.legend(loc="upper left", bbox_to_anchor=(0.02, 0.95))

# %%
# The database computes the same curve, up to the last digits of exp and ln.
