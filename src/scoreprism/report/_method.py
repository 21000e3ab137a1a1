"""Section 8: what was computed, from which data, and how to get it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from scoreprism.report._case import Case
from scoreprism.report._model import Block, Notice, Origin, Section
from scoreprism.report._pieces import table
from scoreprism.report._report import SECTIONS

#: Packages whose versions may change a number.
_PACKAGES = ("scoreprism", "numpy", "scipy", "scikit-learn")

#: Where the methods come from.
REFERENCES = (
    "Charpentier & Fernandes Machado: Decomposing probabilistic scores (the decomposition)",
    "Bröcker (2009): reliability, sufficiency, and the decomposition of proper scores",
    "Dimitriadis, Gneiting & Jordan (2021): stable reliability diagrams (isotonic, CORP)",
    "Ehm, Gneiting, Jordan & Krüger (2016): elementary losses and Murphy diagrams",
    "Perez-Lebel, Le Morvan & Varoquaux (2023): the grouping loss",
    "Austin & Steyerberg (2019): ICI, E50, E90, Emax",
    "Vickers & Elkin (2006): net benefit",
    "Holm (1979): adjustment for several tests",
)


def versions() -> dict[str, str]:
    """
    Versions of what computes.

    Returns
    -------
    dict of str to str
        Package → version.

    Examples
    --------
    >>> list(versions())
    ['python', 'scoreprism', 'numpy', 'scipy', 'scikit-learn']
    """
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def method(case: Case, origin: Origin, settings: Mapping[str, Any]) -> Section:
    """
    The last section.

    Parameters
    ----------
    case : Case
        The material.
    origin : Origin
        Where the data came from.
    settings : mapping
        Choices that were made.

    Returns
    -------
    Section
        Data, formulas, laws, versions, references.
    """
    model = case.first
    counts = np.bincount(model.y, minlength=model.k)
    shares = ", ".join(f"{label}: {count:,}" for label, count in zip(model.labels[:12], counts, strict=False))
    facts: list[tuple[str, str]] = [
        ("file", origin.name),
        ("SHA-256", origin.sha256 or "–"),
        ("rows", f"{model.y.size:,}"),
    ]
    facts += [("outcomes", shares)]
    if case.binary:
        facts.append(("scores are probabilities of", model.labels[1]))
    facts += [(str(key).replace("_", " "), str(value)) for key, value in origin.details.items()]
    facts += [(str(key).replace("_", " "), str(value)) for key, value in settings.items() if value is not None]
    blocks: list[Block] = [table("data", "Data and choices", [("fact", "", "text"), ("value", "", "text")], facts)]
    formulas = [
        (name, loss.formula(model.k), "strictly proper" if loss.strictly_proper else "proper")
        for name, loss in case.losses.items()
    ]
    blocks.append(
        table(
            "formulas",
            "Losses",
            [("loss", "loss", "text"), ("formula", "formula", "text"), ("kind", "kind", "text")],
            formulas,
        )
    )
    laws = [(name, note) for name, one in case.models.items() for note in one.laws.chain()[1].notes]
    blocks.append(table("laws", "Laws", [("model", "model", "text"), ("law", "how it was fitted", "text")], laws))
    blocks.append(
        table(
            "versions",
            "Versions",
            [("package", "package", "text"), ("version", "version", "text")],
            list(versions().items()),
        )
    )
    blocks += [Notice("note", note) for note in case.notes]
    blocks.append(table("references", "References", [("reference", "", "text")], [(line,) for line in REFERENCES]))
    meaning = (
        f"Every number here was computed from {model.y.size:,} rows with seed {case.seed}: the same "
        "data, versions and choices give it again, "
        "to the last digit."
    )
    return Section("method", SECTIONS["method"], meaning, tuple(blocks))
