"""Parallel work by joblib, on this machine or a cluster; processes are ended after an error."""

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
from itertools import chain
from typing import Any

from scoreprism._core.progress import hide_bars, track
from scoreprism._spelling import current_spelling, spell, spelling
from scoreprism.exceptions import LostWorkerError

#: Seconds between two checks of a worker whether its parent process is alive.
_LOOK = 0.5
#: Errors by which clusters report a dead worker; those of local processes are in the standard library.
_LOST = (("distributed", "KilledWorker"), ("ray.exceptions", "RayActorError"), ("ray.exceptions", "WorkerCrashedError"))


#: Numbers to work on from which threads gain more than they cost.
_WORTH_THREADS = 1 << 23


def count_workers(n_jobs: int | None) -> int:
    """Workers joblib would use; None means those of an active ``parallel_config``, else one."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):  # it cannot have been configured
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
    Yield a function of each item, computed here or by joblib's workers, with a progress bar.

    Results come in the order of the items or, unless `ordered`, of completion; `kept` says in the message what remains
    when a worker dies. Joblib keeps its processes for the next call; after an error or an interruption we end them.
    """
    if len(items) < 2 or count_workers(n_jobs) == 1:
        with limit_threads():
            yield from track(map(function, items), len(items), what)
        return
    options = {"return_as": "generator" if ordered else "generator_unordered"}
    if threads:
        options["prefer"] = "threads"
    is_complete, is_ours = False, _backend_name() == "LokyBackend" and not threads
    results = _compute(function, items, n_jobs, options)
    try:
        with limit_threads():
            yield from track(chain(results), len(items), what)  # a chain cannot be closed: that is done below
        is_complete = True
    except _lost_errors() as error:
        raise LostWorkerError(
            f"a worker process died, killed by the system or for want of memory; {kept()}. "
            + spell("Use fewer processes (`n_jobs`=1 shows what happens) or fewer rows, and run it again.")
        ) from error
    finally:
        with warnings.catch_warnings():  # joblib warns of cancelled work, which is intended here
            warnings.filterwarnings("ignore", r"\d+ tasks (which were still being|have been)", UserWarning)
            results.close()
        if is_ours and not is_complete:
            _kill_workers()


def _compute(
    function: Callable[[Any], Any], items: Sequence[Any], n_jobs: int | None, options: dict[str, Any]
) -> Generator[Any, None, None]:
    """Yield results one by one where the backend can, else in portions, so that a checkpoint gets them early."""
    from joblib import Parallel, delayed

    parcel = Parcel(function, os.getpid(), cluster=_backend_name() == "DaskDistributedBackend")
    futures = _broadcast(parcel)
    try:
        parallel = Parallel(n_jobs=n_jobs, **options)
    except ValueError:  # the backend in use has no generators
        size = 2 * count_workers(n_jobs)
        with Parallel(n_jobs=n_jobs) as parallel:  # one pool for all portions: Ray takes half a second to make one
            for first in range(0, len(items), size):
                yield from parallel(delayed(_deliver)(parcel, item) for item in items[first : first + size])
        return
    try:
        yield from parallel(delayed(_deliver)(parcel, item) for item in items)
    finally:
        futures.pop(id(parcel), None)


def _broadcast(parcel: Parcel) -> dict[int, Any]:
    """Send a parcel to all of Dask's workers: joblib would make one copy, which is lost with its worker."""
    from joblib.parallel import get_active_backend

    backend = get_active_backend()[0]
    futures: dict[int, Any] = getattr(backend, "data_futures", {})
    if _backend_name() == "DaskDistributedBackend":
        futures[id(parcel)] = backend.client.scatter(parcel, broadcast=True, hash=False)
    return futures


def _deliver(parcel: Parcel, item: Any) -> Any:
    """Call the parcel; it is an argument because Dask sends large arguments once, but functions with each task."""
    return parcel(item)


class Parcel:
    """
    A function and its data, as sent to workers.

    Nested parallel work stays on the worker (Dask would send it through the cluster again) and shows no bars. A local
    process ends when its parent is gone. Messages name arguments as in the calling process.
    """

    def __init__(self, function: Callable[[Any], Any], starter: int, *, cluster: bool = False) -> None:
        self._function, self._starter, self._spelling = function, starter, current_spelling()
        # Pickled here, because a failure to pickle is an error here but hangs in Dask's thread.
        self._weight = _measure_bytes(function) if cluster else 0

    def __call__(self, item: Any) -> Any:
        from joblib import parallel_config

        if os.getppid() == self._starter:  # a child process: neither a remote worker nor a thread
            _watch_parent(self._starter)
        thread = nullcontext() if os.getpid() == self._starter else limit_threads()
        with thread, hide_bars(), spelling(self._spelling), parallel_config(backend="threading", n_jobs=1):
            return self._function(item)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._weight


def _measure_bytes(function: Callable[[Any], Any]) -> int:
    """Size in bytes when pickled; arrays are counted, not copied."""
    import cloudpickle  # distributed depends on it

    arrays: list[Any] = []
    text = cloudpickle.dumps(function, protocol=5, buffer_callback=arrays.append)
    return len(text) + sum(int(array.raw().nbytes) for array in arrays)


@cache
def _watch_parent(parent: int) -> None:
    """End this worker when its parent is gone: a killed process cannot end its workers."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=look, name="scoreprism-watch", daemon=True).start()


def map_threads(function: Callable[[Any], Any], items: Sequence[Any], work: int) -> list[Any]:
    """
    A function of each item, in as many threads as there are cores where the `work`, in numbers, is worth it.

    For functions that spend their time in numpy, which lets other threads run meanwhile.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if work < _WORTH_THREADS or min(cores, len(items)) < 2:
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with limit_threads(), ThreadPoolExecutor(min(cores, len(items))) as pool:
        return list(pool.map(function, items))


#: Held while linear algebra is limited.
_IS_LIMITED = threading.Lock()


@contextmanager
def limit_threads() -> Iterator[None]:
    """
    Limit linear algebra to one thread: how threads split a sum changes its last bits.

    The limit belongs to the process. Who finds it set leaves it alone: to restore what was found then, after the first
    thread is done, would leave one thread for good. Where several threads work, the one that waits for them sets it.
    """
    if not _IS_LIMITED.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _IS_LIMITED.release()


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401 - libraries loaded later are not controlled
    from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

    return ThreadpoolController()


def _lost_errors() -> tuple[type[BaseException], ...]:
    loaded = ((sys.modules[module], name) for module, name in _LOST if module in sys.modules)
    return (BrokenExecutor, CancelledError, *(getattr(module, name) for module, name in loaded))


def _backend_name() -> str:
    """Name of the class of joblib's active backend."""
    from joblib.parallel import get_active_backend

    return type(get_active_backend()[0]).__name__


def _kill_workers() -> None:
    """Kill joblib's processes."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True, kill_workers=True)
