"""Section 8: what was computed, from which data, and how to get it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scoreprism.report._model import Block, Notice, Origin, Section, Table
from scoreprism.report._pieces import table
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import AnyCase, RowCase, RowSubject
from scoreprism.report._versions import versions

#: What the words and letters of the decomposition stand for.
SYMBOLS = {
    "S": "the score: the predicted probability of the outcome Y",
    "C": "P(Y | S), the calibrated score: the rates that follow each score, fitted out of sample",
    "Q": "P(Y | S, X): the chances given score and features X, fitted out of sample, or given",
    "Π": "P(Y | Z): the chances given a latent state Z",
    "reliability": "E[ℓ(S, Y) − ℓ(C, Y)] = E d(S, C), with the divergence d of the loss ℓ",
    "grouping": "E[ℓ(C, Y) − ℓ(Q, Y)] = E d(C, Q)",
    "heterogeneity": "E[ℓ(Q, Y) − ℓ(Π, Y)] = E d(Q, Π)",
    "irreducible": "E ℓ(Q, Y), the entropy that is left",
    "refinement": "E ℓ(C, Y), the entropy that is left after recalibration",
    "noise": "E ℓ(Π, Y), the entropy of chance itself",
}

#: Where the methods come from.
REFERENCES = (
    "Charpentier & Fernandes Machado: Decomposing probabilistic scores (the decomposition)",
    "Bröcker (2009): reliability, sufficiency, and the decomposition of proper scores",
    "Dimitriadis, Gneiting & Jordan (2021): stable reliability diagrams (isotonic, CORP)",
    "Ehm, Gneiting, Jordan & Krüger (2016): elementary losses and Murphy diagrams",
    "Perez-Lebel, Le Morvan & Varoquaux (2023): the grouping loss",
    "Austin & Steyerberg (2019): ICI, E50, E90, Emax",
    "Vickers & Elkin (2006): net benefit",
    "Hu & Wu (2024): the calibration decision loss",
    "Holm (1979): adjustment for several tests",
)


def _rows(model: RowSubject) -> str:
    given = model.whole.sample.n
    return f"{model.n:,}" + (f" of {given:,}; the others have weight 0" if model.n < given else "")


def method(case: RowCase, origin: Origin, settings: Mapping[str, Any]) -> Section:
    """The last section."""
    model = case.first
    counts = model.outcomes
    shares = ", ".join(f"{label}: {count:,}" for label, count in zip(model.labels[:12], counts, strict=False))
    facts: list[tuple[str, str]] = [
        ("file", origin.name),
        ("SHA-256", origin.sha256 or "–"),
        ("rows", _rows(model)),
    ]
    facts += [("outcomes", shares)]
    if case.binary:
        facts.append(("scores are probabilities of", model.labels[1]))
    facts += [(str(key).replace("_", " "), str(value)) for key, value in origin.details.items()]
    facts += [(str(key).replace("_", " "), str(value)) for key, value in settings.items() if value is not None]
    laws = [(name, note) for name, one in case.models.items() for note in (*one.fit.notes, *one.fit.describe())]
    said = (
        f"Every number here was computed from {model.n:,} rows with seed {case.seed}: the same "
        "data, versions and choices give it again, "
        "to the last digit."
    )
    blocks = [facts_table(facts), *tables_of(case, model.k, laws, case.notes)]
    return Section("method", SECTIONS["method"], said, tuple(blocks))


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Data and choices, a line each."""
    return table("data", "Data and choices", [("fact", "what", "text"), ("value", "value", "text")], facts)


def tables_of(
    case: AnyCase,
    k: int,
    laws: Sequence[tuple[str, str]],
    notes: Sequence[str],
    references: Sequence[str] = REFERENCES,
) -> list[Block]:
    """Formulas, symbols, laws, versions and references."""
    blocks: list[Block] = []
    formulas = [
        (name, loss.formula(k), "strictly proper" if loss.strictly_proper else "proper")
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
    result = case.first.decompositions[case.loss]
    used = [(word, SYMBOLS[word]) for word in (*result.level_names, *result.names) if word in SYMBOLS]
    columns = [("word", "word", "text"), ("stands_for", "stands for", "text")]
    blocks.append(table("symbols", "The decomposition", columns, used))
    blocks.append(table("laws", "Laws", [("model", "model", "text"), ("law", "how it was fitted", "text")], laws))
    blocks.append(
        table(
            "versions",
            "Versions",
            [("package", "package", "text"), ("version", "version", "text")],
            list(versions().items()),
        )
    )
    blocks += [Notice("note", note) for note in notes]
    blocks.append(
        table("references", "References", [("reference", "source", "text")], [(line,) for line in references])
    )
    return blocks
