"""A progress bar for long work: in a terminal, after two seconds, gone when done; silent everywhere else."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

#: Seconds of silence.
PATIENCE = 2.0
_HIDDEN = ContextVar("hidden", default=False)


def track(items: Iterable[Any], total: int, what: str) -> Iterator[Any]:
    """The items, with a bar on stderr once they take long."""
    if _HIDDEN.get() or not sys.stderr.isatty():
        yield from items
        return
    start, task = time.monotonic(), None
    _SHOWN.depth += 1
    try:
        for done, item in enumerate(items, start=1):
            if task is None and time.monotonic() - start > PATIENCE:
                _SHOWN.bar = _SHOWN.bar or _bar()
                task = _SHOWN.bar.add_task(what, total=total)
            if task is not None:
                _SHOWN.bar.update(task, completed=done)
            yield item
    finally:
        _SHOWN.depth -= 1
        if task is not None:
            _SHOWN.bar.remove_task(task)
        if _SHOWN.depth == 0 and _SHOWN.bar is not None:
            _SHOWN.bar.stop()
            _SHOWN.bar = None


class _Shown:
    """What is on the terminal: work inside of work is another line of the same bar."""

    depth = 0
    bar: Any = None


_SHOWN = _Shown()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.start()
    return bar


@contextlib.contextmanager
def pause() -> Iterator[None]:
    """Within it the terminal is free for a line of text; the bar comes back below it."""
    bar = _SHOWN.bar
    if bar is None:
        yield
        return
    bar.stop()
    try:
        yield
    finally:
        bar.start()


@contextlib.contextmanager
def hidden(silent: bool = True) -> Iterator[None]:
    """Within it no bar is shown."""
    token = _HIDDEN.set(silent or _HIDDEN.get())
    try:
        yield
    finally:
        _HIDDEN.reset(token)
