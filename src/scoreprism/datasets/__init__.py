"""Data with known answers: the paper's synthetic laws with their exact Q, and the German credit data."""

from __future__ import annotations

from scoreprism.datasets._example import ExactExample, german_credit_population
from scoreprism.datasets._german import GermanCredit, load_german_credit
from scoreprism.datasets._laws import AppendixELaw, CopulaLaw, PopulationTerms, Sample, SquareLaw
from scoreprism.datasets._levelsets import ScoreLaw

__all__ = [
    "AppendixELaw",
    "CopulaLaw",
    "ExactExample",
    "GermanCredit",
    "PopulationTerms",
    "Sample",
    "ScoreLaw",
    "SquareLaw",
    "german_credit_population",
    "load_german_credit",
]
