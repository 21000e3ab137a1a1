"""Monitors as they are met: an alarm in month 8, no alarm, another case mix, segments, three classes, hostile names."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

import numpy as np
from scipy.special import expit, logit, softmax

from scoreprism.monitoring import CalibrationMonitor

#: The change of each stream: its day, counted from the first of January 2025.
CHANGES = {"alarm": 213, "mix": 150, "segments": 120, "classes": 60, "hostile": 20}
FIRST = date(2025, 1, 1)


def name_day(day):
    return (FIRST + timedelta(day)).isoformat()


@cache
def watch(kind):
    """A monitor that has seen a stream of this kind."""
    rng, monitor = np.random.default_rng(3), CalibrationMonitor()
    for day in range({"alarm": 365, "quiet": 214, "mix": 300, "segments": 200, "classes": 120, "hostile": 60}[kind]):
        is_late = day >= CHANGES.get(kind, 10**6)
        options = {"period": FIRST + timedelta(day)}
        if kind == "classes":
            p = softmax(rng.normal(size=(300, 3)), axis=1)
            chance = softmax((0.6 if is_late else 1.0) * np.log(p), axis=1)
            y = np.array(["a", "b", "c"])[(rng.random(300)[:, None] > chance.cumsum(axis=1)[:, :2]).sum(axis=1)]
            monitor.update(y, p, **options)
            continue
        p = rng.beta(4 if kind == "mix" and is_late else 2, 9, 300)
        moved = np.full(300, -0.25 if kind in ("alarm", "hostile") and is_late else 0.0)
        if kind == "segments":
            region = rng.choice(["north", "south", "east", "west"], 300, p=[0.4, 0.3, 0.2, 0.1])
            moved[(region == "south") & is_late] = 0.5
            options["segments"] = {"region": region}
        elif kind == "hostile":
            names = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "branch office in the north " * 4]
            options["segments"] = {"</td>`x`": rng.choice(names, 300)}
        monitor.update(rng.random(300) < expit(logit(p) + moved), p, **options)
    return monitor
