"""What the refined booster needs beside itself: held-out rows, weights and rounds of boosters of all makers."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import outside, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism.ensembles._stage_inputs import Path
from scoreprism.exceptions import ScoreprismWarning

#: How boosters call their number of rounds.
_ROUNDS = ("n_estimators", "max_iter", "iterations", "num_boost_round")
#: Held-out rows outside the most frequent class that a map needs: ten for each of Platt's two parameters. With fewer
#: the classes are often separated by chance, and the map turns into a step.
FEW = 20


def too_few(path: Path) -> bool:
    """Whether the held-out rows are too few for a map, which is said."""
    held = path.codes if path.sheet.weight is None else path.codes[path.sheet.weight > 0]
    rest = held.size - int(np.bincount(held).max())
    if rest >= FEW:
        return False
    warnings.warn(
        f"{held.size} held-out rows, {rest} of them outside the most frequent class, are too few to recalibrate by (at "
        f"least {FEW}): the stage has the least raw loss on them, and its probabilities are left as they are. Hold out "
        "more rows (validation_fraction, eval_set).",
        ScoreprismWarning,
        stacklevel=outside(),
    )
    return True


def divided(codes: Any, share: float, seed: int) -> list[NDArray[np.intp]]:
    """Row numbers to train on and to hold out, with the classes in proportion."""
    from sklearn.model_selection import train_test_split

    parts = train_test_split(np.arange(codes.size), test_size=share, stratify=codes, random_state=seed)
    return [np.sort(part) for part in parts]


def whole_groups(codes: Any, groups: Any, share: float, least: int, seed: int) -> list[NDArray[np.intp]]:
    """The same with whole groups; a few draws are tried until both parts hold every class."""
    from sklearn.model_selection import GroupShuffleSplit

    count = np.unique(groups).size
    if count < 2 or not 1 <= round(count * share) < count:
        refuse("`groups` must be enough to hold some out", f"{count}", "Pass more of them, or `eval_set`=(X, y).")
    k = int(codes.max()) + 1
    draws = GroupShuffleSplit(20, test_size=round(count * share), random_state=seed).split(codes, codes, groups)
    rarest = (([np.bincount(codes[part], minlength=k).min() for part in parts], parts) for parts in draws)
    found = next((parts for (train, held), parts in rarest if train >= 1 and held >= least), None)
    if found is None:
        rule = f"held-out groups must hold at least {least} of each class, and the others every class"
        refuse(rule, f"{count} groups that do not", "Pass more groups, or `eval_set`=(X, y).")
    return [np.sort(part) for part in found]


def weighted(estimator: Any, weight: FloatArray | None) -> dict[str, Any]:
    """Weights under the name that the booster's fit knows."""
    if weight is None:
        return {}
    if getattr(estimator, "steps", None):
        name, last = estimator.steps[-1]
        return {f"{name}__{key}": value for key, value in weighted(last, weight).items()}
    if "sample_weight" not in signature(estimator.fit).parameters:
        rule = "a booster must take `sample_weight` in fit, where there are weights"
        refuse(rule, f"{type(estimator).__name__}, which does not", "Use another one, or leave the weights out.")
    return {"sample_weight": weight}


def with_rounds(estimator: Any, stage: int) -> Any:
    """A booster that trains for so many rounds."""
    inner = estimator
    while getattr(inner, "steps", None):
        inner = inner.steps[-1][1]
    known = inner.get_params(deep=False)
    name = next((word for word in _ROUNDS if word in known), None)
    if name is None:
        rule = "refit needs a booster with a number of rounds"
        refuse(rule, type(inner).__name__, f"One of {', '.join(_ROUNDS)}; or `refit`=False.")
    inner.set_params(**{name: stage})
    return estimator
