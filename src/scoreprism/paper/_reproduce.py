"""reproduce(): all experiments of the paper, their tables, figures and page."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from scoreprism.paper._work import Outcome, Work

#: Every experiment in the order of the page: the module that holds it, and its heading. The function has the same name.
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "theorems": ("_theorems", "Examples and theorems, exactly"),
    "synthetic": ("_synthetic", "Synthetic data"),
    "german": ("_german", "German credit"),
    "uncertainty": ("_uncertainty", "Statistical uncertainty"),
    "maps": ("_maps", "Recalibration maps"),
    "beyond": ("_beyond", "What the paper could not see"),
}


def experiment(key: str) -> Callable[[Work], Outcome]:
    """
    The function that runs an experiment.

    Parameters
    ----------
    key : str
        In `EXPERIMENTS`.

    Returns
    -------
    callable
        From `Work` to `Outcome`.
    """
    found: Callable[[Work], Outcome] = getattr(import_module(f"scoreprism.paper.{EXPERIMENTS[key][0]}"), key)
    return found
