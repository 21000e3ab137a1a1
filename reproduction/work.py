"""How much is computed, and one way to run tasks: in processes, each finished one kept in a journal."""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reproduction.checks import Check
from reproduction.pieces import plain
from scoreprism._core.journal import Journal
from scoreprism._core.workers import run_all
from scoreprism.report import Section

#: Numbers of a plan in words.
AMOUNTS = {
    "name": "plan",
    "splits": "splits of the German credit data",
    "trees": "trees of each forest",
    "more": "further splits, for the forest's recalibrated log loss",
    "redraws": "redraws of the labels of a split, for its noise floor",
    "rows": "rows of each part of the synthetic data",
    "runs": "repetitions of each synthetic experiment",
    "step": "distance of the correlations ρ, from −0.9 to 0.9",
    "samples": "samples of appendix E",
    "resamples": "replicates of each bootstrap",
}


@dataclass(frozen=True)
class Plan:
    """How much is computed; see `AMOUNTS`."""

    name: str
    splits: int
    trees: int
    more: int
    redraws: int
    rows: int
    runs: int
    step: float
    samples: int
    resamples: int


#: The two plans: as in the paper, and a look in a minute.
PLANS = {
    "full": Plan("full", 100, 500, 300, 50, 10_000, 40, 0.1, 100, 999),
    "quick": Plan("quick", 30, 200, 0, 10, 10_000, 6, 0.1, 8, 100),
}


@dataclass(frozen=True)
class Outcome:
    """What an experiment found: a section of the page, checks, and all that is compared with our own earlier run."""

    section: Section
    checks: Sequence[Check] = ()
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """Where experiments are run: a plan, a folder of journals (None keeps nothing), and processes as in joblib."""

    plan: Plan
    folder: Path | None = None
    n_jobs: int | None = None
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def run(self, name: str, function: Callable[[Any], Any], tasks: Sequence[Any], what: str) -> list[Any]:
        """
        Run a function on each task; those that were finished in an earlier run are not done again.

        The function belongs to a module, so that processes can be given it; tasks and results are plain (arrays come
        back as lists). Name, tasks and versions say what a result is: they name the journal.
        """
        if self.folder is None:
            done = dict(self._finish(function, list(enumerate(tasks)), what))
            return [done[i] for i in range(len(tasks))]
        identity = {"experiment": name, "tasks": plain(tasks), "versions": fingerprint()}
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        path = self.folder / f"{name}-{digest}.jsonl"
        with Journal(path, "reproduction 1", "journal", "python -m reproduction") as journal:
            if journal.header is None:
                journal.begin(identity)
            else:
                journal.resume()
            done = {entry["task"]: entry["result"] for entry in journal.entries}
            left = [(i, task) for i, task in enumerate(tasks) if i not in done]
            for i, result in self._finish(function, left, what):
                journal.append({"task": i, "result": result})
                done[i] = result
        return [done[i] for i in range(len(tasks))]

    def _finish(self, function: Callable[[Any], Any], left: list[tuple[int, Any]], what: str) -> Any:
        told = "what is finished is lost: there is no folder" if self.folder is None else "what is finished is kept"
        return run_all(partial(_run_task, function), left, self.n_jobs, what, ordered=False, kept=lambda: told)


def _run_task(function: Callable[[Any], Any], item: tuple[int, Any]) -> tuple[int, Any]:
    from threadpoolctl import threadpool_limits

    number, task = item
    with threadpool_limits(1):  # how threads share a sum changes its last bit, here and in a process of joblib
        return number, plain(function(task))


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Remember what a function of a `Work` and plain arguments gave; it is computed once for each of them."""
    signature = inspect.signature(function)

    @wraps(function)
    def remembered(work: Work, *arguments: Any, **options: Any) -> Any:
        bound = signature.bind(work, *arguments, **options)
        bound.apply_defaults()
        key = (function.__name__, *bound.args[1:])
        if key not in work.kept:
            work.kept[key] = function(work, *arguments, **options)
        return work.kept[key]

    return remembered


def versions() -> dict[str, str]:
    """Versions of what computes."""
    packages = ("scoreprism", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


@cache
def fingerprint() -> dict[str, str]:
    """Versions, and the very source of what computes: a change never mixes old and new numbers."""
    import scoreprism

    source = hashlib.sha256()
    for package in (Path(scoreprism.__file__).parent, Path(__file__).parent):
        for path in sorted(package.rglob("*.py")):
            source.update(path.read_bytes())
    return versions() | {"source": source.hexdigest()[:16]}
