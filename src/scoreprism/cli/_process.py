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

from scoreprism._findings.wording import one_line

#: The end of the year 9999, the last that Python knows.
_LAST_SECOND = 253_402_300_799
#: Exit codes other than 0.
GATE, USAGE, BUG, INTERRUPTED, PIPE, TERMINATED = 1, 2, 70, 130, 141, 143

#: Options of other tools and arguments of Python, and what they are called here.
_MEANT = {
    "--group": ("--segment", "--groups"), "--by": ("--segment",), "--cluster": ("--groups",), "--reference": ("--q",),
    "--level": ("--confidence",), "--every": ("--period",), "--partials": ("--sums",), "--key": ("--fold-key",),
    "--save-partial": ("--save-sums",), "--cv-column": ("--fold-column",), "--label": ("--pos-label",),
    "--sample-weight": ("--weight",), "--random-state": ("--seed",), "--y": ("--target",), "--y-true": ("--target",),
    "--y-proba": ("--score",), "--x": ("--features",),
}  # fmt: skip
#: How alike an option must be to one that does not exist; click itself offers options that mean something else.
_ALIKE = 0.75


class Terminated(BaseException):
    """SIGTERM as an exception, so that unfinished work is cleaned up."""


def run(command: Callable[[], Any]) -> NoReturn:
    """Run a command and leave the process."""
    _replace_closed_streams()
    with _unwind_on_sigterm():
        code = _run_command(command)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _silence(stream)
    sys.exit(code)


def _require_environment() -> None:
    """Refuse a time that numpy and matplotlib cannot read: they fail with an unclear error when they are loaded."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None or (given.isascii() and given.isdecimal() and int(given[:20]) <= _LAST_SECOND):
        return
    raise click.UsageError(
        f"SOURCE_DATE_EPOCH must be a number of seconds since 1970, up to {_LAST_SECOND}; got {given[:60]!r}. "
        "Correct the variable, or unset it"
    )


class _Closed(io.RawIOBase):
    """Replaces a stdout that was closed from the start: the first write fails, so that the error can be printed."""

    is_known = False

    def writable(self) -> bool:
        return True

    def write(self, block: Any) -> int:
        if not self.is_known:
            self.is_known = True
            raise OSError(errno.EBADF, "stdout is closed")
        return len(block)


def _replace_closed_streams() -> None:
    """Replace streams that are closed: otherwise a file that we open would get their descriptor."""
    with contextlib.suppress(OSError):
        while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
            pass
        os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), encoding="utf-8")


def _silence(stream: Any) -> None:
    """Redirect a stream that cannot be written to nowhere: the interpreter would try again when it exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def legible(text: str, stream: Any) -> str:
    """A text that a stream can encode: characters it does not have become question marks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)


def to_stderr(text: str) -> None:
    """Print one line to stderr, if that is possible: a failure must not keep results from being printed."""
    try:
        click.echo(legible(text, sys.stderr), err=True)
    except OSError:
        _silence(sys.stderr)


def _run_command(command: Callable[[], Any]) -> int:
    """Run a command and return its exit code; errors are printed."""
    try:
        _require_environment()
        code = command()
        return code if isinstance(code, int) else 0
    except SystemExit:
        raise
    except ClosedPipe:
        return PIPE
    except BaseException as error:  # noqa: BLE001 - a traceback is only shown on request
        code, text = _explain(error)
        if code == BUG and is_debugging():
            import traceback

            traceback.print_exception(error)
        else:
            complain(text)
        return code


def _explain(error: BaseException) -> tuple[int, str]:
    """An exit code, and what went wrong in one line."""
    exceptions = sys.modules.get("scoreprism.exceptions")  # not loaded: then the error is not one of ours
    if exceptions is not None and isinstance(error, exceptions.ScoreprismError):
        return USAGE, str(error)
    if isinstance(error, click.ClickException):
        return USAGE, _explain_call(error)
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return INTERRUPTED, "interrupted"
    if isinstance(error, Terminated):
        return TERMINATED, "terminated"
    if isinstance(error, OSError):
        return USAGE, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, MemoryError):
        return USAGE, "out of memory. Pass fewer rows or columns, or use a larger machine."
    return BUG, (
        f"unexpected {type(error).__name__}: {error}. This is a bug in scoreprism; please report it with the output of "
        "`scoreprism --debug …`"
    )


def _explain_call(error: click.ClickException) -> str:
    """A wrong call, with the command whose help to read."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        meant = " or ".join(_find_meant(error.option_name, context))
        error = click.UsageError(error.message + f" Did you mean {meant}?" * bool(meant), context)
    text = error.format_message().rstrip()
    text = text if text.endswith((".", "?", ")")) else f"{text}."
    example = getattr(getattr(context, "command", None), "example", "")
    if isinstance(error, click.MissingParameter) and example:
        text = f"{text} For example '{example}'."
    if isinstance(error, click.UsageError) and context is not None:
        text = f"{text} See '{context.command_path} --help'."
    return text


def _find_meant(name: str, context: click.Context) -> list[str]:
    """Options of a command that a name which it does not have may stand for: by meaning, beginning or spelling."""
    from difflib import get_close_matches

    known = [option for param in context.command.params for option in param.opts if option.startswith("--")]
    if name.lower() in _MEANT:
        return [option for option in _MEANT[name.lower()] if option in known]
    begun = [option for option in known if option.startswith(name) or name.startswith(f"{option}-")]
    return begun if len(begun) == 1 else get_close_matches(name, known, n=1, cutoff=_ALIKE)


def is_debugging() -> bool:
    """Whether tracebacks were requested, by the option or the environment variable."""
    return "--debug" in sys.argv[1:2] or os.environ.get("SCOREPRISM_DEBUG", "").lower() in {"1", "true", "yes", "on"}


def complain(text: str, kind: str = "error") -> None:
    """Print one line to stderr that ``--quiet`` does not silence."""
    to_stderr(f"{kind}: {one_line(text)}")


class ClosedPipe(BaseException):
    """The reader of our output has closed the pipe; not an OSError, which click would turn into exit code 1."""


@contextlib.contextmanager
def translate_closed_pipe() -> Iterator[None]:
    """Turn a closed pipe into an exception of its own, about which the interpreter does not complain when it exits."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if not _is_closed_pipe(error):
            raise
        _silence(sys.stdout)
        raise ClosedPipe from None


def _is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of a pipe is gone; Windows calls that an invalid argument, of no file."""
    is_windows = os.name == "nt" and error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError) or is_windows


@contextlib.contextmanager
def _unwind_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that temporary files are removed; a second one is ignored meanwhile."""
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
