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

import numpy as np
from scipy.special import expit, logit

from scoreprism.displays import MonitorDisplay
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
# The evidence against calibration, day by day, with the line 1 / alpha at which
# the alarm rings, and what is known of the reliability. `plot()` of a monitor
# gives a `MonitorDisplay`.

display: MonitorDisplay = monitor.plot(panels=["evidence", "reliability"])

# %%
# For 60 days the evidence stays low, and it would be allowed to rise above 20
# only once in twenty streams. After the change it passes that line within days,
# and the alarm says since when, and in which direction.
