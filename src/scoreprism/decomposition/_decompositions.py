"""Several decompositions in one table: of models on the same rows, and of segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import abbreviate, parse_choice, parse_confidence, refuse, write_plain
from scoreprism._document.result import TermTable
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_count
from scoreprism._kernels.holm import holm_by_name
from scoreprism._kernels.term_intervals import FEW_UNITS
from scoreprism.decomposition._result import Decomposition, PairedDifference


@dataclass(frozen=True, eq=False, repr=False)
class _Decompositions(TermTable):
    """Decompositions with the same terms, by what they are of."""

    decompositions: dict[Any, Decomposition]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.decompositions)

    def __len__(self) -> int:
        return len(self.decompositions)

    @property
    def floored(self) -> Self | None:
        """The same at a floor, where the loss of one of them is infinite; else None."""
        twins = {name: d.floored for name, d in self.decompositions.items() if d.floored is not None}
        return replace(self, decompositions=twins) if len(twins) == len(self) else None

    def _twin(self) -> TermTable | None:
        return self.floored

    def _shown_columns(self) -> dict[str, list[Any]]:
        columns = self._columns()
        lines = [self.decompositions[name] for name in next(iter(columns.values()))]  # the first column names them
        return columns | {name: [d._shown_term(name) for d in lines] for name in self.names}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(_Decompositions):
    """
    Decompositions of several models on the same rows, in the same folds.

    Made by `compare`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    decompositions : dict of str to Decomposition
        One per model. If the loss of any model is infinite, all have a ``floored``, at the same floor.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> models = scoreprism.compare(y, {"good": p, "vague": 0.5 + 0.4 * (p - 0.5)}, loss="brier", random_state=0)
    >>> models.ranking("reliability")
    ('good', 'vague')
    """

    @property
    def terms(self) -> dict[str, float]:
        """Terms of the model with the smallest loss."""
        return self.decompositions[self.ranking()[0]].terms

    def __getitem__(self, model: str) -> Decomposition:
        return self.decompositions[parse_choice(model, tuple(self.decompositions), "model")]

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
            Names of the models; infinite ones last, in their order at the floor.
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
        decompositions = [self.decompositions[name] for name in order]
        columns: dict[str, list[Any]] = {"model": list(order), "loss": [d.risk for d in decompositions]}
        for name in self.names:
            columns[name] = [d.terms[name] for d in decompositions]
        behind = [d.minus(decompositions[0]) for d in decompositions]
        columns["behind"] = [gap.risk for gap in behind]
        columns["behind_std_error"] = [gap.risk_std_error for gap in behind]
        return columns

    def _title(self) -> str:
        first = next(iter(self.decompositions.values()))
        mark = f", {first._mark}" if first._mark else ""
        what = f"{first.loss!s} loss of {len(self.decompositions)} models on the same {write_count(first.n)} rows"
        return f"{what}, smallest first{mark}"

    def _findings(self) -> Sequence[Finding]:
        """Findings on all models once, then those on single models."""
        first, *others = self.decompositions.values()
        shared = [one for one in first.findings if all(one in d.findings for d in others)]
        own = [one.about(name) for name, d in self.decompositions.items() for one in d.findings if one not in shared]
        return [*shared, *own]


@dataclass(frozen=True, eq=False, repr=False)
class SegmentDecompositions(_Decompositions):
    """
    One decomposition per segment, fitted inside it; tests are adjusted for the number of segments.

    Made by `decompose_by`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    decompositions : dict
        Segment → Decomposition. If the loss of any segment is infinite, all have a ``floored``, at the same floor:
        1/(2n), n the number of rows of all segments.
    skipped : dict
        Segment → why it could not be decomposed.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> p, region = rng.random(1000), np.repeat(["north", "south"], 500)
    >>> y = (rng.random(1000) < np.where(region == "north", p, p**3)).astype(int)
    >>> by = scoreprism.decompose_by(y, p, segments=region, loss="brier", random_state=0)
    >>> {name: bool(value < 0.01) for name, value in by.pvalues("reliability").items()}
    {'north': False, 'south': True}
    """

    skipped: dict[Any, str] = field(default_factory=dict)

    @property
    def terms(self) -> dict[str, float]:
        """Means of the terms over the segments that were decomposed, weighted by their weight."""
        mass = [d._mass for d in self.decompositions.values()]
        lines = [list(d.terms.values()) for d in self.decompositions.values()]
        return dict(zip(self.names, np.average(lines, axis=0, weights=mass).tolist(), strict=True))

    def __getitem__(self, segment: object) -> Decomposition:
        if segment not in self.decompositions:
            known = abbreviate(map(write_plain, self.decompositions))
            refuse(
                f"the segment must be one of {known}",
                write_plain(segment),
                "It may have been skipped: see the attribute skipped.",
            )
        return self.decompositions[segment]

    def pvalues(self, term: str = "reliability") -> dict[Any, float]:
        """
        Test in each segment whether a term is above zero, adjusted by Holm's method.

        Parameters
        ----------
        term : str, default="reliability"
            A reliability, or a gain of information such as ``"grouping"``.

        Returns
        -------
        dict
            Segment → adjusted p-value, from the statistic of the term's lower bound.
        """
        first = next(iter(self.decompositions.values()))
        name = parse_choice(term, self.names[: first._levels - 1], "term")
        raw = {segment: d._inference(name).pvalue() for segment, d in self.decompositions.items()}
        return holm_by_name(raw)

    def lower_bounds(self, term: str = "reliability", confidence_level: float = 0.95) -> dict[Any, float]:
        """
        Lower bounds of a term that hold simultaneously for all segments (Bonferroni).

        Parameters
        ----------
        term : str, default="reliability"
            A reliability or a gain of information.
        confidence_level : float, default=0.95
            Joint confidence level.

        Returns
        -------
        dict
            Segment → bound.
        """
        each = 1.0 - (1.0 - parse_confidence(confidence_level)) / max(len(self.decompositions), 1)
        return {segment: d.lower_bound(term, each).value for segment, d in self.decompositions.items()}

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Segment → summary, and the skipped segments.
        """
        summaries = {str(segment): d.to_dict() for segment, d in self.decompositions.items()}
        return {"segments": summaries, "skipped": {str(segment): why for segment, why in self.skipped.items()}}

    def _columns(self) -> dict[str, list[Any]]:
        decompositions = self.decompositions
        columns: dict[str, list[Any]] = {
            "segment": list(decompositions),
            "rows": [d.n for d in decompositions.values()],
            "loss": [d.risk for d in decompositions.values()],
        }
        for name in self.names:
            columns[name] = [d.terms[name] for d in decompositions.values()]
        first = [d._shown_interval(self.names[0]) for d in decompositions.values()]
        columns["low"], columns["high"] = [i.low for i in first], [i.high for i in first]
        columns["p_holm"] = list(self.pvalues(self.names[0]).values())
        return columns

    def _title(self) -> str:
        first = next(iter(self.decompositions.values()))
        mark = f", {first._mark}" if first._mark else ""
        return (
            f"{first.loss!s} loss by segment, fitted inside each{mark} "
            f"(low, high and Holm's p are those of {self.names[0]})"
        )

    def _footer(self) -> list[str]:
        few = [f"{segment} ({d.n_units})" for segment, d in self.decompositions.items() if d.n_units < FEW_UNITS]
        short = f"fewer than {FEW_UNITS} independent rows or clusters, so intervals are too short: {', '.join(few)}"
        return [
            *([short] if few else []),
            *(f"segment {segment} was left out: {why}" for segment, why in self.skipped.items()),
        ]
