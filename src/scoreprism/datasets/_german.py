"""Statlog (German Credit Data), bundled."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from scoreprism.frames import make_frame
from scoreprism.simplex import IntArray

__all__ = ["GermanCredit", "load_german_credit"]

_ATTRIBUTION = (
    "Statlog (German Credit Data), Hans Hofmann, 1994, UCI Machine Learning Repository, "
    "doi 10.24432/C5NC77, licence CC BY 4.0. Values in the UCI codes (A11 …), row order of the UCI file."
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


def load_german_credit(backend: str | None = None) -> GermanCredit:
    """
    Load the 1000 applicants of the German credit data.

    Parameters
    ----------
    backend : str, optional
        Library of the frame: "polars" (default), "pandas" or "pyarrow".

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
    """
    packed = resources.files("scoreprism.datasets").joinpath("german_credit.data.gz").read_bytes()
    cells = [line.split() for line in gzip.decompress(packed).decode("ascii").splitlines()]
    by_column = list(zip(*cells, strict=True))
    columns: dict[str, list[Any]] = {}
    for (name, numeric), values in zip(_COLUMNS.items(), by_column[:-1], strict=True):
        columns[name] = [int(v) for v in values] if numeric else list(values)
    bad = np.array([value == "2" for value in by_column[-1]], dtype=np.intp)
    return GermanCredit(make_frame(columns, backend), bad, _ATTRIBUTION)
