"""Work spread over joblib's workers, here or on a cluster; nothing is left behind when something goes wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from scoreprism._core.progress import hidden, track
from scoreprism._spelling import current_spelling, spell, spelling
from scoreprism.exceptions import LostWorkerError

#: Seconds between two looks of a worker whether the process that started it is still there.
_LOOK = 0.5
#: How clusters say that a worker died; those of processes are known without them.
_LOST = (("distributed", "KilledWorker"), ("ray.exceptions", "RayActorError"), ("ray.exceptions", "WorkerCrashedError"))


def worker_count(n_jobs: int | None) -> int:
    """Workers that joblib would use: where None is asked for, those of an active ``parallel_config``, else one."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):  # nobody can have configured it
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def run_all(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    n_jobs: int | None,
    what: str,
    *,
    threads: bool = False,
    ordered: bool = True,
    kept: Callable[[], str] = lambda: "nothing of what was finished is kept",
) -> Iterator[Any]:
    """
    A function of each item, here or by joblib's workers, with a bar on slow work in a terminal.

    Results come in the order of the items, or in that in which they finish; `kept` says what is left of them when a
    worker dies. Joblib's own processes stay for its next call, as always, and end when idle; after an error or an
    interruption they are ended here.
    """
    if len(items) < 2 or worker_count(n_jobs) == 1:
        with one_thread():
            yield from track(map(function, items), len(items), what)
        return
    options = {"return_as": "generator" if ordered else "generator_unordered"}
    if threads:
        options["prefer"] = "threads"
    whole, own = False, _backend() == "LokyBackend" and not threads
    results = _results(function, items, n_jobs, options)
    try:
        with one_thread():
            yield from track(map(_same, results), len(items), what)  # a map cannot be closed: that is done below
        whole = True
    except _lost_errors() as error:
        raise LostWorkerError(
            f"a worker process died, killed by the system or for want of memory; {kept()}. "
            + spell("Use fewer processes (`n_jobs`=1 shows what happens) or fewer rows, and run it again.")
        ) from error
    finally:
        with warnings.catch_warnings():  # joblib tells of work that is given up, which is what was asked for
            warnings.filterwarnings("ignore", r"\d+ tasks (which were still being|have been)", UserWarning)
            results.close()
        if own and not whole:
            _dismiss()


def _same(result: Any) -> Any:
    return result


def _results(
    function: Callable[[Any], Any], items: Sequence[Any], n_jobs: int | None, options: dict[str, Any]
) -> Generator[Any, None, None]:
    """One by one where the backend can do that; else in portions, so that a checkpoint sees them early."""
    from joblib import Parallel, delayed

    parcel = Parcel(function, os.getpid(), cluster=_backend() == "DaskDistributedBackend")
    held = _broadcast(parcel)
    try:
        parallel = Parallel(n_jobs=n_jobs, **options)
    except ValueError:  # the backend in use has no generators
        size = 2 * worker_count(n_jobs)
        with Parallel(n_jobs=n_jobs) as parallel:  # one pool for all portions: Ray takes half a second to make one
            for first in range(0, len(items), size):
                yield from parallel(delayed(_deliver)(parcel, item) for item in items[first : first + size])
        return
    try:
        yield from parallel(delayed(_deliver)(parcel, item) for item in items)
    finally:
        held.pop(id(parcel), None)


def _broadcast(parcel: Parcel) -> dict[int, Any]:
    """To all of Dask's workers at once: with the one copy that joblib would make, the data die with its worker."""
    from joblib.parallel import get_active_backend

    backend = get_active_backend()[0]
    held: dict[int, Any] = getattr(backend, "data_futures", {})
    if _backend() == "DaskDistributedBackend":
        held[id(parcel)] = backend.client.scatter(parcel, broadcast=True, hash=False)
    return held


def _deliver(parcel: Parcel, item: Any) -> Any:
    """The parcel is an argument, not the function that is called: Dask sends large arguments once, functions always."""
    return parcel(item)


class Parcel:
    """
    A function with its data on the way to workers.

    What it starts itself stays on its worker (Dask would send it through the cluster again), without bars. A process of
    this machine ends when the one that started it is gone. Messages name arguments as they would here.
    """

    def __init__(self, function: Callable[[Any], Any], starter: int, *, cluster: bool = False) -> None:
        self._function, self._starter, self._spelling = function, starter, current_spelling()
        # Measured here: what cannot be pickled is an error here, and a silence for ever in Dask's thread.
        self._weight = _weight(function) if cluster else 0

    def __call__(self, item: Any) -> Any:
        from joblib import parallel_config

        if os.getppid() == self._starter:  # a child: no cluster's worker elsewhere, no thread
            _watch(self._starter)
        thread = nullcontext() if os.getpid() == self._starter else one_thread()
        with thread, hidden(), spelling(self._spelling), parallel_config(backend="threading", n_jobs=1):
            return self._function(item)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._weight


def _weight(function: Callable[[Any], Any]) -> int:
    """Bytes that travel; arrays are counted, not copied."""
    import cloudpickle  # distributed depends on it

    arrays: list[Any] = []
    text = cloudpickle.dumps(function, protocol=5, buffer_callback=arrays.append)
    return len(text) + sum(int(array.raw().nbytes) for array in arrays)


@cache
def _watch(parent: int) -> None:
    """A killed process cannot end its workers, and theirs would go on, or wait for minutes."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=look, name="scoreprism-watch", daemon=True).start()


@contextmanager
def one_thread() -> Iterator[None]:
    """
    One thread for linear algebra within it: how threads share a sum changes its last bit.

    Where several threads of a process work, the one that waits for them asks for this: the number belongs to the
    process, and whoever is done first would give it back for all.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401 - a library that is loaded later is not controlled
    from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

    return ThreadpoolController()


def _lost_errors() -> tuple[type[BaseException], ...]:
    loaded = ((sys.modules[module], name) for module, name in _LOST if module in sys.modules)
    return (BrokenExecutor, CancelledError, *(getattr(module, name) for module, name in loaded))


def _backend() -> str:
    """Name of the class of joblib's active backend."""
    from joblib.parallel import get_active_backend

    return type(get_active_backend()[0]).__name__


def _dismiss() -> None:
    """End joblib's processes, at once."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True, kill_workers=True)
