"""Room under a limit on memory (``ulimit -v``), seen before polars asks for more: it ends the process, or hangs."""

from __future__ import annotations

import os
from pathlib import Path

from scoreprism.exceptions import InputError

_MEGABYTE = 10**6
#: Address space in MB of `apply` on a small file, and what each thread of polars and OpenBLAS adds (measured).
_BASE, _THREAD = 1500, 100
#: Threads beyond these share what others have reserved.
_MOST_THREADS = 8
#: Bytes for each byte of a file: the text, its columns, the columns as they are written (3.8 were measured).
_TIMES = 4.5


def require_start(path: str) -> None:
    """Refuse to start where a limit leaves no room for the libraries and a file."""
    limit = _limit()
    if limit is None:
        return
    size = Path(path).stat().st_size if path != "-" and Path(path).is_file() else 0
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    need = (_BASE + _THREAD * min(threads, _MOST_THREADS)) * _MEGABYTE + _TIMES * size
    if need > limit:
        _refuse(need, limit)


def require_room(size: float) -> None:
    """Refuse data that a limit leaves no room for, once their size is known."""
    limit, used = _limit(), _used()
    if limit is not None and used is not None and used + _TIMES * size > limit:
        _refuse(used + _TIMES * size, limit)


def _refuse(need: float, limit: float) -> None:
    raise InputError(
        f"a limit on memory must leave room for FILE, which needs about {need / _MEGABYTE:.0f} MB",
        f"a limit of {limit / _MEGABYTE:.0f} MB (ulimit -v)",
        "Raise the limit, or pass fewer rows at a time.",
    )


def _limit() -> int | None:
    """The limit on address space in bytes; None where there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _used() -> int | None:
    """Address space in use; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
