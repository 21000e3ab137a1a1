"""What all experiments share: how much is computed, and work that goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.checks import Check
from scoreprism._core.journal import Journal
from scoreprism._validation import refuse
from scoreprism.report import Section

_MAGIC = "reproduction 1"
#: Where `Work` keeps the path of a journal that it went on from.
_RESUMED = "resumed"


@dataclass(frozen=True)
class Plan:
    """
    How much is computed.

    Attributes
    ----------
    name : str
        "quick" or "full".
    splits, trees : int
        Splits of the German credit data, and trees of the forest.
    more : int
        Further splits, for what the paper's number of them leaves open.
    redraws : int
        Redraws of the labels behind the noise floor of a split.
    rows : int
        Rows of each part of the synthetic data.
    runs : int
        Repetitions of a synthetic experiment.
    step : float
        Distance of the correlations ρ between −0.9 and 0.9.
    samples : int
        Samples of the simulation of appendix E.
    resamples : int
        Replicates of a bootstrap.

    Examples
    --------
    >>> PLANS["full"].splits, PLANS["full"].trees
    (100, 500)
    """

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


#: The two plans: as in the paper, and a look in a few minutes.
PLANS = {
    "full": Plan("full", 100, 500, 300, 50, 10_000, 40, 0.1, 100, 999),
    "quick": Plan("quick", 30, 200, 0, 10, 10_000, 6, 0.1, 8, 100),
}


@dataclass(frozen=True)
class Work:
    """
    The place where experiments are run.

    Attributes
    ----------
    plan : Plan
        How much is computed.
    folder : Path or None
        Where finished tasks are kept; None keeps them in memory only.
    n_jobs : int or None
        Processes, as in joblib.

    Examples
    --------
    >>> work = Work(PLANS["quick"])
    >>> work.run("squares", square, [1, 2, 3], "numbers")
    [1.0, 4.0, 9.0]
    """

    plan: Plan
    folder: Path | None = None
    n_jobs: int | None = None
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def run(self, name: str, function: Callable[[Any], Any], tasks: Sequence[Any], what: str) -> list[Any]:
        """
        A function of each task, in order; tasks that were finished in an earlier run are not done again.

        Parameters
        ----------
        name : str
            Of the experiment; a file name.
        function : callable
            Of a module, so that processes can be given it. Returns numbers, texts, lists, dicts of these, or arrays,
            which come back as lists.
        tasks : sequence
            Plain objects too: together with `name` and the versions of what computes they say what a result is.
        what : str
            What the progress bar says.

        Returns
        -------
        list
            One result for each task.
        """
        if self.folder is None:
            return self._all(function, dict(enumerate(tasks)), what, lambda _, __: None, {})
        with _opened(self.folder, {"experiment": name, "tasks": plain(tasks), "versions": _versions()}) as journal:
            done = _finished(journal, len(tasks))
            if done:
                self._kept[_RESUMED] = journal.path
            left = {i: task for i, task in enumerate(tasks) if i not in done}
            return self._all(
                function, left, what, lambda i, result: journal.append({"task": i, "result": result}), done
            )

    def _all(
        self,
        function: Callable[[Any], Any],
        left: dict[int, Any],
        what: str,
        keep: Callable[[int, Any], None],
        done: dict[int, Any],
    ) -> list[Any]:
        from scoreprism._core.workers import as_finished

        found = dict(done)
        items = list(left.items())
        told = "what is finished is kept" if self.folder is not None else "what is finished is lost: there is no folder"
        for i, result in as_finished(_Numbered(function), items, self.n_jobs, what, lambda: told):
            keep(i, result)
            found[i] = result
        return [found[i] for i in sorted(found)]

    @property
    def resumed(self) -> Path | None:
        """The last journal that results were taken from; None if all were computed in this run."""
        found: Path | None = self._kept.get(_RESUMED)
        return found

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """
        What was made under this name, made when it is first asked for.

        Parameters
        ----------
        key : str
            Its name.
        make : callable
            Makes it.

        Returns
        -------
        object
            The same each time.
        """
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


def _opened(folder: Path, identity: dict[str, Any]) -> Journal:
    """The journal of these very tasks, done with these very versions."""
    text = json.dumps(identity, sort_keys=True)
    path = folder / f"{identity['experiment']}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
    if path.exists() and not path.is_file():
        refuse("a journal must be a plain file", repr(str(path)), "Remove what is there, or use another folder.")
    journal = Journal(path, _MAGIC, "journal", "python -m reproduction")
    try:
        if journal.header is None:
            journal.begin(identity)
            return journal
        stored = {name: journal.header.get(name) for name in identity}
        if json.dumps(stored, sort_keys=True) != text:
            rule = "a journal must belong to this very work"
            refuse(rule, f"{str(path)!r} of another one", "Remove it, or use another folder; it is left as it is.")
        journal.resume()
    except BaseException:
        journal.close()
        raise
    return journal


def _finished(journal: Journal, tasks: int) -> dict[int, Any]:
    """Results by the number of their task."""
    done: dict[int, Any] = {}
    for line, entry in enumerate(journal.entries, start=2):
        number = entry.get("task")
        if set(entry) != {"task", "result"} or type(number) is not int or not 0 <= number < tasks or number in done:
            journal.refuse_line(line, f"no result of one of {tasks} tasks")
        done[number] = entry["result"]
    return done


@dataclass(frozen=True)
class _Numbered:
    """A function of a numbered task; its result with the number."""

    function: Callable[[Any], Any]

    def __call__(self, item: tuple[int, Any]) -> tuple[int, Any]:
        from threadpoolctl import threadpool_limits

        number, task = item
        with threadpool_limits(1):  # how threads share a sum changes its last bit, here and in a process of joblib
            return number, plain(self.function(task))


@dataclass(frozen=True)
class Outcome:
    """
    What an experiment found.

    Attributes
    ----------
    section : Section
        For the page.
    checks : tuple of Check
        Numbers and statements beside the paper's.
    numbers : dict of str to float
        All that is compared with our own earlier run.

    Examples
    --------
    >>> Outcome(Section("theorems", "Theorems", "All hold.")).checks
    ()
    """

    section: Section
    checks: tuple[Check, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)


def square(x: float) -> float:
    """
    A task for examples and tests.

    Parameters
    ----------
    x : float
        A number.

    Returns
    -------
    float
        Its square.

    Examples
    --------
    >>> square(3.0)
    9.0
    """
    return float(x) ** 2


def plain(value: Any) -> Any:
    """
    Arrays as lists and numpy's numbers as Python's: what JSON gives back as it was.

    Parameters
    ----------
    value : object
        Numbers, texts, arrays; tuples, lists and dicts of these.

    Returns
    -------
    object
        The same in plain Python.

    Examples
    --------
    >>> plain({"a": np.arange(2), 1: (np.float64(0.5), None)})
    {'a': [0, 1], '1': [0.5, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@cache
def _versions() -> dict[str, str]:
    """What computes: versions of packages, and the very source of what computes."""
    from importlib.resources import files

    from scoreprism.report._versions import versions

    source = hashlib.sha256()
    for package in ("scoreprism", "reproduction"):
        for path in sorted(Path(str(files(package))).rglob("*.py")):
            source.update(path.read_bytes())
    return versions() | {"source": source.hexdigest()[:16]}
