"""A year of scored applicants, day by day, with a change that is known: for monitoring."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy.special import expit

from scoreprism._core.checks import parse_count, parse_random_state
from scoreprism._core.frames import make_frame

#: The year, and the day from which scores of online applicants are off.
_FIRST, _DAYS, _CHANGE = date(2025, 1, 1), 365, date(2025, 8, 1)
#: Mean and standard deviation of the log-odds of scores, by channel.
_BRANCH, _ONLINE = (-2.4, 0.9), (-2.0, 1.0)
#: Share of online applicants on the first and on the last day: their mix drifts, which is no miscalibration.
_SHARE = (0.3, 0.5)
#: What the log-odds of online applicants lack from the change on.
_SHIFT = 0.5


def iterate_credit_days(
    rows: int = 300, *, random_state: object = 0, backend: str = "polars"
) -> Iterator[tuple[date, Any]]:
    """
    Synthetic applicants for credit on each day of 2025, with a score that goes wrong on 1 August.

    The score is the chance of default until then. Afterwards online applicants default more often than it says: their
    log-odds are 0.5 higher. The share of online applicants grows over the year from 30 % to 50 %, which changes the
    case mix alone.

    Parameters
    ----------
    rows : int, default=300
        Mean number of applicants of a day.
    random_state : int, Generator or None, default=0
        Seed of the applicants.
    backend : {"polars", "pandas", "pyarrow"}, default="polars"
        Library of the frames.

    Yields
    ------
    tuple of date and frame
        A day, and its applicants: columns ``default`` (0 or 1), ``score``, ``channel`` and ``chance``, the true chance
        of default.

    Examples
    --------
    >>> from scoreprism.datasets import iterate_credit_days
    >>> day, applicants = next(iterate_credit_days())
    >>> day.isoformat(), applicants.columns, applicants.height
    ('2025-01-01', ['default', 'score', 'channel', 'chance'], 307)
    """
    count, rng = parse_count(rows, "rows", 1), parse_random_state(random_state)
    for number in range(_DAYS):
        day = _FIRST + timedelta(days=number)
        n = max(int(rng.poisson(count)), 1)
        online = rng.random(n) < _SHARE[0] + (_SHARE[1] - _SHARE[0]) * number / (_DAYS - 1)
        mean, deviation = np.where(online[:, None], _ONLINE, _BRANCH).T
        score = expit(mean + deviation * rng.normal(size=n)).round(4).clip(0.0001, 0.9999)
        shift = _SHIFT * (online & (day >= _CHANGE))
        chance = score * np.exp(shift) / (1.0 + score * np.expm1(shift))
        columns = {
            "default": (rng.random(n) < chance).astype(int).tolist(),
            "score": score.tolist(),
            "channel": np.where(online, "online", "branch").tolist(),
            "chance": chance.tolist(),
        }
        yield day, make_frame(columns, backend)
