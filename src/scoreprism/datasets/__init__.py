"""Data with known answers: the paper's synthetic laws with their exact Q, and the German credit data."""

from __future__ import annotations

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
    "load_german_credit",
]
