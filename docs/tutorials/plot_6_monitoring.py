"""
.. _tutorial-monitoring:

A year of monitoring
====================

A lender scores 400 applicants a day, and learns the outcomes later. The
score was calibrated when it was introduced. Is it still? And if not:
since when, for whom, and what should be done?

The difficulty is that somebody looks every day. The tutorial shows that
an ordinary test then raises false alarms. It follows a
``CalibrationMonitor``, which may be looked at as often as you like,
through a year in which something happens.
"""

# %%
# The year
# --------
#
# The stream is simulated. Until 19 July every score is the true chance
# of a default. On 20 July the lender opens a new channel, and from then
# on applicants default more often than their scores say.

import datetime as dt

import numpy as np
from scipy.special import expit, logit

NEW_CHANNEL = dt.date(2025, 7, 20)


def score_applicants(day):
    """Scores, regions and outcomes of the applicants of a day."""
    rng = np.random.default_rng(day.toordinal())
    score = rng.beta(1.2, 8.0, 400)
    region = rng.choice(["north", "south"], 400)
    worse = 0.25 if day >= NEW_CHANNEL else 0.0
    default = rng.random(400) < expit(logit(score) + worse)
    return score, region, default.astype(int)


year = [dt.date(2025, 1, 1) + dt.timedelta(days) for days in range(365)]

# %%
# A test every morning
# --------------------
#
# The obvious thing to do is to compare, each day, how many defaulted
# with how many should have, and to call when the difference is
# significant at 5 %. Let us count the calls in the months before
# anything happened.

calm = [day for day in year if day < NEW_CHANNEL]
calls = 0
for day in calm:
    score, _, default = score_applicants(day)
    z = (default - score).sum() / np.sqrt((score * (1 - score)).sum())
    calls += abs(z) > 1.96
print(f"{calls} false alarms in {len(calm)} days")

# %%
# About one day in twenty, as it must be: the 5 % hold for each day, and
# there are many days. It does not help to test all rows so far every
# morning. Such a test, too, finds something sooner or later if it is
# repeated often enough.
#
# A monitor that may be looked at
# -------------------------------
#
# ``CalibrationMonitor`` keeps a number called *evidence* (an
# e-process). If the score is calibrated, the chance that the evidence
# *ever* reaches 20 is at most 5 %, however often one looks and for
# however long. It takes one period after the other, and keeps sums
# instead of rows.

from scoreprism.monitoring import CalibrationMonitor

monitor = CalibrationMonitor(alpha=0.05)
for day in year:
    score, region, default = score_applicants(day)
    monitor.update(default, score, period=day, segments=region)
    if monitor.alarm:
        break
print(f"alarm on {day}")
print(f"scores are {monitor.alarm.direction}")
print(f"likeliest since {monitor.alarm.since}")

# %%
# The monitor names the day on which it probably began. With this date
# one can ask people what happened.
#
# Wait, and see more
# ------------------
#
# An alarm stays until somebody acts on it, and the monitor goes on
# counting. The lender waits until the end of September, so that there
# are more rows to learn from.

END_OF_SEPTEMBER = dt.date(2025, 9, 30)
seen = len(monitor.periods)
for day in year[seen:]:
    score, region, default = score_applicants(day)
    monitor.update(default, score, period=day, segments=region)
    if day == END_OF_SEPTEMBER:
        break

# %%
# ``plot`` draws the evidence day by day, and the bounds of the
# reliability: the log loss that miscalibration costs on average of all
# rows so far. The bounds, too, hold on all days at once. ``to_frame``
# has the numbers.

display = monitor.plot(panels=["evidence", "reliability"])

# %%
# In the calm months the evidence wanders below 1, where that of a
# calibrated score usually is. After the change it rises by orders of
# magnitude. The bounds of the reliability are wide in January, when
# there are few rows, and narrow later.

alarm = monitor.alarm
print(f"90 %: since {alarm.since_first} to {alarm.since_last}")
print(f"log-odds lack {alarm.shift.low:.2f} to {alarm.shift.high:.2f}")

# %%
# Is it the same everywhere? The monitor follows each region as well. Of
# the regions that it flags, at most 5 % are flagged wrongly on average,
# at every look.

flags = monitor.list_segments()
print(flags)

# %%
# Both regions are flagged, which speaks for a cause that they share.
# One map may repair both.
#
# Recalibrate, and go on
# ----------------------
#
# ``recalibrate`` fits a map to the rows since the change, not to those
# of the whole year, and starts the monitor again.

platt = monitor.recalibrate("platt")
for score in (0.05, 0.1, 0.2):
    truth = expit(logit(score) + 0.25)
    new = platt.calibrate([score])[0]
    print(f"score {score:.2f}, mapped {new:.3f}, truth {truth:.3f}")

# %%
# From the next morning on, scores go through the map before they are
# used and before the monitor sees them.

for day in year[year.index(END_OF_SEPTEMBER) + 1 :]:
    score, region, default = score_applicants(day)
    score = platt.calibrate(score)
    monitor.update(default, score, period=day, segments=region)
display = monitor.plot(panels=["evidence", "reliability"])

# %%
# Was it right to wait until the end of September? A map that is fitted
# to two weeks of applicants has an error of its own. Given time, the
# monitor finds that error as well, and rings again. Set
# ``END_OF_SEPTEMBER`` to the middle of August and try it.
#
# The answer
# ----------

bounds = monitor.bounds()
after = "no alarm" if monitor.alarm is None else "another alarm"
print(f"the daily test: {calls} false alarms before the change")
print(f"the monitor: alarm in {alarm.period}, since {alarm.since}")
print(f"the change was on {NEW_CHANNEL}")
print("loss that recalibration would have saved since then:")
print(f"  {alarm.reliability.low:.4f} to {alarm.reliability.high:.4f}")
print(f"after recalibration: {after}, reliability ≤ {bounds.high:.4f}")

# %%
# The score was calibrated until July, and it is calibrated again, as
# far as the rest of the year can tell. The monitor cannot say that the
# new channel was the cause. It gives the date, and people must find out
# the rest.
#
# In production the monitor is kept in a file, and each day's job adds
# one period: ``CalibrationMonitor.open("state.json")`` in Python, or
# ``scoreprism monitor state.json --add FILE`` from cron. In the place
# of rows it takes the sums of ``scoreprism.scale.aggregate``, so that
# the rows can stay where they are.
