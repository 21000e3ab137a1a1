"""
.. _tutorial-monitoring:

A year of monitoring
====================

A lender scores some 400 applicants a day, and learns the outcomes later. The score was calibrated when it went live. Is
it still? And if not: since when, for whom, and what is to be done?

The difficulty is that somebody looks every day. The tutorial shows why an ordinary test then raises false alarms, and
follows a ``CalibrationMonitor``, which may be looked at as often as you like, through a year in which something happens.
"""

# %%
# The year
# --------
#
# The stream is simulated. Until 19 July every score is the true chance of a default. On 20 July the lender opens a new
# channel, and from then on applicants default more often than their scores say.

import datetime

import numpy as np
from scipy.special import expit, logit

NEW_CHANNEL = datetime.date(2025, 7, 20)


def score_applicants(day):
    """The applicants of a day: their scores, their regions, and their outcomes."""
    rng = np.random.default_rng(day.toordinal())
    score = rng.beta(1.2, 8.0, 400)
    region = rng.choice(["north", "south"], 400)
    worse = 0.25 if day >= NEW_CHANNEL else 0.0
    default = rng.random(400) < expit(logit(score) + worse)
    return score, region, default.astype(int)


year = [datetime.date(2025, 1, 1) + datetime.timedelta(days) for days in range(365)]

# %%
# A test every morning
# --------------------
#
# The obvious thing to do is to compare, each day, how many defaulted with how many should have, and to call when the
# difference is significant at 5 %. Let us count the calls in the months before anything happened.

calm = [day for day in year if day < NEW_CHANNEL]
calls = 0
for day in calm:
    score, _, default = score_applicants(day)
    z = (default - score).sum() / np.sqrt((score * (1 - score)).sum())
    calls += abs(z) > 1.96
print(f"{calls} false alarms in {len(calm)} days")

# %%
# About one day in twenty, as promised: the 5 % hold for each day, and there are many days. To pool all rows so far and
# test them every morning does not help. Whoever looks often enough sees every threshold crossed once.
#
# A monitor that may be looked at
# -------------------------------
#
# ``CalibrationMonitor`` keeps a number called *evidence* (an e-process). If the score is calibrated, the chance that the
# evidence *ever* reaches 20 is at most 5 %, however often one looks and for however long. It takes one period after the
# other, and keeps sums instead of rows.

from scoreprism.monitoring import CalibrationMonitor

monitor = CalibrationMonitor(alpha=0.05)
for day in year:
    score, region, default = score_applicants(day)
    monitor.update(default, score, period=day, segments={"region": region})
    if monitor.alarm:
        break
print(f"the alarm rings on {day:%d %B}, {(day - NEW_CHANNEL).days} days after the change")
print(f"scores are {monitor.alarm.direction}, likeliest since {monitor.alarm.since}")

# %%
# The monitor gives the day on which it probably began. This is what one takes to the people who know what happened.
#
# Wait, and see more
# ------------------
#
# An alarm stays until somebody acts on it, and the monitor goes on counting. The lender waits until the end of September,
# so that there are more rows to learn from.

end_of_september = year.index(datetime.date(2025, 9, 30))
for day in year[year.index(day) + 1 : end_of_september + 1]:
    score, region, default = score_applicants(day)
    monitor.update(default, score, period=day, segments={"region": region})

# %%
# ``to_frame`` has a line for each day. Here is the evidence, and below it the bounds of the reliability, the log loss that
# miscalibration costs on average of all rows so far. The bounds, too, hold on all days at once.

import matplotlib.pyplot as plt

from scoreprism.displays import house_style


def draw(frame):
    """Evidence, and bounds of the reliability, day by day."""
    when = [datetime.date.fromisoformat(period) for period in frame["period"]]
    with house_style():
        _, (top, bottom) = plt.subplots(2, figsize=(7, 4.6), sharex=True, layout="constrained")
        top.semilogy(when, frame["e_calibration"])
        top.axhline(20, color="#D55E00", linewidth=1)
        top.annotate("alarm", (when[0], 20), (0, 3), textcoords="offset points", color="#D55E00")
        top.set_ylabel("evidence")
        bottom.fill_between(when, frame["reliability_low"], frame["reliability_high"], alpha=0.3)
        bottom.set_ylim(0, 0.02)
        bottom.set_ylabel("reliability")
        if when[0] < NEW_CHANNEL:
            top.axvline(NEW_CHANNEL, color="#7D848D", linewidth=1, linestyle=":")
            bottom.axvline(NEW_CHANNEL, color="#7D848D", linewidth=1, linestyle=":")


draw(monitor.to_frame())

# %%
# In the calm months the evidence wanders below 1, where that of a calibrated score usually is. After the dotted line it
# rises by orders of magnitude. The bounds of the reliability are wide in January, when there are few rows, and narrow
# later.

alarm = monitor.alarm
print(f"with 90 %, the first day is between {alarm.since_first} and {alarm.since_last}")
print(f"log-odds are too low by {alarm.shift.low:.2f} to {alarm.shift.high:.2f}")

# %%
# Is it the same everywhere? The monitor follows each region as well. Of the regions that it flags, at most 5 % are
# flagged wrongly on average, at every look.

for region, flagged in monitor.list_segments().items():
    print(f"{region}: {'flagged' if flagged else 'not flagged'}, log evidence {monitor.log_evidence(segment=region)[-1]:.1f}")

# %%
# Both regions have evidence of their own, which speaks for a cause that they share. One map can repair them.
#
# Recalibrate, and go on
# ----------------------
#
# ``recalibrate`` fits a map to the rows since the change, not to those of the whole year, and starts the monitor again.

platt = monitor.recalibrate("platt")
for score in (0.05, 0.1, 0.2):
    truth = expit(logit(score) + 0.25)
    print(f"the score says {score:.2f}, the map says {platt.calibrate([score])[0]:.3f}, the truth is {truth:.3f}")

# %%
# From the next morning on, scores go through the map before they are used and before the monitor sees them.

for day in year[end_of_september + 1 :]:
    score, region, default = score_applicants(day)
    monitor.update(default, platt.calibrate(score), period=day, segments={"region": region})
draw(monitor.to_frame())

# %%
# Was it right to wait until the end of September? A map that is fitted to two weeks of applicants has an error of its
# own. The monitor sees that error as well, given time, and rings again. Change the date above and try it.
#
# The answer
# ----------

bounds = monitor.bounds()
print(f"false alarms: {calls} of the daily test before the change")
print(f"the monitor's alarm: in {alarm.period}, since {alarm.since}; the change was on {NEW_CHANNEL}")
print(f"since then its scores had lost {alarm.reliability.low:.4f} to {alarm.reliability.high:.4f} of log loss")
print(f"after recalibration: {'no alarm' if monitor.alarm is None else 'another alarm'} until {monitor.periods[-1]},")
print(f"reliability at most {bounds.high:.4f}")

# %%
# The score was calibrated until July and is calibrated again. What the monitor cannot say is why: that the new channel was
# to blame is something people must find out, and the dates tell them where to look.
#
# In production the monitor is kept between days, and each day's job adds one period. Sums that an engine made, from
# ``scoreprism.scale.aggregate``, are taken in the place of rows.
