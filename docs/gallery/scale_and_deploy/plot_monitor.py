"""
Look every day, and still raise few false alarms
================================================

A test at 5 % that is repeated every day rings sooner or later, whatever
happens. `CalibrationMonitor` collects evidence that may be looked at every day.
As long as the score stays calibrated, the chance that it ever rings is at most
5 %.
"""

# %%
# The score of 500 cases a day is calibrated for 60 days. Then events become
# more frequent at each score.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from scoreprism.displays import house_style
from scoreprism.monitoring import CalibrationMonitor

rng = np.random.default_rng(0)
monitor = CalibrationMonitor(alpha=0.05)
for day in range(100):
    score = rng.beta(2, 5, 500)
    shift = 0.0 if day < 60 else 0.3
    monitor.update(
        rng.random(500) < expit(logit(score) + shift), score, period=day
    )

alarm = monitor.alarm
print(f"alarm on day {alarm.period}:")
print(f"scores are {alarm.direction} since day {alarm.since}")

# %%
# The evidence against calibration, day by day. The alarm rings when it reaches
# 1 / alpha.

frame = monitor.to_frame()
with house_style():
    fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
    ax.plot(frame["period"], frame["e_calibration"], label="evidence")
    ax.axhline(1 / 0.05, color="#B87700", linewidth=1, label="1 / alpha")
    ax.axvline(
        alarm.period,
        color="#D55E00",
        linestyle="--",
        linewidth=1,
        label="alarm",
    )
    ax.set(
        yscale="log",
        ylim=(1e-3, 1e6),
        xlabel="day",
        ylabel="evidence against calibration",
    )
    ax.legend(loc="upper left")

# %%
# For 60 days the evidence stays low, and it would be allowed to rise above 20
# only once in twenty streams. After the change it passes that line within days,
# and the alarm says since when, and in which direction.
