"""How a result below draws itself with a display above: displays enter themselves here when they load."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: From the type of a result to what draws it.
_DRAWS: dict[type, Callable[..., Any]] = {}


def draws(kind: type, function: Callable[..., Any]) -> None:
    """
    Enter what draws results of a type.

    Parameters
    ----------
    kind : type
        The type of a result.
    function : callable
        Takes the result and the options of its figure, and returns a display.

    Examples
    --------
    >>> class Number(float): ...
    >>> draws(Number, lambda result, **options: f"a figure of {result}")
    >>> draw(Number(2))
    'a figure of 2.0'
    """
    _DRAWS[kind] = function


def draw(result: object, **options: Any) -> Any:
    """
    Draw a result, as its type or the nearest base that has a figure.

    Parameters
    ----------
    result : object
        A curve or a decomposition.
    **options : object
        Options of its display.

    Returns
    -------
    display
        With its axes and artists.
    """
    import_module("scoreprism.displays")  # fills the table
    kind = next(kind for kind in type(result).__mro__ if kind in _DRAWS)
    return _DRAWS[kind](result, **options)
