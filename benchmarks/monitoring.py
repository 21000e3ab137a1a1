"""``python -m benchmarks.monitoring [scenario …] [--runs N] [--jobs N]``: what a monitor guarantees, and how soon it sees a change.

Streams are drawn from laws known exactly: days of scores whose log-odds are normal, and outcomes whose chance is the score, moved. Each batch of runs has
bins and maps from a first day of its own. Printed as Markdown with Monte-Carlo errors; docs/monitoring_statistics.md holds the tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.signal import lfilter
from scipy.special import expit, gammaln, logit, logsumexp
from scipy.stats import norm

from scoreprism.losses import get_loss
from scoreprism.monitoring._alarm import split_change
from scoreprism.monitoring._alternatives import Alternatives, find_grid_cells
from scoreprism.monitoring._evidence import Counts, StartPrior, follow_calibration, follow_change
from scoreprism.monitoring._periods import PeriodSums, make_bins
from scoreprism.monitoring._stream import Stream

ALPHA, BASELINE, DAYS, CHANGE = 0.05, 30, 400, 100
PRIOR = StartPrior(1 / 365)
#: Mean and standard deviation of the log-odds of scores; and those of another case mix.
MIX, OTHER_MIX = (-1.0, 1.2), (-0.4, 0.9)
#: Between these log-odds lie 4 % of the scores: from the 80th to the 84th of 100.
BUMP = tuple(MIX[0] + MIX[1] * norm.ppf([0.80, 0.84]))
LOG = get_loss("log")
NEEDED = np.log(1.0 / ALPHA)
BATCH = 10

Map = Callable[[np.ndarray], np.ndarray]

#: The log-odds of the chance, by those of the score.
MAPS: dict[str, Map] = {
    "calibrated": lambda x: x,
    "slope .8": lambda x: 0.8 * x,
    "shift +.2": lambda x: x + 0.2,
    "bump": lambda x: x + ((x > BUMP[0]) & (x < BUMP[1])),
    "slope .8, shift +.2": lambda x: 0.8 * x + 0.2,
    "staircase": lambda x: logit((np.floor(expit(x) * 8.0) + 0.5) / 8.0),
    "wave": lambda x: logit(_wave(expit(x))),
}


def _wave(score):
    return score + 0.3 * np.sign(np.sin(20.0 * np.pi * score)) * score * (1.0 - score)


@dataclass(frozen=True)
class Streams:
    """Runs of days: log-odds of scores, chances, outcomes, weights; each (R, T, n)."""

    x: np.ndarray
    chance: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def count(self, alternatives):
        """Counts by bin."""
        runs, days, _ = self.x.shape
        score = expit(self.x)
        home = alternatives.find_bins(find_grid_cells(score)) + alternatives.bins * np.arange(runs * days).reshape(
            runs, days, 1
        )
        w = self.weight
        shape = runs, days, alternatives.bins
        return Counts(
            *(
                np.bincount(home.ravel(), one.ravel(), runs * days * alternatives.bins).reshape(shape)
                for one in (w, w * self.y, w * score, w * score**2)
            )
        )


def draw(rng, runs, days, rows, before="calibrated", after=None, *, change=CHANGE, mix=None) -> Streams:
    """Streams whose map, and whose case mix, may change."""
    x = rng.normal(size=(runs, days, rows))
    x[:, :change] = MIX[0] + MIX[1] * x[:, :change]
    x[:, change:] = (mix or MIX)[0] + (mix or MIX)[1] * x[:, change:]
    chance = np.concatenate([expit(MAPS[before](x[:, :change])), expit(MAPS[after or before](x[:, change:]))], axis=1)
    y = rng.random(x.shape) < chance
    return Streams(x, chance, y.astype(np.float64), np.ones(x.shape))


def choose_alternatives(rng, rows) -> Alternatives:
    """Bins and maps from the scores of a first day."""
    return make_bins(expit(rng.normal(*MIX, rows)), np.ones(rows))


def run_batches(options: argparse.Namespace, seed: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Batches of runs, in processes."""
    runs = options.runs
    sizes = [min(BATCH, runs - start) for start in range(0, runs, BATCH)]
    return Parallel(n_jobs=options.jobs)(
        delayed(work)(np.random.default_rng([seed, i]), size, *arguments) for i, size in enumerate(sizes)
    )


def show_share(hits) -> str:
    """A share in per cent, and its Monte-Carlo error unless it is none or all."""
    rate = float(np.mean(hits))
    error = np.sqrt(rate * (1.0 - rate) / len(hits))
    return f"{100 * rate:.1f} ± {100 * error:.1f}" if 0.0 < rate < 1.0 else f"{100 * rate:.0f}"


def find_days(values, needed, change=CHANGE):
    """Days from the change until a statistic (R, T) reaches what it needs; inf: never; nan: before the change."""
    hit = values >= needed
    first = np.where(hit.any(axis=1), hit.argmax(axis=1) - change + 1.0, np.inf)
    return np.where(first < 1.0, np.nan, first)


def show_days(days) -> str:
    """Median and 90th of 100 among runs without an earlier alarm."""
    kept = np.sort(days[~np.isnan(days)])
    if not kept.size:
        return "–"
    middle, late = (kept[min(int(np.ceil(q * kept.size)) - 1, kept.size - 1)] for q in (0.5, 0.9))
    return " / ".join("never" if np.isinf(one) else f"{one:.0f}" for one in (middle, late))


# ── false alarms ────────────────────────────────────────────────────────────────────────────────────

#: Scenario → rows a day, map, and what else; and how often the runs are multiplied.
NULLS = {
    "calibrated, 500 a day": (500, "calibrated", ""),
    "calibrated, 50 a day": (50, "calibrated", ""),
    "calibrated, 5 a day": (5, "calibrated", ""),
    "calibrated, another case mix from day 100": (500, "calibrated", "mix"),
    "calibrated, outcomes 0 to 30 days late, 50 a day": (50, "calibrated", "late"),
    "calibrated, a third of the days missing, 50 a day": (50, "calibrated", "missing"),
    "calibrated, chances of 1/1000 (most days without an event), 50 a day": (50, "calibrated", "rare"),
    "calibrated, importance weights up to 1, 50 a day": (50, "calibrated", "weights"),
    "calibrated, groups of five equal outcomes, 50 a day": (50, "calibrated", "groups"),
    "always slope .8, shift +.2, 500 a day": (500, "slope .8, shift +.2", ""),
    "always slope .8, shift +.2, 50 a day": (50, "slope .8, shift +.2", ""),
    "always slope .8, shift +.2, 5 a day": (5, "slope .8, shift +.2", ""),
    "always a bump, 500 a day": (500, "bump", ""),
    "always a bump, 50 a day": (50, "bump", ""),
    "always a bump, 5 a day": (5, "bump", ""),
    "always a staircase, 500 a day": (500, "staircase", ""),
    "always a staircase, 50 a day": (50, "staircase", ""),
    "always a staircase, 5 a day": (5, "staircase", ""),
    "always a wave, 500 a day": (500, "wave", ""),
    "always a wave, 50 a day": (50, "wave", ""),
    "always a wave, 5 a day": (5, "wave", ""),
    "always slope .8, shift +.2, another case mix from day 100": (500, "slope .8, shift +.2", "mix"),
    "always a staircase, another case mix from day 100": (500, "staircase", "mix"),
}


def draw_null(rng, runs, rows, name, what) -> Streams:
    """Streams whose map never changes."""
    if what == "rare":
        x = rng.normal(-7.5, 1.0, (runs, DAYS, rows))
        y = rng.random(x.shape) < expit(x)
        return Streams(x, expit(x), y.astype(np.float64), np.ones(x.shape))
    streams = draw(rng, runs, DAYS, rows, name, mix=OTHER_MIX if what == "mix" else None)
    x, chance, y, weight = streams.x, streams.chance, streams.y, streams.weight
    if what == "late":  # each row is counted when its outcome is known; days hold different numbers of rows
        day = np.arange(DAYS)[None, :, None] + rng.integers(0, 31, x.shape)
        width = 2 * rows
        late = [np.zeros((runs, DAYS, width)) for _ in range(4)]
        for run in range(runs):
            order = np.argsort(day[run].ravel(), kind="stable")
            known = day[run].ravel()[order]
            place = np.arange(known.size) - np.searchsorted(known, known)
            kept = (known < DAYS) & (place < width)
            for target, one in zip(late, (x, chance, y, weight), strict=True):
                target[run, known[kept], place[kept]] = one[run].ravel()[order][kept]
        return Streams(*late)
    if what == "missing":
        weight = weight * (rng.random((runs, DAYS, 1)) > 1 / 3)
    if what == "weights":
        weight = rng.random(x.shape) ** 2
    if what == "groups":  # five rows with scores of their own share a uniform number: they are strongly dependent
        shared = np.repeat(rng.random((runs, DAYS, rows // 5)), 5, axis=2)
        y, weight = (shared < chance).astype(np.float64), weight / 5.0
    return Streams(x, chance, y, weight)


def fixed_sample_tests(streams) -> dict[str, np.ndarray]:
    """What a daily test, a comparison of two months and a chart of residuals would have said: ever, (R,)."""
    score = expit(streams.x)
    residual, variance = ((streams.weight * one).sum(axis=2) for one in (streams.y - score, score * (1.0 - score)))
    z = residual / np.sqrt(np.maximum(variance, 1e-12))
    base, spread = residual[:, :30].sum(axis=1), variance[:, :30].sum(axis=1)
    month, room = (np.cumsum(one, axis=1) for one in (residual, variance))
    month, room = month[:, 60:] - month[:, 30:-30], room[:, 60:] - room[:, 30:-30]
    drift = (month / room - (base / spread)[:, None]) / np.sqrt(1.0 / room + (1.0 / spread)[:, None])
    critical = norm.ppf(1.0 - ALPHA / 2.0)
    return {
        "test each day": (np.abs(z) > critical).any(axis=1),
        "last 30 days": (np.abs(drift) > critical).any(axis=1),
        "CUSUM": follow_cusum(z, 0.5).max(axis=1) > 5.0,
    }


def follow_cusum(z, allowance):
    """The larger of both one-sided sums after each day."""
    up, down, out = np.zeros(len(z)), np.zeros(len(z)), np.empty(z.shape)
    for t in range(z.shape[1]):
        up, down = np.maximum(up + z[:, t] - allowance, 0.0), np.maximum(down - z[:, t] - allowance, 0.0)
        out[:, t] = np.maximum(up, down)
    return out


def _null_batch(rng, size, rows, name, what):
    alternatives = (
        Alternatives.of(expit(rng.normal(-7.5, 1.0, rows))) if what == "rare" else choose_alternatives(rng, rows)
    )
    streams = draw_null(rng, size, rows, name, what)
    counts = streams.count(alternatives)
    found = {"change": follow_change(alternatives, counts, PRIOR, BASELINE).log_e.max(axis=1) >= NEEDED}
    if name == "calibrated":
        found["calibration"] = follow_calibration(alternatives, counts, PRIOR).max(axis=1) >= NEEDED
        found |= fixed_sample_tests(streams)
    return found


def measure_nulls(options) -> Iterator[str]:
    """False alarms over 400 days."""
    others = ["test each day", "last 30 days", "CUSUM"]
    yield f"False alarms in {DAYS} days, in % of {options.runs} streams:\n"
    yield "| score | calibration | change | " + " | ".join(others) + " |"
    yield "|---|" + "---:|" * 5
    for number, (label, (rows, name, what)) in enumerate(NULLS.items()):
        if options.only and options.only not in label:
            continue
        batches = run_batches(options, 100 + number, _null_batch, rows, name, what)
        joined = {key: np.concatenate([one[key] for one in batches]) for key in batches[0]}
        cells = [show_share(joined[key]) if key in joined else "" for key in ("calibration", "change", *others)]
        yield f"| {label} | " + " | ".join(cells) + " |"


# ── delays ──────────────────────────────────────────────────────────────────────────────────────────

CHANGES = ("slope .8", "shift +.2", "bump")
HORIZON = 300
CASE_MIX = "another case mix"


def follow_oracle(streams, name):
    """Log E of who knows the map that comes, with the same prior on when, (R, T)."""
    move = MAPS[name](streams.x) - streams.x
    each = (streams.y * move - np.log1p(expit(streams.x) * np.expm1(move))).sum(axis=2)
    running, out = np.full(len(each), -np.inf), np.empty(each.shape)
    mass = PRIOR.each(each.shape[1])
    left = 1.0 - PRIOR.until(np.arange(1, each.shape[1] + 1))
    for t in range(each.shape[1]):
        running = np.logaddexp(running, np.log(mass[t])) + each[:, t]
        out[:, t] = np.logaddexp(running, np.log(left[t]))
    return out


def days_of_fixed_test(name, rows) -> float:
    """Days from the change until the test that knows the map and the change point has a power of one half, by the normal approximation."""
    x = np.random.default_rng(0).normal(*MIX, 400_000)
    move = MAPS[name](x) - x
    before, after = expit(x), expit(MAPS[name](x))
    gain = rows * float(((after - before) * move).mean())
    variance = rows * float((before * (1.0 - before) * move**2).mean())
    return float(norm.ppf(1.0 - ALPHA) ** 2 * variance / gain**2)


def _delay_batch(rng, size, name, rows, before, horizon=HORIZON):
    alternatives = choose_alternatives(rng, rows)
    streams = draw(rng, size, horizon, rows, before, name)
    counts = streams.count(alternatives)
    found = {"change": follow_change(alternatives, counts, PRIOR, BASELINE).log_e}
    if before == "calibrated":
        found["calibration"] = follow_calibration(alternatives, counts, PRIOR)
        found["oracle"] = follow_oracle(streams, name)
    return found


def measure_delays(options) -> Iterator[str]:
    """Days until an alarm."""
    yield f"Days from the change to the alarm, median / 90 % of {options.runs} streams with 500 rows a day:\n"
    yield "| change | oracle | calibration | ratio | change | ratio | early alarms, % | fixed test |"
    yield "|---|" + "---:|" * 7
    for number, name in enumerate(CHANGES):
        batches = run_batches(options, 200 + number, _delay_batch, name, 500, "calibrated", 200)
        days = {key: np.concatenate([find_days(one[key], NEEDED) for one in batches]) for key in batches[0]}
        middle = {key: float(np.median(one[~np.isnan(one)])) for key, one in days.items()}
        early = show_share(np.isnan(days["calibration"]) | np.isnan(days["change"]))
        fixed = days_of_fixed_test(name, 500)
        cells = [show_days(days["oracle"])]
        for key in ("calibration", "change"):
            cells += [show_days(days[key]), f"{middle[key] / middle['oracle']:.2f}"]
        yield f"| {name} | {' | '.join(cells)} | {early} | {fixed:.1f}; {middle['oracle'] / fixed:.1f}× |"
    for number, (before, after) in enumerate((("slope .8, shift +.2", "calibrated"), ("staircase", "shift +.2"))):
        batches = run_batches(options, 220 + number, _delay_batch, after, 500, before, 200)
        days = np.concatenate([find_days(one["change"], NEEDED) for one in batches])
        yield f"| from {before} to {after} | | | | {show_days(days)} | | {show_share(np.isnan(days))} | |"


# ── others, at an equal rate of false alarms ────────────────────────────────────────────────────────


def follow_pits(streams, rng, bins=10):
    """
    Log E after each day, for the distribution of PITs changing, after PITMonitor (arXiv 2603.13156).

    A randomised PIT of an outcome, its rank among those of earlier days, a density of ranks that is learned from the past, and a mixture over
    the day on which it begins to count.
    """
    runs, days, _ = streams.x.shape
    score = expit(streams.x)
    v = rng.random(score.shape)
    pit = np.where(streams.y > 0, 1.0 - score * v, (1.0 - score) * v)
    out = np.zeros((runs, days))
    weight = 1.0 / ((np.arange(days) + 1.0) * (np.arange(days) + 2.0))
    left = np.log(1.0 - np.cumsum(weight) + 1e-300)
    for run in range(runs):
        past, counts, running = np.sort(pit[run, 0]), np.zeros((days, bins)), -np.inf
        for t in range(1, days):
            rank = (np.searchsorted(past, pit[run, t]) + rng.random(score.shape[2])) / (past.size + 1.0)
            counts[t] = np.bincount(np.minimum((rank * bins).astype(int), bins - 1), minlength=bins)
            past = np.sort(np.concatenate([past, pit[run, t]]), kind="stable")
        total = np.concatenate([np.zeros((1, bins)), counts.cumsum(axis=0)])
        for t in range(1, days):  # Dirichlet(½) densities of all starts at once: a product of predictions from the past
            since = total[t + 1] - total[1 : t + 1]
            log_e = (
                gammaln(since + 0.5).sum(axis=1)
                - bins * gammaln(0.5)
                - gammaln(since.sum(axis=1) + 0.5 * bins)
                + gammaln(0.5 * bins)
            )
            running = logsumexp(log_e + since.sum(axis=1) * np.log(bins) + np.log(weight[1 : t + 1]))
            out[run, t] = np.logaddexp(running, left[t])
    return out


#: Deltas of river's ADWIN.
DELTAS = (1e-2, 7e-3, 5e-3, 3e-3, 2e-3, 1e-3)


def follow_adwin(values, delta):
    """The day on which river's ADWIN first says drift, of rows in order, (R, T, n): T if never."""
    from river import drift

    out = np.full(len(values), values.shape[1])
    for run, stream in enumerate(values):
        detector = drift.ADWIN(delta=delta)
        for t, day in enumerate(stream.tolist()):
            for value in day:
                detector.update(value)
                if detector.drift_detected:
                    break
            if detector.drift_detected:
                out[run] = t
                break
    return out


def follow_page_hinkley(values, delta=0.005, decay=0.9999, least=30):
    """The largest statistic of river's PageHinkley after each day, before its first alarm, (R, T)."""
    rows = values.reshape(len(values), -1)
    apart = rows - np.cumsum(rows, axis=1) / np.arange(1, rows.shape[1] + 1)
    up, down = (lfilter([1.0], [1.0, -decay], apart + sign * delta, axis=1) for sign in (-1.0, 1.0))
    up = up - np.minimum(np.minimum.accumulate(up, axis=1), 0.0)
    down = np.maximum(np.maximum.accumulate(down, axis=1), 0.0) - down
    most = np.maximum(up, down)
    most[:, : least - 1] = 0.0
    return np.maximum.accumulate(most, axis=1)[:, values.shape[2] - 1 :: values.shape[2]]


def check_page_hinkley(values):
    """That river rings on the same day."""
    from river import drift

    ours = follow_page_hinkley(values[:1])[0]
    detector = drift.PageHinkley(threshold=0.5 * ours[-1])
    for t, day in enumerate(values[0].tolist()):
        for value in day:
            detector.update(value)
            if detector.drift_detected:
                if t != int(np.argmax(ours > 0.5 * ours[-1])):
                    raise AssertionError("our Page–Hinkley is not river's")
                return


def _detector_batch(rng, size, name, rows):
    """Statistics whose threshold can be chosen, (R, T), and days by threshold for river, (levels, R)."""
    alternatives = choose_alternatives(rng, rows)
    mix = OTHER_MIX if name == CASE_MIX else None
    streams = draw(rng, size, HORIZON, rows, "calibrated", None if mix else name, mix=mix)
    counts, score = streams.count(alternatives), expit(streams.x)
    z = (streams.y - score).sum(axis=2) / np.sqrt((score * (1.0 - score)).sum(axis=2))
    found = {
        "scoreprism, calibration": follow_calibration(alternatives, counts, PRIOR),
        "scoreprism, change": follow_change(alternatives, counts, PRIOR, BASELINE).log_e,
        "CUSUM of residuals, k = ¼": follow_cusum(z, 0.25),
        "CUSUM of residuals, k = 1": follow_cusum(z, 1.0),
        "PIT e-process": follow_pits(streams, rng),
    }
    values = {
        "loss": LOG.evaluate(score.ravel(), streams.y.ravel().astype(np.intp)).reshape(score.shape),
        "residuals": streams.y - score,
    }
    check_page_hinkley(values["residuals"])
    found |= {f"river PageHinkley, {what}": follow_page_hinkley(one) for what, one in values.items()}
    levels = {
        f"river ADWIN, {what}": np.stack([follow_adwin(one, delta) for delta in DELTAS]) for what, one in values.items()
    }
    return found, levels


def measure_detectors(options) -> Iterator[str]:
    """Delays when every detector has the same rate of false alarms."""
    laws = ("calibrated", *CHANGES, CASE_MIX)
    got = {name: run_batches(options, 300 + i, _detector_batch, name, 500) for i, name in enumerate(laws)}
    values = {
        name: {key: np.concatenate([found[key] for found, _ in got[name]]) for key in got[name][0][0]} for name in laws
    }
    levels = {
        name: {key: np.concatenate([found[key] for _, found in got[name]], axis=1) for key in got[name][0][1]}
        for name in laws
    }
    yield (
        f"Days from the change to the alarm, median / 90 % of {options.runs} streams, with thresholds at which {100 * ALPHA:g} % of "
        f"{options.runs} calibrated streams of {HORIZON} days alarm:\n"
    )
    yield "| detector | false alarms, % | " + " | ".join(CHANGES) + f" | alarms at {CASE_MIX}, % |"
    yield "|---|" + "---:|" * 5
    for key in values["calibrated"]:
        top = values["calibrated"][key].max(axis=1)
        needed = np.quantile(top, 1.0 - ALPHA, method="higher")
        cells = [show_days(find_days(values[name][key], needed + 1e-12)) for name in CHANGES]
        false = show_share(values[CASE_MIX][key].max(axis=1) > needed + 1e-12)
        yield f"| {key} | {show_share(top > needed + 1e-12)} | " + " | ".join(cells) + f" | {false} |"
    for key in levels["calibrated"]:
        rates = (levels["calibrated"][key] < HORIZON).mean(axis=1)
        allowed = np.flatnonzero(rates <= ALPHA + 1e-9)
        if not allowed.size:
            yield f"| {key} | {100 * rates.min():.0f} at the strictest | – | – | – | – |"
            continue
        at = int(allowed[0])
        days = [levels[name][key][at] - CHANGE + 1.0 for name in CHANGES]
        cells = [show_days(np.where(one > HORIZON - CHANGE, np.inf, np.where(one < 1, np.nan, one))) for one in days]
        false = show_share(levels[CASE_MIX][key][at] < HORIZON)
        yield (
            f"| {key}, δ = {DELTAS[at]:g} | {show_share(levels['calibrated'][key][at] < HORIZON)} | "
            + " | ".join(cells)
            + f" | {false} |"
        )


# ── bounds of the reliability ───────────────────────────────────────────────────────────────────────

LOOKS = (1, 2, 3, 5, 8, 13, 20, 30, 50, 75, 100, 101, 103, 110, 130, 160, 200, 300, 400)


def _to_stream(alternatives, streams, run) -> Stream:
    """One run as the monitor keeps it."""
    counts = Streams(*(one[run : run + 1] for one in (streams.x, streams.chance, streams.y, streams.weight))).count(
        alternatives
    )
    loss = (
        LOG.evaluate(expit(streams.x[run]).ravel(), streams.y[run].ravel().astype(np.intp))
        .reshape(streams.x[run].shape)
        .sum(axis=1)
    )
    days = range(streams.x.shape[1])
    sums = tuple(PeriodSums(Counts(*(one[0, t] for one in counts)), streams.x.shape[2], float(loss[t])) for t in days)
    return Stream(alternatives, PRIOR, BASELINE, sums)


def _sum_truth(streams, run):
    """Summed divergence of the scores from their chances, each day."""
    score = expit(streams.x[run])
    return LOG.divergence(score.ravel(), streams.chance[run].ravel()).reshape(score.shape).sum(axis=1)


def _cover_batch(rng, size, before, after, rows):
    alternatives = choose_alternatives(rng, rows)
    streams = draw(rng, size, DAYS, rows, before, after)
    out = []
    for run in range(size):
        stream, truth = _to_stream(alternatives, streams, run), np.cumsum(_sum_truth(streams, run))
        ends = np.array([stream.bound(LOG, ALPHA, 0, look) for look in LOOKS])
        exact = truth[np.array(LOOKS) - 1] / (rows * np.array(LOOKS))
        out.append(np.column_stack([ends, exact]))
    return np.stack(out)


COVERED = {
    "calibrated": ("calibrated", None),
    "slope .8, shift +.2": ("slope .8, shift +.2", None),
    "bump": ("bump", None),
    "wave": ("wave", None),
    "calibrated, slope .8 from day 100": ("calibrated", "slope .8"),
}


def measure_coverage(options) -> Iterator[str]:
    """How often bounds hold at every look."""
    yield (
        f"Bounds at {len(LOOKS)} looks from day 1 to 400, in {options.runs} streams; truth and median bounds in thousandths:\n"
    )
    yield "| score | rows a day | hold at every look, % | truth | on day 30 | on day 400 |"
    yield "|---|" + "---:|" * 5
    for number, (label, (before, after)) in enumerate(COVERED.items()):
        for rows in (500, 50):
            batches = run_batches(options, 400 + 10 * number + (rows == 50), _cover_batch, before, after, rows)
            found = np.concatenate(batches)
            held = ((found[..., 0] <= found[..., 2] + 1e-12) & (found[..., 2] <= found[..., 1] + 1e-12)).all(axis=1)
            cells = [
                " to ".join(f"{1000 * np.median(found[:, LOOKS.index(day), end]):.2f}" for end in (0, 1))
                for day in (30, 400)
            ]
            yield (
                f"| {label} | {rows} | {show_share(held)} | {1000 * found[:, -1, 2].mean():.2f} | "
                + " | ".join(cells)
                + " |"
            )


# ── what an alarm says ──────────────────────────────────────────────────────────────────────────────


def _alarm_batch(rng, size, before, after, mix, process, wait):
    """What is said at the alarm, or some days after it; without an alarm nothing."""
    alternatives = choose_alternatives(rng, 500)
    streams = draw(rng, size, 250, 500, before, after, mix=mix)
    out = []
    for run in range(size):
        whole = _to_stream(alternatives, streams, run)
        logs = whole.log_calibration if process == "calibration" else whole.change.log_e
        rung = np.flatnonzero(logs >= NEEDED)
        if not rung.size:
            continue
        until = min(int(rung[0]) + 1 + wait, len(whole.sums))
        stream = Stream(alternatives, PRIOR, BASELINE, whole.sums[:until])
        since = stream.find_start(after_baseline=process == "change")
        line, bound = stream.fit_line(ALPHA, since.start), stream.bound(LOG, ALPHA, since.start)
        truth = _sum_truth(streams, run)[since.start : until].sum() / (500 * (until - since.start))
        out.append((since.start, since.first, since.last, *line.low, *line.high, *bound, truth, until))
    return np.array(out).reshape(-1, 11)


ALARMS = {
    "slope .8 from day 100": ("calibrated", "slope .8"),
    "shift +.2 from day 100": ("calibrated", "shift +.2"),
    "bump from day 100": ("calibrated", "bump"),
    "always slope .8, shift +.2": ("slope .8, shift +.2", None),
}


def measure_alarms(options) -> Iterator[str]:
    """How often what is said at an alarm is true."""
    yield (
        f"How often what is said is true, in %, at the alarms of {options.runs} streams; and days by which the start is off, "
        "and days of its set, medians:\n"
    )
    yield "| score | process | days later | since | off by | set | shift | slope | reliability |"
    yield "|---|---|" + "---:|" * 7
    seed = 500
    for label, (before, after) in ALARMS.items():
        for process in ("calibration", "change"):
            if process == "change" and after is None:
                continue
            for wait in (0, 30):
                seed += 1
                batches = run_batches(options, seed, _alarm_batch, before, after, None, process, wait)
                found = np.concatenate(batches)
                begin = CHANGE if after else 0
                held = (found[:, 1] <= begin) & (begin <= found[:, 2])
                cells = [
                    show_share(held),
                    f"{np.median(np.abs(found[:, 0] - begin)):.0f}",
                    f"{np.median(found[:, 2] - found[:, 1] + 1):.0f}",
                ]
                if "bump" in label:
                    cells += ["", ""]
                else:
                    slope = {"slope .8": 0.8, "shift +.2": 1.0}.get(after or "", 0.8)
                    shift = 0.2 if "shift" in label else 0.0
                    # in the coordinates of the line: per standard deviation, from the mean logit of the first day, which differs little
                    target = np.array([shift + (slope - 1.0) * MIX[0], (slope - 1.0) * MIX[1]])
                    # rows before the change among those since then make the line of these rows another one
                    after_only = found[:, 0] >= begin
                    inside = (found[:, 3:5] <= target + 0.02) & (target - 0.02 <= found[:, 5:7])
                    cells += [show_share(inside[after_only, i]) for i in range(2)]
                cells.append(show_share((found[:, 7] <= found[:, 9] + 1e-12) & (found[:, 9] <= found[:, 8] + 1e-12)))
                yield f"| {label} | {process} | {wait} | " + " | ".join(cells) + " |"


SPLITS = {
    "case mix only, calibrated": ("calibrated", None, OTHER_MIX),
    "case mix only, always slope .8, shift +.2": ("slope .8, shift +.2", None, OTHER_MIX),
    "calibration only: slope .8": ("calibrated", "slope .8", None),
    "calibration only: shift +.2": ("calibrated", "shift +.2", None),
    "both": ("calibrated", "slope .8", OTHER_MIX),
}


def _split_batch(rng, size, before, after, mix, days):
    alternatives = choose_alternatives(rng, 500)
    streams = draw(rng, size, CHANGE + days, 500, before, after, mix=mix)
    out = []
    for run in range(size):
        change, parts = split_change(_to_stream(alternatives, streams, run), CHANGE, LOG)
        out.append((change, *parts))
    return np.array(out)


def split_truth(before, after, mix):
    """The parts of the change of the loss, from the laws."""
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    x, moved = MIX[0] + MIX[1] * z, (mix or MIX)[0] + (mix or MIX)[1] * z
    after = after or before

    def describe(at, name):
        score, chance = expit(at), expit(MAPS[name](at))
        return float(LOG.divergence(score, chance).mean()), float(LOG.entropy(chance).mean())

    new, old, first = describe(moved, after), describe(moved, before), describe(x, before)
    return sum(new) - sum(first), sum(old) - sum(first), new[0] - old[0], new[1] - old[1]


def measure_splits(options) -> Iterator[str]:
    """Mean and standard deviation of the parts of the change of the loss, beside the truth."""
    yield f"The change of the log loss in thousandths: truth; mean ± standard deviation over {options.runs} streams:\n"
    yield "| what changed | days after | change | mix | miscalibration | refinement |"
    yield "|---|" + "---:|" * 5
    for number, (label, law) in enumerate(SPLITS.items()):
        for days in (10, 100):
            found = np.concatenate(run_batches(options, 600 + 10 * number + (days == 10), _split_batch, *law, days))
            truth = split_truth(*law)
            cells = [
                f"{1000 * t:.1f}; {round(1000 * m, 1) + 0.0:.1f} ± {1000 * s:.1f}"
                for t, m, s in zip(truth, found.mean(axis=0), found.std(axis=0), strict=True)
            ]
            yield f"| {label} | {days} | " + " | ".join(cells) + " |"


#: Scenario → what prints it.
SCENARIOS = {
    "nulls": measure_nulls,
    "delays": measure_delays,
    "detectors": measure_detectors,
    "coverage": measure_coverage,
    "alarms": measure_alarms,
    "splits": measure_splits,
}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.monitoring")
    parser.add_argument("scenarios", nargs="*", help=f"of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--runs", type=int, default=1000, help="runs of each line")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="false alarms: lines that hold this text")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.scenarios) - set(SCENARIOS))
    if unknown:
        parser.error(f"unknown scenario {', '.join(unknown)}; choose among {', '.join(SCENARIOS)}")
    for name in options.scenarios or SCENARIOS:
        began = time.perf_counter()
        print(f"\n### {name}\n", flush=True)
        for line in SCENARIOS[name](options):
            print(line, flush=True)
        print(f"\n{time.perf_counter() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    from benchmarks import monitoring  # noqa: PLW0406 - by its name, so that other processes find what they are sent

    sys.exit(monitoring.main())
