"""How long it takes until a monitor notices a change, by simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from scoreprism._core.checks import parse_choice, parse_count, parse_number, parse_random_state, refuse, write_plain
from scoreprism._core.progress import track
from scoreprism._core.simplex import FloatArray
from scoreprism._document.result import Result
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.monitoring._alternatives import Alternatives, find_grid_cells
from scoreprism.monitoring._evidence import Counts, StartPrior, follow_calibration, follow_change, move_rates
from scoreprism.monitoring._monitor import ALARMS

#: Scores that stand for the law of scores: quantiles of a normal law of log-odds.
_QUANTILES = 4096
#: Periods after the change that are simulated first; doubled while no alarm rings.
_FIRST_LOOK = 64
#: Farthest shift, and largest slope, that are tried.
_FARTHEST, _STEEPEST = 8.0, 20.0


@dataclass(frozen=True, eq=False, repr=False)
class MonitoringPlan(Result):
    """
    How many periods pass from a change to the alarm, by simulation.

    Made by `plan_monitoring`.

    Attributes
    ----------
    rows : int
        Rows of a period.
    event_rate : float
        Share of events before the change.
    reliability : float
        Reliability after the change: what the miscalibration costs.
    alpha : float
        The chance of a false alarm, ever.
    alarm : str
        What rings: "calibration" or "change".
    horizon : int
        Periods after the change that were simulated at most.
    delays : dict of str to array
        By the kind of the change: periods until the alarm in each run, 1 if it rings in the first; infinite if it does
        not ring up to the horizon.
    sizes : dict of str to float
        Shift of the log-odds, or factor of their distances from the mean.

    Examples
    --------
    >>> from scoreprism.monitoring import plan_monitoring
    >>> plan = plan_monitoring(500, 0.1, 0.01, calm=20, n_runs=5)
    >>> sorted(plan.delays)
    ['too bold', 'too high', 'too low', 'too timid']
    """

    rows: int
    event_rate: float
    reliability: float
    alpha: float
    alarm: str
    horizon: int
    delays: Mapping[str, FloatArray]
    sizes: Mapping[str, float]

    def _columns(self) -> dict[str, list[Any]]:
        found = list(self.delays.values())
        return {
            "scores_become": list(self.delays),
            "size": [self.sizes[name] for name in self.delays],
            "median": [_quantile(one, 0.5) for one in found],
            "in_90_percent": [_quantile(one, 0.9) for one in found],
            "noticed": [float(np.isfinite(one).mean()) for one in found],
            "runs": [one.size for one in found],
        }

    def _kinds(self) -> Mapping[str, str]:
        return {"noticed": "share", "median": "count", "in_90_percent": "count", "size": "short"}

    def _title(self) -> str:
        what = f"{self.rows} rows a period, event rate {self.event_rate:g}, reliability {self.reliability:g}"
        return f"Periods until an alarm: {what}\nThe alarm is on {self.alarm}, at most {self.alpha:g} false, ever."


def _quantile(delays: FloatArray, level: float) -> float:
    """The smallest delay that this share of the runs does not exceed."""
    if not delays.size:
        return float("nan")
    return float(np.sort(delays)[int(np.ceil(level * delays.size)) - 1])


def plan_monitoring(
    rows: int,
    event_rate: float,
    reliability: float,
    *,
    alpha: float = 0.05,
    loss: str | ProperLoss = "log",
    alarm: str = "calibration",
    baseline: int = 30,
    hazard: float = 1 / 365,
    spread: float = 1.0,
    calm: int = 60,
    horizon: int = 730,
    n_runs: int = 100,
    random_state: object = 0,
) -> MonitoringPlan:
    """
    How many periods it takes until a monitor rings, for changes that cost as much as one cares about.

    Scores are calibrated for `calm` periods. Then they become too low, too high, too bold or too timid, so that their
    reliability is what was asked for. Log-odds of the scores are normal.

    Parameters
    ----------
    rows : int
        Rows of a period.
    event_rate : float
        Share of events.
    reliability : float
        The reliability one cares about: the loss that the miscalibration costs.
    alpha, loss, alarm, baseline, hazard : object
        As for `CalibrationMonitor`.
    spread : float, default=1.0
        Standard deviation of the log-odds of the scores.
    calm : int, default=60
        Periods before the change.
    horizon : int, default=730
        Periods after the change to simulate at most.
    n_runs : int, default=100
        Number of runs for each change; those that ring before it are left out.
    random_state : int, Generator or None, default=0
        Seed of the runs.

    Returns
    -------
    MonitoringPlan
        The delays.

    Examples
    --------
    >>> from scoreprism.monitoring import plan_monitoring
    >>> plan = plan_monitoring(500, 0.1, 0.02, n_runs=5)
    >>> sorted(plan.delays)
    ['too bold', 'too high', 'too low', 'too timid']
    >>> all(delays.max() < 30 for delays in plan.delays.values())
    True
    """
    count, calm = parse_count(rows, "rows", 1), parse_count(calm, "calm", 1)
    runs, horizon = parse_count(n_runs, "n_runs", 1), parse_count(horizon, "horizon", 1)
    rate = parse_number(event_rate, "event_rate", "a number between 0 and 1", lambda v: 0.0 < v < 1.0)
    cost = parse_number(reliability, "reliability", "a positive number", lambda v: v > 0.0)
    wide = parse_number(spread, "spread", "a positive number", lambda v: v > 0.0)
    level = parse_number(alpha, "alpha", "a number between 0 and 1", lambda v: 0.0 < v < 1.0)
    prior = StartPrior(parse_number(hazard, "hazard", "a number between 0 and 1", lambda v: 0.0 < v < 1.0))
    alarm, baseline = parse_choice(alarm, ALARMS, "alarm"), parse_count(baseline, "baseline", 1)
    if alarm == "change" and calm < baseline:
        refuse(
            "`calm` must be at least `baseline`", f"{calm} and {baseline}", "Let the change come after the baseline."
        )
    rng, law = parse_random_state(random_state), _ScoreLaw.of(rate, wide, count)
    moves, sizes = _find_changes(law, get_loss(loss), cost)
    work = [(name, run) for name in moves for run in range(runs)]
    delays: dict[str, list[float]] = {name: [] for name in moves}
    for name, _ in track(work, len(work), "simulated runs"):
        watch = _Run(law, prior, calm, alarm, baseline, -float(np.log(level)))
        delay = watch.find_delay(moves[name], horizon, rng)
        if delay is not None:
            delays[name].append(delay)
    arrays = {name: np.array(found) for name, found in delays.items()}
    return MonitoringPlan(count, rate, cost, level, alarm, horizon, arrays, sizes)


@dataclass(frozen=True, eq=False)
class _ScoreLaw:
    """The law of scores: bins of a monitor that has seen a typical period, and what is in them."""

    rows: int
    alternatives: Alternatives
    share: FloatArray
    rate: FloatArray
    center: float  # mean log-odds

    @classmethod
    def of(cls, event_rate: float, spread: float, rows: int) -> _ScoreLaw:
        from scipy.special import ndtri

        z = spread * ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        center = float(brentq(lambda m: float(expit(m + z).mean()) - event_rate, -60.0, 60.0))
        score = expit(center + z)
        alternatives = Alternatives.of(score, np.full(_QUANTILES, rows / _QUANTILES))
        home = alternatives.find_bins(find_grid_cells(score))
        held = np.bincount(home, minlength=alternatives.bins)
        mean = np.bincount(home, score, alternatives.bins) / held
        return cls(rows, alternatives, held / _QUANTILES, mean, center)

    def cost(self, moves: FloatArray, loss: ProperLoss) -> float:
        """The reliability of scores whose log-odds lack these moves."""
        return float(self.share @ loss.divergence(self.rate, move_rates(self.rate, moves)))


def _find_changes(law: _ScoreLaw, loss: ProperLoss, cost: float) -> tuple[dict[str, FloatArray], dict[str, float]]:
    """Moves of the log-odds of each bin that cost as much as was asked for, and the sizes of these changes."""
    distance = logit(law.rate) - law.center
    ones = np.ones(distance.size)
    ways = {
        "too low": (ones, 0.0, _FARTHEST, 0.0),
        "too high": (ones, 0.0, -_FARTHEST, 0.0),
        "too bold": (distance, 0.0, -1.0, 1.0),
        "too timid": (distance, 0.0, _STEEPEST, 1.0),
    }
    moves, sizes = {}, {}
    for name, (direction, still, far, unit) in ways.items():
        most = law.cost(far * direction, loss)
        if most <= cost:
            rule = f"`reliability` must be below what scores that are {name} can cost"
            refuse(rule, f"{write_plain(cost)}; they can cost {most:.4g}", ("Ask for less", "for a larger `spread`"))
        size = brentq(lambda b, d=direction: law.cost(b * d, loss) - cost, still, far)
        moves[name], sizes[name] = size * direction, float(unit + size)
    return moves, sizes


@dataclass(frozen=True, eq=False)
class _Run:
    """One monitor that is watched from before a change until it rings."""

    law: _ScoreLaw
    prior: StartPrior
    calm: int
    alarm: str
    baseline: int
    needed: float

    def find_delay(self, moves: FloatArray, horizon: int, rng: np.random.Generator) -> float | None:
        """Periods until the alarm, 1 in the first; infinite if there is none; None if it rings before the change."""
        counts, after = self._draw(self.calm, np.zeros_like(moves), rng), 0
        while True:
            more = min(max(after, _FIRST_LOOK), horizon - after)
            counts = Counts(*(np.concatenate(pair) for pair in zip(counts, self._draw(more, moves, rng), strict=True)))
            after += more
            rung = np.flatnonzero(self._follow(counts) >= self.needed)
            if rung.size:
                return float(rung[0] - self.calm + 1) if rung[0] >= self.calm else None
            if after >= horizon:
                return float("inf")

    def _draw(self, periods: int, moves: FloatArray, rng: np.random.Generator) -> Counts:
        rate = self.law.rate
        rows = rng.multinomial(self.law.rows, self.law.share, periods).astype(np.float64)
        events = rng.binomial(rows.astype(np.intp), move_rates(rate, moves)).astype(np.float64)
        return Counts(rows, events, rows * rate, rows * rate**2)

    def _follow(self, counts: Counts) -> FloatArray:
        if self.alarm == "change":
            return follow_change(self.law.alternatives, counts, self.prior, self.baseline).log_e
        return follow_calibration(self.law.alternatives, counts, self.prior)
