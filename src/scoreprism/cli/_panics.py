"""Errors of polars in our words: also its panics, which are no Exception and talk on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from scoreprism._core.checks import refuse
from scoreprism.cli._words import shown
from scoreprism.exceptions import InputError


@contextmanager
def in_our_words(rule: str, remedy: str = "It may be damaged: check how it was written.") -> Iterator[None]:
    """Refuse what polars cannot read."""
    import polars as pl

    try:
        with _silent_stderr():
            yield
    except InputError:
        raise
    except (pl.exceptions.PolarsError, OSError, MemoryError) as error:
        refuse(rule, _first_line(error), remedy)
    except BaseException as error:  # a panic of Rust is a BaseException, and its class has no stable place
        if type(error).__name__ != "PanicException":
            raise
        refuse(rule, _first_line(error), remedy)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return shown(text.splitlines()[0] if text else type(error).__name__)


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Rust writes its panics to the descriptor itself."""
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
