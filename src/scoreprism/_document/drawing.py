"""How a result below draws itself with a display above: displays enter themselves here when they load."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from scoreprism.exceptions import UnavailableError

#: From the type of a result to what draws it.
_DRAWS: dict[type, Callable[..., Any]] = {}


def draws(kind: type, function: Callable[..., Any]) -> None:
    """Enter what draws results of a type."""
    _DRAWS[kind] = function


def draw(result: object, **options: Any) -> Any:
    """Draw a result, as its type or the nearest base that has a figure."""
    import_module("scoreprism.displays")  # fills the table
    for kind in type(result).__mro__:
        if kind in _DRAWS:
            return _DRAWS[kind](result, **options)
    instead = getattr(result, "_draw_instead", "Use to_frame(), and draw what you need.")
    raise UnavailableError(f"{type(result).__name__} has no figure. {instead}")
