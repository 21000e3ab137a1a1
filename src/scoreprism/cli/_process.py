"""How a run ends: exit codes, one-line errors, signals and closed pipes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

#: The end of the year 9999, the last that Python knows.
_LAST_SECOND = 253_402_300_799
#: Exit codes beside 0.
GATE, USAGE, BUG, INTERRUPTED, PIPE, TERMINATED = 1, 2, 70, 130, 141, 143

#: Options of other tools, and what they are called here; click itself finds those that are spelled alike.
_MEANT = {
    "--group": ("--segment", "--groups"), "--by": ("--segment",), "--cluster": ("--groups",), "--reference": ("--q",),
    "--level": ("--confidence",), "--every": ("--period",), "--partials": ("--sums",), "--key": ("--fold-key",),
    "--save-partial": ("--save-sums",), "--cv-column": ("--fold-column",),
}  # fmt: skip


class Terminated(BaseException):
    """SIGTERM, as an exception: what was begun is undone on the way out."""


def run(command: Callable[[], Any]) -> NoReturn:
    """Run a command and leave the process."""
    _fill_gaps()
    with _terminable():
        code = _code(command)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _silence(stream)
    sys.exit(code)


def _require_environment() -> None:
    """Refuse a time that numpy and matplotlib cannot read: they try when they are loaded, and fail in their words."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None or (given.isascii() and given.isdecimal() and int(given[:20]) <= _LAST_SECOND):
        return
    raise click.UsageError(
        f"SOURCE_DATE_EPOCH must be a number of seconds since 1970, up to {_LAST_SECOND}; got {given[:60]!r}. "
        "Correct the variable, or unset it"
    )


class _Closed(io.RawIOBase):
    """A stdout that was closed before we came: the first to write to it learns so, not the interpreter at its end."""

    told = False

    def writable(self) -> bool:
        return True

    def write(self, block: Any) -> int:
        if not self.told:
            self.told = True
            raise OSError(errno.EBADF, "stdout is closed")
        return len(block)


def _fill_gaps() -> None:
    """Put something in the place of streams that are closed: else a file of ours would take their number."""
    with contextlib.suppress(OSError):
        while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
            pass
        os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), encoding="utf-8")


def _silence(stream: Any) -> None:
    """Let a stream that cannot be written lead nowhere: the interpreter would try again on its way out."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def to_stderr(text: str) -> None:
    """One line on stderr, if there is room: what cannot be said must not keep results from being printed."""
    try:
        click.echo(legible(text, sys.stderr), err=True)
    except OSError:
        _silence(sys.stderr)


def _code(command: Callable[[], Any]) -> int:
    """The exit code of a command; whatever went wrong has been said."""
    try:
        _require_environment()
        code = command()
    except click.ClickException as error:
        return _explained(error)
    except (click.Abort, KeyboardInterrupt):
        return _said("interrupted", INTERRUPTED)
    except Terminated:
        return _said("terminated", TERMINATED)
    except ClosedPipe:
        return PIPE
    except OSError as error:
        return _said(_words(error), USAGE)
    except MemoryError:
        return _said("memory ran out. Pass fewer rows or columns, or use a larger machine.", USAGE)
    except BaseException as error:  # noqa: BLE001 - nobody shall see a traceback who did not ask for it
        return _failed(error)
    return code if isinstance(code, int) else 0


def _failed(error: BaseException) -> int:
    """Our own refusals in one line; anything else is a bug, and says how to report it."""
    if isinstance(error, SystemExit):
        raise error
    exceptions = sys.modules.get("scoreprism.exceptions")  # not loaded: then it is none of ours
    if exceptions is not None and isinstance(error, exceptions.ScoreprismError):
        return _said(str(error), USAGE)
    if debugging():
        import traceback

        traceback.print_exception(error)
        return BUG
    return _said(
        f"unexpected {type(error).__name__}: {error}. This is a bug in scoreprism; please report it with what "
        "`scoreprism --debug …` prints",
        BUG,
    )


def debugging() -> bool:
    """Whether tracebacks were asked for, as an option or in the environment."""
    return "--debug" in sys.argv[1:2] or os.environ.get("SCOREPRISM_DEBUG", "").lower() in {"1", "true", "yes", "on"}


def _explained(error: click.ClickException) -> int:
    """A wrong call in one line, with the command whose help to read."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None and error.option_name in _MEANT:
        has = {name for option in context.command.params for name in option.opts}
        error.possibilities = [name for name in _MEANT[error.option_name] if name in has]
    text = error.format_message().rstrip()
    text = text if text.endswith((".", "?", ")")) else f"{text}."
    example = getattr(getattr(context, "command", None), "example", "")
    if isinstance(error, click.MissingParameter) and example:
        text = f"{text} For example '{example}'."
    if isinstance(error, click.UsageError) and context is not None:
        text = f"{text} See '{context.command_path} --help'."
    return _said(text, USAGE)


def _words(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _said(text: str, code: int) -> int:
    complain(text)
    return code


def complain(text: str, kind: str = "error") -> None:
    """One line on stderr that ``--quiet`` does not silence."""
    to_stderr(f"{kind}: {one_line(text)}")


def one_line(text: str) -> str:
    """A text on one line, without signs that would move the cursor of a terminal."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """A text without signs that would move the cursor of a terminal: their codes instead."""
    return "".join(
        sign if sign.isprintable() or sign == "\t" else sign.encode("unicode_escape").decode() for sign in text
    )


def legible(text: str, stream: Any) -> str:
    """A text that a stream can encode: signs it does not have become question marks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)


class ClosedPipe(BaseException):
    """Nobody reads our output any more; not an OSError, of which click would make exit code 1."""


@contextlib.contextmanager
def open_pipe() -> Iterator[None]:
    """Turn a closed pipe into an exception of its own; the interpreter must not complain of it on its way out."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        raise ClosedPipe from None


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that temporary files go; a second one is not heard meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(*_: Any) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
