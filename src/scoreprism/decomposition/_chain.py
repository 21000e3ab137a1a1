"""Information levels and chains of them: σ(S) ⊆ σ(X) ⊆ σ(Z), or any other (paper, sections 2 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from scoreprism._core.arrays import parse_folds, parse_law
from scoreprism._core.checks import plain, refuse, require_rows
from scoreprism._core.frames import backend_of, column_names
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen, n_classes
from scoreprism.decomposition._result import Decomposition
from scoreprism.decomposition._rows import Plan, Sheet, assemble, with_floor
from scoreprism.losses import ProperLoss

__all__ = ["Chain", "Level", "term_names"]

#: Level names that mean the objective chance Π = P(Y | Z) of a latent state (theorem "four-term").
LATENT_NAMES = frozenset({"Π", "π", "Pi", "pi", "PI", "latent", "Z", "chance"})

#: Names that tables need for themselves.
_RESERVED = frozenset({"residual", "group", "weight", "term"})


@dataclass(frozen=True, eq=False)
class Level:
    """
    The best prediction at one level of information: a name and a law.

    A level does not know where its law came from: an oracle, a cross-fitted estimator, the user. Arrays of float64
    are not copied: do not change them while the level is in use.

    Parameters
    ----------
    name : str
        Name, such as ``"C"``.
    law : array-like of shape (n,) or (n, K)
        Probabilities of each row.
    folds : array-like of shape (F, n) or (F, n, K), optional
        Laws on every row of the F models of an F-fold cross-fit, each trained without one fold. Their scatter
        around their arithmetic mean, summed over folds, measures the noise of the law (a jackknife: members of a
        bagged ensemble or repeats of a fit would be overcounted). Leave out for a law that was given.

    Examples
    --------
    >>> Level("C", [0.2, 0.7])
    Level('C', 2 rows, 2 classes)
    """

    name: str
    law: FloatArray
    folds: FloatArray | None = None

    def __init__(self, name: str, law: ArrayLike, folds: ArrayLike | None = None) -> None:
        if not isinstance(name, str) or not name:
            refuse("the name of a level must be a nonempty string", plain(name), "For example Level('C', law).")
        parsed = parse_law(law, f"the law of level {name!r}")
        fitted = None if folds is None else frozen(parse_folds(folds, parsed, f"the folds of level {name!r}"))
        given = GivenLaw(f"level {name!r}", frozen(parsed), fitted, column_names(law))
        for fold in folds if isinstance(folds, (list, tuple)) else ():
            if parsed.ndim == 2 and column_names(fold) not in (None, given.columns):
                remedy = "Give all frames the columns of the law, in its order."
                refuse(f"the folds of level {name!r} must have the columns of its law", f"{column_names(fold)}", remedy)
        for key, value in (("name", name), ("law", given.values), ("folds", fitted)):
            object.__setattr__(self, key, value)
        object.__setattr__(self, "_given", given)
        object.__setattr__(self, "_backend", backend_of(law))

    @property
    def given(self) -> GivenLaw:
        """The parsed law with what its frame said of it."""
        return self.__dict__["_given"]  # type: ignore[no-any-return]

    @property
    def backend(self) -> str | None:
        """The dataframe library the law came in."""
        return self.__dict__["_backend"]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        fitted = "" if self.folds is None else f", {self.folds.shape[0]} folds"
        return f"Level({self.name!r}, {self.law.shape[0]} rows, {n_classes(self.law)} classes{fitted})"


def term_names(levels: Sequence[str]) -> tuple[str, ...]:
    """
    Default names of the terms of a chain.

    Parameters
    ----------
    levels : sequence of str
        Names of the levels, the prediction first.

    Returns
    -------
    tuple of str
        As many names as levels.

    Examples
    --------
    >>> term_names(["S", "C", "Q"])
    ('reliability', 'grouping', 'irreducible')
    >>> term_names(["S", "C", "bureau", "all"])
    ('S → C', 'C → bureau', 'bureau → all', 'all → Y')
    """
    if len(levels) == 2:
        return ("reliability", "refinement")
    if len(levels) == 3:
        return ("reliability", "grouping", "irreducible")
    if len(levels) == 4 and levels[-1] in LATENT_NAMES:
        return ("reliability", "grouping", "heterogeneity", "noise")
    return tuple(f"{a} → {b}" for a, b in zip(levels, [*levels[1:], "Y"], strict=True))


class Chain:
    r"""
    Laws from coarse to fine, and the outcomes they are judged by.

    For :math:`\mathcal A \subseteq \mathcal B` and a prediction :math:`T` known at :math:`\mathcal A`,

    .. math::
        E\,\ell(T,Y) = E\,d(T,Q_{\mathcal A}) + E\,d(Q_{\mathcal A},Q_{\mathcal B}) + E\,\mathcal E(Q_{\mathcal B}),

    and so on for longer chains: the paper's one-level, chain, four-term and filtration theorems are this one
    telescoping sum.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: any two (or K) sortable labels.
    levels : sequence of Level
        From coarse to fine; ``levels[0]`` is the prediction.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent: standard errors are cluster-robust.
    names : sequence of str, optional
        Names of the terms, as many as levels; by default they follow the chain.
    pos_label : label, optional
        The label that 1-D probabilities speak of; not needed for 0/1, −1/1 and booleans.
    classes : array-like of shape (K,), optional
        Labels in column order. When not given: the columns of a frame that are named after the labels, the
        categories of an ordered categorical, else sorted labels.
    population : bool, default=False
        The rows are the whole population and the weights its probabilities: there is no sampling error.

    Examples
    --------
    >>> y = [0, 1, 0, 1, 1, 0]
    >>> s = [0.2, 0.9, 0.2, 0.9, 0.9, 0.9]
    >>> c = [0.1, 0.7, 0.1, 0.7, 0.7, 0.7]
    >>> q = [0.1, 0.9, 0.1, 0.6, 0.9, 0.4]
    >>> chain = Chain(y, [Level("S", s), Level("C", c), Level("Q", q)])
    >>> chain.decompose("brier").names
    ('reliability', 'grouping', 'irreducible')
    """

    def __init__(
        self,
        y_true: ArrayLike,
        levels: Sequence[Level],
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        population: bool = False,
    ) -> None:
        self.levels = _parse_levels(levels)
        self.names = _parse_names(names, self.levels)
        self._sheet = Sheet.of(
            y_true,
            [level.given for level in self.levels],
            sample_weight=sample_weight,
            groups=groups,
            pos_label=pos_label,
            classes=classes,
            backend=next((level.backend for level in self.levels if level.backend), None),
            population=population,
        )
        self.classes = self._sheet.classes

    def __repr__(self) -> str:
        return f"Chain({' → '.join(level.name for level in self.levels)}, {self._sheet.n} rows)"

    def decompose(
        self, loss: str | ProperLoss = "log", form: str = "debiased", *, clip: float | None = None
    ) -> Decomposition:
        """
        Split the loss of the prediction into the terms of the chain.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            A name in `LOSSES`, or a loss.
        form : {"debiased", "difference", "plugin"}, default="debiased"
            How rows are filled. ``"debiased"``: differences of losses, corrected for the noise of fitted laws.
            ``"difference"``: without the correction. Both add up to the observed loss exactly. ``"plugin"``:
            divergences between the laws, as the paper writes them; never negative, biased up by the noise of
            fitted laws, with a residual that is shown as a term.
        clip : float, optional
            Keep all laws at least this far from 0; nothing is clipped unless asked for.

        Returns
        -------
        Decomposition
            Terms, rows, standard errors, intervals.
        """
        again = partial(assemble, self._sheet, self._plan, loss, form)
        return with_floor(again(clip), self._sheet, again)

    @property
    def _plan(self) -> Plan:
        levels = tuple(level.name for level in self.levels)
        roles = ("reliability", *(["information"] * (len(levels) - 2)), "remaining")
        return Plan(levels, self.names, roles)


def _parse_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    remedy = "For example [Level('S', s), Level('C', c)]."
    if isinstance(levels, (str, Level)) or not isinstance(levels, Sequence):
        refuse("`levels` must be a sequence of Level", type(levels).__name__, remedy)
    for level in levels:
        if not isinstance(level, Level):
            refuse("`levels` must be a sequence of Level", f"a {type(level).__name__} among them", remedy)
    if len(levels) < 2:
        refuse("`levels` must hold the prediction and at least one level to judge it by", f"{len(levels)}", remedy)
    first = levels[0]
    for level in levels[1:]:
        require_rows(level.law.shape[0], first.law.shape[0], f"level {level.name!r}", f"level {first.name!r}")
        if n_classes(level.law) != n_classes(first.law):
            refuse(
                "all levels must have the same number of classes",
                f"{n_classes(first.law)} in {first.name!r} and {n_classes(level.law)} in {level.name!r}",
                "Write all laws over the same outcome.",
            )
    if len({level.name for level in levels}) < len(levels):
        refuse("`levels` must have different names", ", ".join(level.name for level in levels), "Rename one of them.")
    return tuple(levels)


def _parse_names(names: Sequence[str] | None, levels: Sequence[Level]) -> tuple[str, ...]:
    if names is None:
        return term_names([level.name for level in levels])
    rule = f"names must be {len(levels)} different strings, none of them among {', '.join(sorted(_RESERVED))}"
    remedy = "One name per term, as many as levels."
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(v, str) for v in names):
        refuse(rule, f"{names!r}", remedy)
    if len(names) != len(levels) or len(set(names)) != len(names) or _RESERVED & set(names):
        refuse(rule, f"{names!r}", remedy)
    return tuple(names)
