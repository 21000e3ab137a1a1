"""Data with known answers: synthetic laws with their exact Q, a year of scored applicants, the German credit data."""

from __future__ import annotations

from scoreprism.datasets._credit_days import iterate_credit_days
from scoreprism.datasets._german_credit import ExactExample, GermanCredit, german_credit_population, load_german_credit
from scoreprism.datasets._level_sets import ScoreLaw
from scoreprism.datasets._synthetic import AppendixELaw, CopulaLaw, Draw, PopulationTerms, SquareLaw

__all__ = [
    "AppendixELaw",
    "CopulaLaw",
    "Draw",
    "ExactExample",
    "GermanCredit",
    "PopulationTerms",
    "ScoreLaw",
    "SquareLaw",
    "german_credit_population",
    "iterate_credit_days",
    "load_german_credit",
]
