"""The colours of the house, on light and on dark paper, and its style for figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

#: Colours of models on light and on dark paper. Told apart by all kinds of colour vision: the simulated colours of any
#: two differ by at least 14 in CIELAB, and each has a contrast of 3 or more (tests/figures/test_displays.py).
PALETTES = {
    "light": ("#0072B2", "#D55E00", "#009E73", "#AA3377", "#222222"),
    "dark": ("#5AA9E6", "#FF8C42", "#3DDBA4", "#E58FC5", "#F0F0F0"),
}
#: The colour of each term on light and on dark paper; terms of longer chains take their turn among `OTHERS`.
TERMS = {
    "reliability": ("#E69F00", "#E69F00"),
    "grouping": ("#0072B2", "#3E97D1"),
    "projection": ("#009E73", "#3DDBA4"),
    "heterogeneity": ("#AA3377", "#E58FC5"),
    "irreducible": ("#B9BEC5", "#6C737C"),
    "noise": ("#B9BEC5", "#6C737C"),
    "refinement": ("#8FB0C9", "#55758C"),
    "resolution": ("#009E73", "#3DDBA4"),
    "uncertainty": ("#B9BEC5", "#6C737C"),
    "residual": ("#7A7A7A", "#A0A0A0"),
}
#: Darker variants of pale colours, for lines.
LINES_OF = {
    "#E69F00": "#B87700",
    "#B9BEC5": "#7D848D",
    "#8FB0C9": "#5B83A3",
    "#6C737C": "#9AA1AB",
    "#55758C": "#86A9C2",
}
OTHERS = (("#0072B2", "#3E97D1"), ("#009E73", "#3DDBA4"), ("#AA3377", "#E58FC5"), ("#D55E00", "#FF8C42"))
#: Text, secondary lines and text, and lines that only guide the eye; and the paper they suit.
INKS = {
    "light": ("#222222", "#666666", "#C3C7CD", "#FFFFFF"),
    "dark": ("#EEEEEE", "#A8ADB5", "#565C66", "#000000"),
}


@contextmanager
def house_style() -> Iterator[None]:
    """
    Draw in the house style, and leave the global style alone.

    Yields
    ------
    None
        Inside, new axes and artists follow ``house.mplstyle``.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> with house_style():
    ...     mpl.rcParams["axes.spines.top"]
    False
    >>> mpl.rcParams["axes.spines.top"]
    True
    """
    from matplotlib import interactive, is_interactive, rc_context, rc_params_from_file

    path = str(files("scoreprism._document") / "house.mplstyle")
    shows = is_interactive()
    try:
        with rc_context(rc_params_from_file(path, use_default_template=False)):
            try:
                yield
            finally:
                shows = is_interactive()
    finally:
        interactive(shows)  # the first figure loads the backend, and that of notebooks then begins to show figures
