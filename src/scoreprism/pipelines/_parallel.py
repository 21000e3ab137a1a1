"""Work spread over joblib's workers, results as they finish, and nothing left behind when something goes wrong."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from functools import cache
from typing import Any

from scoreprism._progress import tracked
from scoreprism.exceptions import LostWorkerError

#: Seconds between two looks of a worker whether the process that started it is still there.
_LOOK = 0.5


def as_finished(
    function: Callable[[Any], Any], items: Sequence[Any], n_jobs: int | None, what: str, kept: Callable[[], str]
) -> Iterator[Any]:
    """
    A function of each item, in the order in which they finish, with a bar on slow work in a terminal.

    The backend is joblib's: whatever ``joblib.parallel_config`` says, else its processes. These stay for joblib's next
    call, as always with joblib, and end when idle; after an error or an interruption they are ended here.

    Parameters
    ----------
    function : callable
        What to run.
    items : sequence
        What to run it on.
    n_jobs : int or None
        Processes, as in joblib.
    what : str
        What the bar says.
    kept : callable
        What is not lost if a worker dies, for the error.

    Yields
    ------
    object
        Results.

    Examples
    --------
    >>> list(as_finished(abs, [-1, 2], 1, "absolute values", str))
    [1, 2]
    """
    from joblib import effective_n_jobs

    if effective_n_jobs(n_jobs) == 1 or len(items) < 2:
        yield from tracked(map(function, items), len(items), what)
        return
    whole, own = False, _default_backend()
    try:
        with closing(_results(function, items, n_jobs)) as results:
            yield from tracked(results, len(items), what)
        whole = True
    except BrokenExecutor as error:
        raise LostWorkerError(
            f"a worker process died, killed by the system or for want of memory; {kept()}. "
            "Use fewer processes (n_jobs=1 shows what happens) or fewer rows, and run it again."
        ) from error
    finally:
        if own and not whole:
            _dismiss()


def _results(function: Callable[[Any], Any], items: Sequence[Any], n_jobs: int | None) -> Generator[Any, None, None]:
    """One by one where the backend can do that; else in portions, so that a checkpoint sees them early."""
    from joblib import Parallel, delayed, effective_n_jobs

    watched = Watched(function, os.getpid())
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    except ValueError:  # the backend in use has no generators
        size = 2 * effective_n_jobs(n_jobs)
        for first in range(0, len(items), size):
            yield from Parallel(n_jobs=n_jobs)(delayed(watched)(item) for item in items[first : first + size])
        return
    yield from parallel(delayed(watched)(item) for item in items)


class Watched:
    """A function that, in another process of this machine, ends that process when the one that started it is gone."""

    def __init__(self, function: Callable[[Any], Any], starter: int) -> None:
        self._function, self._starter = function, starter

    def __call__(self, item: Any) -> Any:
        if os.getppid() == self._starter:  # a child: no cluster's worker, no thread
            _watch(self._starter)
        return self._function(item)


@cache
def _watch(parent: int) -> None:
    """A killed process cannot end its workers, and theirs would go on, or wait for minutes."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=look, name="scoreprism-watch", daemon=True).start()


def _default_backend() -> bool:
    """Whether joblib's own processes do the work."""
    from joblib.parallel import get_active_backend

    return type(get_active_backend()[0]).__name__ == "LokyBackend"


def _dismiss() -> None:
    """End joblib's processes, at once."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True, kill_workers=True)
