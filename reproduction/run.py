"""reproduce(): all experiments of the paper, their tables, figures and page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from reproduction.checks import Check, counted
from reproduction.work import PLANS, Outcome, Plan, Work
from scoreprism._core.progress import tracked
from scoreprism._validation import parse_choice, refuse
from scoreprism.exceptions import ScoreprismError
from scoreprism.report import Report

#: Every experiment in the order of the page: the module that holds it, and its heading. The function has the same name.
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "theorems": ("theorems", "Examples and theorems, exactly"),
    "synthetic": ("synthetic", "Synthetic data"),
    "german": ("german", "German credit"),
    "uncertainty": ("uncertainty", "Statistical uncertainty"),
    "maps": ("maps", "Recalibration maps"),
    "beyond": ("beyond", "What the paper could not see"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Reproduction:
    """
    What became of every number and statement of the paper.

    Made by `reproduce`.

    Attributes
    ----------
    plan : Plan
        How much was computed.
    checks : tuple of Check
        Numbers and statements, beside the paper's.
    numbers : dict of str to float
        All numbers of ours, by name.
    report : Report
        The page.

    Examples
    --------
    >>> from reproduction import reproduce
    >>> found = reproduce(quick=True, experiments=["theorems"])
    >>> found.counts["not reproduced"]
    0
    """

    plan: Plan
    checks: tuple[Check, ...]
    numbers: dict[str, float]
    report: Report

    @property
    def counts(self) -> dict[str, int]:
        """How many checks have each verdict."""
        return counted(self.checks)

    def to_frame(self, backend: str = "polars") -> Any:
        """
        All checks as a frame.

        Parameters
        ----------
        backend : str, default="polars"
            "polars", "pandas" or "pyarrow".

        Returns
        -------
        frame
            One row per number or statement.
        """
        from scoreprism._core.frames import make_frame

        rows = [check.to_dict() for check in self.checks]
        return make_frame({name: [row[name] for row in rows] for name in Check.__dataclass_fields__}, backend)

    def to_dict(self) -> dict[str, Any]:
        """
        Plain Python objects.

        Returns
        -------
        dict
            Plan, versions, checks and numbers.
        """
        from dataclasses import asdict

        checks = [check.to_dict() for check in self.checks]
        versions = dict(self.report.versions)
        return {"plan": asdict(self.plan), "versions": versions, "checks": checks, "numbers": dict(self.numbers)}

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """
        Write the page, tables (CSV, Markdown) and figures (SVG, PNG).

        Everything is made before anything is put in place; the page is the last.

        Parameters
        ----------
        folder : path
            A new or empty folder, or one of an earlier run.
        overwrite : bool, default=False
            Whether a finished run may be replaced.

        Returns
        -------
        Path
            The page.
        """
        from reproduction.folder import held, prepared, write_all

        path = prepared(folder, overwrite=overwrite)
        with held(path):
            return write_all(self, path, overwrite=overwrite)

    def __repr__(self) -> str:
        from dataclasses import replace

        return replace(self.report, sections=self.report.sections[:1]).to_text()

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def reproduce(
    out: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    experiments: Sequence[str] | None = None,
    n_jobs: int | None = None,
    overwrite: bool = False,
    callback: Callable[[str], object] | None = None,
) -> Reproduction:
    """
    Run the experiments of the paper, and set each of our numbers beside the printed one.

    Seeds are fixed: everyone gets the same numbers, whatever `n_jobs` is, up to differences between versions of the
    libraries that compute.

    Parameters
    ----------
    out : path, optional
        A folder for the page, tables and figures. Finished tasks are kept there as well: a run that was interrupted
        goes on where it was. Nothing is written by default.
    quick : bool, default=False
        Fewer splits, trees and repetitions: about a minute instead of seven on two cores, with wider tolerances.
    experiments : sequence of str, optional
        Some of `EXPERIMENTS`; all by default.
    n_jobs : int, optional
        Processes, as in joblib.
    overwrite : bool, default=False
        Whether the results of a finished run in `out` may be replaced.
    callback : callable, optional
        Called with a line of text after each experiment.

    Returns
    -------
    Reproduction
        Checks, numbers and the page.

    Examples
    --------
    >>> from reproduction import reproduce
    >>> found = reproduce(quick=True, experiments=["theorems"])
    >>> found.to_frame().columns[:3]
    ['key', 'place', 'what']
    """
    from reproduction.folder import JOURNAL, held, prepared, write_all
    from scoreprism.estimation._parse import require_jobs

    keys = _chosen(experiments)
    require_jobs(n_jobs)
    if not isinstance(quick, bool):
        refuse("quick must be True or False", repr(quick), "Pass one of them.")
    if callback is not None and not callable(callback):
        refuse("callback must be a function of a line of text", repr(callback), "For example print.")
    plan = PLANS["quick" if quick else "full"]
    if out is None:
        work = Work(plan, None, n_jobs)
        return finished(work, dict(_outcomes(work, keys, callback)))
    folder = prepared(out, overwrite=overwrite)
    with held(folder):
        work = Work(plan, folder / JOURNAL, n_jobs)
        found = finished(work, dict(_outcomes(work, keys, callback)))
        write_all(found, folder, overwrite=overwrite)
    return found


def finished(work: Work, outcomes: dict[str, Outcome]) -> Reproduction:
    """
    All experiments together.

    Parameters
    ----------
    work : Work
        Where they were run.
    outcomes : dict of str to Outcome
        What they found.

    Returns
    -------
    Reproduction
        Ready to be saved.
    """
    from reproduction.page import page

    checks = tuple(check for outcome in outcomes.values() for check in outcome.checks)
    numbers = {name: float(value) for outcome in outcomes.values() for name, value in outcome.numbers.items()}
    return Reproduction(work.plan, checks, numbers, page(work.plan, outcomes))


def experiment(key: str) -> Callable[[Work], Outcome]:
    """
    The function that runs an experiment.

    Parameters
    ----------
    key : str
        In `EXPERIMENTS`.

    Returns
    -------
    callable
        From `Work` to `Outcome`.

    Examples
    --------
    >>> experiment("theorems").__name__
    'theorems'
    """
    found: Callable[[Work], Outcome] = getattr(import_module(f"reproduction.{EXPERIMENTS[key][0]}"), key)
    return found


def _chosen(experiments: object) -> list[str]:
    """Experiments in the order of the page."""
    if experiments is None:
        return list(EXPERIMENTS)
    if isinstance(experiments, str) or not isinstance(experiments, Sequence) or not experiments:
        refuse("experiments must be a list of names", repr(experiments), f"Choose among {', '.join(EXPERIMENTS)}.")
    asked = {parse_choice(key, tuple(EXPERIMENTS), "each of experiments") for key in experiments}
    return [key for key in EXPERIMENTS if key in asked]


def _outcomes(
    work: Work, keys: Sequence[str], callback: Callable[[str], object] | None
) -> Iterator[tuple[str, Outcome]]:
    start = monotonic()
    for key, outcome in tracked(((key, _run(key, work)) for key in keys), len(keys), "experiments"):
        if callback is not None:
            callback(f"{EXPERIMENTS[key][1]}: {_told(outcome.checks)} ({monotonic() - start:.0f} s)")
        yield key, outcome
        start = monotonic()


def _run(key: str, work: Work) -> Outcome:
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):  # the same last bits, whatever n_jobs is
            return experiment(key)(work)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if work.resumed is None or isinstance(error, ScoreprismError):
            raise
        got = f"{type(error).__name__} ({error}) from results in {str(work.resumed)!r}"
        refuse("a journal must hold what reproduce wrote", got, "Remove that file; its tasks will be done again.")


def _told(checks: Sequence[Check]) -> str:
    """How many of an experiment's checks have each verdict."""
    return ", ".join(f"{count} {verdict}" for verdict, count in counted(checks).items() if count) or "done"
