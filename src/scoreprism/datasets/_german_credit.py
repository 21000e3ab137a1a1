"""Statlog (German Credit Data), bundled: as rows, and as a whole population that can be decomposed exactly."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.decomposition import Decomposition, FiniteModel
from scoreprism.losses import ProperLoss

_ATTRIBUTION = (
    "Statlog (German Credit Data), Hans Hofmann, 1994, UCI Machine Learning Repository, "
    "doi 10.24432/C5NC77, licence CC BY 4.0. Row order of the UCI file, "
)

#: Column names in file order, and whether the column is a number.
_COLUMNS = {
    "checking_status": False,
    "duration_months": True,
    "credit_history": False,
    "purpose": False,
    "credit_amount": True,
    "savings": False,
    "employment_since": False,
    "installment_rate": True,
    "personal_status_sex": False,
    "other_debtors": False,
    "residence_since": True,
    "property": False,
    "age_years": True,
    "other_installment_plans": False,
    "housing": False,
    "existing_credits": True,
    "job": False,
    "people_liable": True,
    "telephone": False,
    "foreign_worker": False,
}


#: What the codes of UCI's documentation stand for.
_WORDS = {
    "A11": "below 0 DM", "A12": "0 to 200 DM", "A13": "200 DM or more", "A14": "no account",
    "A30": "no credits yet", "A31": "all paid here", "A32": "paid till now", "A33": "delay in the past",
    "A34": "critical",
    "A40": "new car", "A41": "used car", "A42": "furniture", "A43": "radio or TV", "A44": "appliances",
    "A45": "repairs",
    "A46": "education", "A47": "vacation", "A48": "retraining", "A49": "business", "A410": "other",
    "A61": "below 100 DM", "A62": "100 to 500 DM", "A63": "500 to 1000 DM", "A64": "1000 DM or more",
    "A65": "unknown or none",
    "A71": "unemployed", "A72": "below 1 year", "A73": "1 to 4 years", "A74": "4 to 7 years", "A75": "7 years or more",
    "A91": "male, divorced or separated", "A92": "female, not single", "A93": "male, single",
    "A94": "male, married or widowed", "A95": "female, single",
    "A101": "none", "A102": "co-applicant", "A103": "guarantor",
    "A121": "real estate", "A122": "savings agreement or life insurance", "A123": "car or other",
    "A124": "unknown or none",
    "A141": "bank", "A142": "stores", "A143": "none", "A151": "rent", "A152": "own", "A153": "for free",
    "A171": "unskilled, not resident", "A172": "unskilled, resident", "A173": "skilled", "A174": "management",
    "A191": "none", "A192": "yes", "A201": "yes", "A202": "no",
}  # fmt: skip


class GermanCredit(NamedTuple):
    """
    The German credit data: features, outcomes and where they come from.

    Attributes
    ----------
    X : frame
        1000 rows, 20 columns.
    y : integer array of shape (1000,)
        1 for a bad credit.
    attribution : str
        Author, source and licence.

    Examples
    --------
    >>> from scoreprism.datasets import load_german_credit
    >>> load_german_credit().attribution[:34]
    'Statlog (German Credit Data), Hans'
    """

    X: Any
    y: IntArray
    attribution: str


def load_german_credit(backend: str | None = None, *, words: bool = False) -> GermanCredit:
    """
    Load the 1000 applicants of the German credit data.

    Parameters
    ----------
    backend : str, optional
        Library of the frame: "polars" (default), "pandas" or "pyarrow".
    words : bool, default=False
        Whether categories are what the codes stand for ("rent"), instead of UCI's codes ("A151").

    Returns
    -------
    GermanCredit
        ``X``, a frame of 7 numeric and 13 categorical columns (UCI codes); ``y``, 1 for a bad credit (300 of
        them) and 0 for a good one; ``attribution``.

    Examples
    --------
    >>> data = load_german_credit()
    >>> data.X.shape, int(data.y.sum())
    ((1000, 20), 300)
    >>> sorted(set(load_german_credit(words=True).X["housing"]))
    ['for free', 'own', 'rent']
    """
    packed = resources.files("scoreprism.datasets").joinpath("german_credit.data.gz").read_bytes()
    cells = [line.split() for line in gzip.decompress(packed).decode("ascii").splitlines()]
    by_column = list(zip(*cells, strict=True))
    columns: dict[str, list[Any]] = {}
    for (name, numeric), values in zip(_COLUMNS.items(), by_column[:-1], strict=True):
        columns[name] = [int(v) for v in values] if numeric else [_WORDS[v] if words else v for v in values]
    bad = np.array([value == "2" for value in by_column[-1]], dtype=np.intp)
    return GermanCredit(
        make_frame(columns, backend),
        bad,
        _ATTRIBUTION + ("codes in words." if words else "values in the UCI codes (A11 …)."),
    )


# ── the applicants as a whole population ────────────────────────────────────────────────────────────

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
