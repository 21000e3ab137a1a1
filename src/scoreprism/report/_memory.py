"""Reports on many rows: what models share is held once, and what no section asks for is let go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from scoreprism._fitting.candidates import Problem
from scoreprism._fitting.chain_fit import Laws
from scoreprism.decomposition import Decomposition


def shared(problem: Problem, other: Problem | None) -> Problem:
    """A problem that holds the folds of another model, where they are the same: 72 MB a million rows."""
    if other is None or not problem.plan.factor == other.plan.factor == 1.0:
        return problem
    same = np.array_equal(problem.plan.home, other.plan.home)  # of K folds, that says it all
    return replace(problem, plan=other.plan) if same else problem


def lean(laws: Laws, results: dict[str, Decomposition]) -> tuple[Laws, dict[str, Decomposition]]:
    """Laws and decompositions without what only a user would ask for: 150 MB a million rows."""
    laws.problem.__dict__.pop("cells", None)  # made again when they are asked for
    if not laws.problem.levels:
        winner = laws.choice.winner
        kept = replace(winner, models=winner.fitted.folds)
        laws = laws._replace(choice=replace(laws.choice, winner=kept))
    return laws, {name: _bare(found) for name, found in results.items()}


def _bare(found: Decomposition) -> Decomposition:
    light = None if found._resolution is None else replace(found.resolution_form, _evaluate=None)
    floored = None if found.floored is None else _bare(found.floored)
    return replace(found, _resolution=None if light is None else partial(replace, light), floored=floored)
