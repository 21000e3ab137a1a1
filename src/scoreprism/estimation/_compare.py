"""compare(): several models on the same rows, term by term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_clip, parse_random_state, refuse
from scoreprism._core.frames import backend_of
from scoreprism._core.simplex import ArrayLike
from scoreprism._document.result import Drawable, TermTable
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_count
from scoreprism._fitting.chain_fit import ChainFit, parse_loss, share_folds, split_options
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.models import parse_models
from scoreprism._sample.sample import Sample, find_floors
from scoreprism.decomposition import Decomposition, PairedDifference
from scoreprism.losses import ProperLoss


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Drawable, TermTable):
    """
    Decompositions of several models on the same rows, in the same folds.

    Made by `compare`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    decompositions : dict of str to Decomposition
        One per model. As soon as the loss of one is infinite, all have a ``floored``, at the same floor.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> found = scoreprism.compare(y, {"good": p, "vague": 0.5 + 0.4 * (p - 0.5)}, loss="brier", random_state=0)
    >>> found.ranking("reliability")
    ('good', 'vague')
    """

    decompositions: dict[str, Decomposition]

    @property
    def terms(self) -> dict[str, float]:
        """Terms of the model with the smallest loss."""
        return self.decompositions[self.ranking()[0]].terms

    def __getitem__(self, model: str) -> Decomposition:
        return self.decompositions[parse_choice(model, tuple(self.decompositions), "model")]

    def __iter__(self) -> Iterator[str]:
        return iter(self.decompositions)

    def __len__(self) -> int:
        return len(self.decompositions)

    def ranking(self, term: str = "loss") -> tuple[str, ...]:
        """
        Models from the smallest to the largest.

        Parameters
        ----------
        term : str, default="loss"
            A term, or "loss" for the loss itself.

        Returns
        -------
        tuple of str
            Names of the models; those that are infinite last, in the order they have at the floor.
        """
        chosen = parse_choice(term, ("loss", *self.names), "term")

        def size(d: Decomposition) -> float:
            return d.risk if chosen == "loss" else d.terms[chosen]

        twins = {name: d.floored or d for name, d in self.decompositions.items()}
        value = {name: (size(d), size(twins[name])) for name, d in self.decompositions.items()}
        return tuple(sorted(value, key=value.__getitem__))

    def difference(self, first: str, second: str) -> PairedDifference:
        """
        Paired difference of two models, first − second, term by term, with intervals.

        Parameters
        ----------
        first, second : str
            Names of models.

        Returns
        -------
        PairedDifference
            From the same rows.
        """
        known = tuple(self.decompositions)
        a, b = parse_choice(first, known, "first"), parse_choice(second, known, "second")
        return self.decompositions[a].minus(self.decompositions[b])

    @property
    def floored(self) -> Comparison | None:
        """The same models at a floor, where the loss of one is infinite; else None."""
        twins = {name: d.floored for name, d in self.decompositions.items()}
        found = {name: d for name, d in twins.items() if d is not None}
        return Comparison(self.names, self._backend, found) if len(found) == len(twins) else None

    def _twin(self) -> TermTable | None:
        return self.floored

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Model → summary.
        """
        return {name: d.to_dict() for name, d in self.decompositions.items()}

    def _columns(self) -> dict[str, list[Any]]:
        order = self.ranking()
        found = [self.decompositions[name] for name in order]
        columns: dict[str, list[Any]] = {"model": list(order), "loss": [d.risk for d in found]}
        for name in self.names:
            columns[name] = [d.terms[name] for d in found]
        behind = [d.minus(found[0]) for d in found]
        columns["behind"] = [gap.risk for gap in behind]
        columns["behind_std_error"] = [gap.risk_std_error for gap in behind]
        return columns

    def _title(self) -> str:
        first = next(iter(self.decompositions.values()))
        mark = f", {first._mark}" if first._mark else ""
        what = f"{first.loss!s} loss of {len(self.decompositions)} models on the same {write_count(first.n)} rows"
        return f"{what}, smallest first{mark}"

    def _findings(self) -> Sequence[Finding]:
        """What is true of all models is said once."""
        first, *others = self.decompositions.values()
        shared = [one for one in first.findings if all(one in d.findings for d in others)]
        own = [one.about(name) for name, d in self.decompositions.items() for one in d.findings if one not in shared]
        return [*shared, *own]


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
    Decompose the losses of several models on the same rows, and compare them term by term.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes; or everything at once, parsed already.
    y_proba : mapping of str to array-like or fitted classifier, or frame
        Predicted probabilities by model; the columns of a frame are models. Classifiers are applied to `X`.
    X : array-like or frame of shape (n, p), optional
        Features.
    loss : str or ProperLoss, default="log"
        The loss.
    random_state : int, Generator or None, default=0
        Seed of the folds, which all models share; `decompose` of one of them has others, which matters little.
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
    >>> found = compare(y, {"good": p, "bold": p**2 / (p**2 + (1 - p) ** 2)}, random_state=0)
    >>> gap = found.difference("bold", "good").interval("reliability")
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
    parse_choice(form, FORMS, "form")
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
