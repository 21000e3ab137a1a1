"""
The plug-in finds miscalibration where there is none
====================================================

The obvious estimate of reliability fits a calibration curve and measures how
far the scores are from it. But a fitted curve always wiggles, and the wiggles
count as miscalibration. The debiased form, the default, takes their noise off.
"""

# %%
# These scores are calibrated by construction, so the true reliability is 0. We
# draw 30 samples of each size and estimate it in both ways, from the same
# fitted curves.

import matplotlib.pyplot as plt
import numpy as np

from scoreprism import decompose
from scoreprism.displays import house_style

rng = np.random.default_rng(0)
sizes = [250, 500, 1000, 2000, 4000]
estimates = {"plugin": [], "debiased": []}
for n in sizes:
    for found in estimates.values():
        found.append([])
    for _ in range(30):
        score = rng.beta(2, 2, n)
        y = rng.random(n) < score
        chain = decompose(
            y, score, loss="brier", repeats=1, random_state=0
        ).chain
        for form, found in estimates.items():
            found[-1].append(
                chain.decompose("brier", form=form).terms["reliability"]
            )

# %%

with house_style():
    fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for form, found in estimates.items():
        mean, spread = np.mean(found, axis=1), np.std(found, axis=1)
        (line,) = ax.plot(sizes, mean, "o-", label=form)
        ax.fill_between(
            sizes,
            mean - spread,
            mean + spread,
            color=line.get_color(),
            alpha=0.2,
        )
        in_1e4 = [round(10_000 * m, 1) + 0 for m in mean.tolist()]
        print(f"{form:9} in 1e-4:", dict(zip(sizes, in_1e4, strict=True)))
    ax.axhline(0, color="#666666", linewidth=0.8)
    ax.set(
        xscale="log",
        xticks=sizes,
        xticklabels=sizes,
        xlabel="rows",
        ylabel="estimated reliability, Brier",
    )
    ax.minorticks_off()
    ax.legend(title="mean ± standard deviation of 30 samples", alignment="left")

# %%
# The plug-in is far above 0 in small samples and still above it in large ones.
# The debiased estimates scatter around the truth. Some are negative, and they
# have to be if their mean is to be 0.
