"""A progress bar on stderr for long work, shown in a terminal after two seconds and removed when done."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

#: Seconds before a bar is shown.
PATIENCE = 2.0
_HIDDEN = ContextVar("hidden", default=False)


def track(items: Iterable[Any], total: int, what: str) -> Iterator[Any]:
    """Yield the items, with a bar on stderr once they take long."""
    if _HIDDEN.get() or not sys.stderr.isatty():
        yield from items
        return
    line = _Line(what, total)
    # A timer rather than a check between items: the first item may be the slow one.
    timer = threading.Timer(PATIENCE, line.show)
    timer.daemon = True
    timer.start()
    try:
        for done, item in enumerate(items):
            line.advance(done)
            yield item
    finally:
        timer.cancel()
        line.remove()


class _Line:
    """One line of the bar; nested work is another line of the same bar."""

    #: The bar on the terminal and its lines, which the timer's thread and the worker's share.
    lock = threading.RLock()
    bar: Any = None
    shown: int = 0

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.task: Any = None
        self.is_over = False

    def show(self) -> None:
        """Draw the line, unless the work is over."""
        with self.lock:
            if self.is_over:
                return
            _Line.bar = _Line.bar or _start_bar()
            _Line.shown += 1
            self.task = _Line.bar.add_task(self.what, total=self.total, completed=self.done)

    def advance(self, done: int) -> None:
        """Show how many items are done."""
        with self.lock:
            self.done = done
            if self.task is not None:
                _Line.bar.update(self.task, completed=done)

    def remove(self) -> None:
        """Remove the line and, with the last line, the bar."""
        with self.lock:
            self.is_over = True
            if self.task is None:
                return
            _Line.bar.remove_task(self.task)
            _Line.shown -= 1
            if _Line.shown == 0:
                _Line.bar.stop()
                _Line.bar = None


def _start_bar() -> Any:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.start()
    return bar


@contextlib.contextmanager
def pause() -> Iterator[None]:
    """Free the terminal for a line of text; the bar is drawn again below it."""
    with _Line.lock:  # a timer may not draw in the middle of the text
        bar = _Line.bar
        if bar is None:
            yield
            return
        bar.stop()
        try:
            yield
        finally:
            bar.start()


@contextlib.contextmanager
def hide_bars(silent: bool = True) -> Iterator[None]:
    """Show no bars within this context."""
    token = _HIDDEN.set(silent or _HIDDEN.get())
    try:
        yield
    finally:
        _HIDDEN.reset(token)
