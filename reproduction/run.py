"""reproduce(): all experiments of the paper, their tables, figures and page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from time import monotonic
from typing import Any

import polars as pl

from reproduction.checks import Check, count_verdicts
from reproduction.folder import JOURNAL, prepare, write
from reproduction.page import make_report
from reproduction.work import PLANS, Outcome, Plan, Work, versions
from scoreprism.exceptions import InputError
from scoreprism.report import Report

#: Every experiment in the order of the page: modules with a function ``run(work)``.
EXPERIMENTS = ("theorems", "synthetic", "german", "uncertainty", "maps", "beyond")


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What became of every number and statement of the paper, all numbers of ours by name, and the page."""

    plan: Plan
    checks: tuple[Check, ...]
    numbers: dict[str, float]
    report: Report

    def to_frame(self) -> pl.DataFrame:
        """All checks, a row each."""
        return pl.DataFrame([asdict(check) for check in self.checks], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the page, as plain Python objects."""
        checks = [asdict(check) for check in self.checks]
        return {"plan": asdict(self.plan), "versions": versions(), "checks": checks, "numbers": self.numbers}


def reproduce(
    out: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    experiments: Sequence[str] = EXPERIMENTS,
    n_jobs: int | None = None,
    overwrite: bool = False,
    callback: Callable[[str], object] = lambda _: None,
) -> Reproduction:
    """
    Run the experiments of the paper, and set each of our numbers beside the printed one.

    Seeds are fixed: everyone gets the same numbers, whatever `n_jobs` is, up to differences between versions of the
    libraries that compute. With `out` finished tasks are kept there, so that a run that was interrupted goes on where
    it was, and the page, tables and figures are written in the end. `callback` gets a line after each experiment.
    """
    unknown = [key for key in experiments if key not in EXPERIMENTS]
    if unknown:
        raise InputError(f"experiments must be among {', '.join(EXPERIMENTS)}; got {', '.join(map(repr, unknown))}")
    folder = None if out is None else prepare(out, overwrite=overwrite)
    work = Work(PLANS["quick" if quick else "full"], None if folder is None else folder / JOURNAL, n_jobs)
    outcomes = {key: _run(key, work, callback) for key in EXPERIMENTS if key in experiments}
    checks = tuple(check for outcome in outcomes.values() for check in outcome.checks)
    numbers = {name: float(value) for outcome in outcomes.values() for name, value in outcome.numbers.items()}
    found = Reproduction(work.plan, checks, numbers, make_report(work.plan, outcomes))
    if folder is not None:
        write(found, folder, overwrite=overwrite)
    return found


def load(key: str) -> Callable[[Work], Outcome]:
    """Load the function that runs an experiment."""
    return import_module(f"reproduction.{key}").run


def _run(key: str, work: Work, callback: Callable[[str], object]) -> Outcome:
    from threadpoolctl import threadpool_limits

    start = monotonic()
    with threadpool_limits(1):  # the same last bits, whatever n_jobs is
        outcome = load(key)(work)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(outcome.checks).items() if count)
    callback(f"{outcome.section.title}: {counts or 'done'} ({monotonic() - start:.0f} s)")
    return outcome
