"""The bundled example that can be decomposed exactly: the German credit applicants as a whole population."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.datasets._german_credit import load_german_credit
from scoreprism.decomposition import Decomposition, FiniteModel
from scoreprism.losses import ProperLoss

#: A scorecard somebody might have written by hand: probability of a bad credit by checking-account status.
_SCORECARD = {"A11": 0.6, "A12": 0.4, "A13": 0.4, "A14": 0.05}
_FEATURES = ("checking_status", "credit_history", "savings")


@dataclass(frozen=True)
class ExactExample:
    """
    A finite population with a score, ready to be decomposed without sampling error.

    Attributes
    ----------
    model : FiniteModel
        The population.
    score : array of shape (m,)
        The score in each state.
    state : integer array of shape (m,)
        The label of each state.
    story, attribution : str
        What it is, and where it comes from.

    Examples
    --------
    >>> from scoreprism.datasets import german_credit_population
    >>> german_credit_population().model
    FiniteModel(77 states, 2 classes)
    """

    model: FiniteModel
    score: FloatArray
    state: IntArray
    story: str
    attribution: str

    def decompose(self, loss: str | ProperLoss = "log") -> Decomposition:
        """
        Exact reliability, grouping and irreducible terms of the score.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            The loss.

        Returns
        -------
        Decomposition
            Without sampling error.
        """
        return self.model.decompose(self.score, {"C": self.score, "Q": self.state}, loss)


def german_credit_population() -> ExactExample:
    """
    The 1000 German credit applicants taken as the whole population, scored by hand.

    States are the cells of three features; the score is a hand-written scorecard on the first of them.

    Returns
    -------
    ExactExample
        The population, the score and the words that go with them.

    Examples
    --------
    >>> terms = german_credit_population().decompose("brier").terms
    >>> {name: round(value, 4) for name, value in terms.items()}
    {'reliability': 0.0055, 'grouping': 0.0263, 'irreducible': 0.1591}
    """
    data = load_german_credit()
    rows = list(zip(*(data.X[name].to_list() for name in _FEATURES), strict=True))
    states = sorted(set(rows))
    code = {state: i for i, state in enumerate(states)}
    index = np.array([code[row] for row in rows], dtype=np.intp)
    count = np.bincount(index)
    model = FiniteModel(count / count.sum(), np.bincount(index, data.y) / count)
    score = np.array([_SCORECARD[state[0]] for state in states])
    card = ", ".join(f"{status} {value:g}" for status, value in _SCORECARD.items())
    story = (
        f"{len(rows)} German credit applicants, taken as the whole population:\n"
        "every number below is exact.\n"
        "The score is a hand-written card on the checking account alone:\n"
        f"{card}.\n"
        f"Known features: {', '.join(_FEATURES)}\n"
        f"({len(states)} different combinations).\n"
    )
    return ExactExample(model, score, np.arange(len(states)), story, data.attribution)
