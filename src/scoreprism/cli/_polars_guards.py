"""Guards around polars: its panics become refusals, and memory limits are checked before it exceeds them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scoreprism._core.checks import quote, refuse
from scoreprism.exceptions import InputError

_MEGABYTE = 10**6
GIGABYTE = 10**9
#: Address space in MB of `apply` on a small file, and what each thread of polars and OpenBLAS adds (measured).
_BASE, _THREAD = 1500, 100
#: More threads than this do not need more address space.
_MOST_THREADS = 8
#: Memory per byte of a file: the text, its columns, and the columns as they are written (3.8 was measured).
_TIMES = 4.5
#: Address space that Python and polars take before they read anything.
_OWN_GIGABYTES = 1.5
_CHILD = """
import io, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError, OSError):
    pass
import polars
read = polars.read_ipc if sys.argv[1] == "arrow" else polars.read_ipc_stream
try:
    read(io.BytesIO(sys.stdin.buffer.read()))
except BaseException as error:
    print(error)
    sys.exit(1)
"""


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def translate_errors(rule: str) -> Iterator[None]:
    """Turn errors and panics of polars into a refusal; a panic is not an Exception, and prints to stderr."""
    import polars as pl

    try:
        with _silence_stderr():
            yield
    except InputError:
        raise
    except BaseException as error:  # a panic of Rust is a BaseException, and its class has no stable place
        known = isinstance(error, (pl.exceptions.PolarsError, OSError, MemoryError))
        if not known and type(error).__name__ != "PanicException":
            raise
        text = str(error).strip() or type(error).__name__
        refuse(rule, quote(text.splitlines()[0]), "It may be damaged: check how it was written.")


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Silence stderr at its descriptor, to which Rust writes its panics."""
    saved = -1
    with suppress(OSError, ValueError, AttributeError):
        if sys.stderr is not None:
            sys.stderr.flush()
        saved = os.dup(2)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        os.close(nothing)
    try:
        yield
    finally:
        if saved >= 0:
            os.dup2(saved, 2)
            os.close(saved)


def try_arrow(content: bytes, kind: str, name: str, max_gigabytes: float) -> None:
    """Let a child process with limited memory read an Arrow file first: a damaged length makes Rust abort."""
    if not sys.executable:
        return
    limit = str(int((max_gigabytes + _OWN_GIGABYTES) * GIGABYTE))
    child = subprocess.run(  # noqa: S603 - our own interpreter and program; the file is its stdin
        [sys.executable, "-c", _CHILD, kind, limit],
        input=content,
        capture_output=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"},
        check=False,
    )
    if child.returncode:
        lines = child.stdout.decode("utf-8", errors="replace").strip().splitlines()
        got = quote(lines[0]) if lines else f"lengths beyond that in {quote(name)}"
        remedy = "It may be damaged: write it again, or raise --max-gigabytes."
        refuse(f"an Arrow file must be readable in {max_gigabytes:g} GB", got, remedy)


# ── limits on memory (ulimit -v), at which polars ends the process or hangs ─────────────────────────


def require_start(path: str) -> None:
    """Refuse to start where a limit leaves no room for the libraries and a file."""
    limit = _read_memory_limit()
    if limit is None:
        return
    size = Path(path).stat().st_size if path != "-" and Path(path).is_file() else 0
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    need = (_BASE + _THREAD * min(threads, _MOST_THREADS)) * _MEGABYTE + _TIMES * size
    if need > limit:
        _refuse_limit(need, limit)


def require_room(size: float) -> None:
    """Refuse data that a limit leaves no room for, once their size is known."""
    limit, used = _read_memory_limit(), _read_memory_used()
    if limit is not None and used is not None and used + _TIMES * size > limit:
        _refuse_limit(used + _TIMES * size, limit)


def _refuse_limit(need: float, limit: float) -> None:
    rule = f"the memory limit must leave room for FILE, which needs about {need / _MEGABYTE:.0f} MB"
    refuse(rule, f"a limit of {limit / _MEGABYTE:.0f} MB (ulimit -v)", "Raise the limit, or pass fewer rows at a time.")


def _read_memory_limit() -> int | None:
    """The limit on address space in bytes; None where there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _read_memory_used() -> int | None:
    """Address space in use; None where it is unknown."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
