"""Types of options: what click's own let through, refused before any work. Nothing but click is loaded here."""

from __future__ import annotations

import math
import os
from typing import Any

import click

#: More processes than this for each core only take memory.
_PER_CORE = 4


class Finite(click.FloatRange):
    """A finite number in a range; click's ranges let NaN through, which is neither above nor below anything."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


class Named(click.types.StringParamType):
    """A name that is not empty: the variable of a shell that is not set would else choose a default in silence."""

    def __init__(self, what: str) -> None:
        self.what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name."""
        if not str(value).strip():
            self.fail(f"the name of a {self.what} must not be empty. Is a variable of the shell not set?", param, ctx)
        return str(value)


class Jobs(click.types.IntParamType):
    """A number of processes, as joblib counts them: -1 is one for each core."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        found: int = super().convert(value, param, ctx)
        cores = os.cpu_count() or 1
        if found == 0 or found > _PER_CORE * cores:
            most = _PER_CORE * cores
            self.fail(f"{found} is not between 1 and {most}; this machine has {cores} cores.", param, ctx)
        return found


FILE = Named("file")
