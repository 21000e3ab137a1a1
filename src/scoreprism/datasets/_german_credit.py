"""Statlog (German Credit Data), bundled."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import IntArray

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
