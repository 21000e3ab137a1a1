"""compare(): several models on the same rows, term by term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_clip, parse_random_state, refuse
from scoreprism._core.frames import backend_of
from scoreprism._core.simplex import ArrayLike
from scoreprism._fitting.chain_fit import ChainFit, parse_loss, share_folds, split_options
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.models import parse_models
from scoreprism._sample.sample import Sample, find_floors
from scoreprism.decomposition import Comparison
from scoreprism.losses import ProperLoss


def compare(
    y_true: ArrayLike | Sample,
    y_proba: Mapping[str, Any] | ArrayLike | None = None,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    random_state: object = 0,
    **options: Any,
) -> Comparison:
    """
    Decompose the losses of several models on the same rows and compare them term by term.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes. A `Sample` stands for all arguments by row.
    y_proba : mapping of str to array-like or fitted classifier, or frame
        Predicted probabilities by model name; each column of a frame is a model. Classifiers are applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features.
    loss : str or ProperLoss, default="log"
        The loss.
    random_state : int, Generator or None, default=0
        Seed of the folds, which all models share. `decompose` of one model alone uses other folds and differs
        slightly.
    **options : object
        Further arguments of `decompose`.

    Returns
    -------
    Comparison
        One row per model; paired differences between any two; rankings.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism import compare
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(800)
    >>> y = (rng.random(800) < p).astype(int)
    >>> models = compare(y, {"good": p, "bold": p**2 / (p**2 + (1 - p) ** 2)}, random_state=0)
    >>> gap = models.difference("bold", "good").interval("reliability")
    >>> bool(gap.low > 0)
    True
    """
    chosen, models = parse_loss(loss), y_proba
    if not isinstance(y_true, Sample):
        if isinstance(y_true, Mapping):
            refuse(
                "compare takes outcomes, then models", "a mapping first", "Call compare(y_true, {'a': p1, 'b': p2}, X)."
            )
        models = parse_models(y_proba, "`y_proba`")
    rng = parse_random_state(random_state)
    seed = random_state if isinstance(random_state, (int, np.integer)) else int(rng.integers(2**62))
    if "cv" in options and hasattr(options["cv"], "__next__"):
        options["cv"] = list(options["cv"])  # once for all models
    form, clip = options.pop("form", "debiased"), options.pop("clip", None)
    of_rows, of_fit = split_options(options | {"random_state": seed})
    form = parse_choice(form, FORMS, "form")
    sample = Sample.of(y_true, models, X, **of_rows)
    distance = parse_clip(clip, sample.k)
    samples = {name: sample.model(name) for name in sample.predictions}
    fits = share_folds([ChainFit.of(one, **of_fit) for one in samples.values()])
    floors = find_floors([fit.sample for fit in fits], [chosen], distance)
    decompositions = {
        name: fit.fit([chosen], distance, floors).decompose_at(chosen, form, distance, floors.get(str(chosen)))
        for name, fit in zip(samples, fits, strict=True)
    }
    names = next(iter(decompositions.values())).names
    return Comparison(names, backend_of(y_proba) or sample.backend, decompositions)
