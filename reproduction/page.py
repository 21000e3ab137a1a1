"""The page of a reproduction: what came of it at a glance, the experiments, and how it was done."""

from __future__ import annotations

from collections.abc import Mapping

from reproduction.checks import VERDICTS, Check, counted, marked
from reproduction.work import Outcome, Plan
from scoreprism.report import Column, Figure, Notice, Origin, Report, Section, Table

_PAPER = "Decomposing Probabilistic Scores: Reliability, Information Loss and Uncertainty"


def page(plan: Plan, outcomes: Mapping[str, Outcome]) -> Report:
    """
    Everything as a report.

    Parameters
    ----------
    plan : Plan
        How much was computed.
    outcomes : mapping of str to Outcome
        What the experiments found.

    Returns
    -------
    Report
        Of the kind "reproduction".
    """
    from dataclasses import asdict

    from scoreprism.report._versions import versions

    checks = [check for outcome in outcomes.values() for check in outcome.checks]
    sections = (_glance(plan, outcomes), *(outcome.section for outcome in outcomes.values()), _method(plan))
    origin = Origin("German credit, bundled", _data_hash())
    _told_apart(sections)
    title = "The paper, number by number"
    settings = {"plan": asdict(plan), "experiments": list(outcomes)}
    return Report(title, _headline(checks), sections, {}, origin, settings, versions())


def _told_apart(sections: tuple[Section, ...]) -> None:
    """Tables are files by their keys, and figures too: of two with one key, one would be lost."""
    tables = [table.key for section in sections for table in section.tables]
    figures = [block.key for section in sections for block in section.blocks if isinstance(block, Figure)]
    twice = [key for keys in (tables, figures) for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if twice:
        raise RuntimeError(f"two tables or two figures of the page have the same key: {', '.join(twice)}")


def _headline(checks: list[Check]) -> str:
    counts = counted(checks)
    return (
        f"Of {len(checks)} numbers and statements of the paper, {counts['reproduced']} are reproduced, "
        f"{counts['within noise']} agree within noise, and {counts['not reproduced']} are not reproduced."
    )


def _glance(plan: Plan, outcomes: Mapping[str, Outcome]) -> Section:
    """Counts by experiment, and everything that did not come out."""
    rows: list[tuple[str | int, ...]] = [
        (outcome.section.title, *counted(outcome.checks).values()) for outcome in outcomes.values() if outcome.checks
    ]
    heads = tuple(Column(verdict.replace(" ", "_"), marked(verdict), "count") for verdict in VERDICTS)
    counts = Table("verdicts", "Verdicts", (Column("experiment", "experiment"), *heads), tuple(rows), _meanings())
    missed = [check for outcome in outcomes.values() for check in outcome.checks if check.verdict == "not reproduced"]
    blocks: list[Table | Notice] = []
    if plan.name == "quick":
        text = (
            f"This is a quick run: {plan.splits} splits and {plan.trees} trees instead of the paper's 100 and 500. "
            "Tolerances are wider, and statements about tests may come out otherwise than in a full one."
        )
        blocks.append(Notice("warning", text))
    blocks.append(counts)
    if missed:
        columns = (Column("what", "number or statement"), Column("why", "why"))
        lines = tuple((f"{check.place}: {check.what}", check.why) for check in missed)
        blocks.append(Table("not-reproduced", "What is not reproduced", columns, lines))
    meaning = (
        f"Every number and statement of “{_PAPER}” (Charpentier & Fernandes Machado) that can be checked, beside ours."
    )
    return Section("glance", "At a glance", meaning, tuple(blocks))


def _meanings() -> str:
    return " ".join(f"{marked(verdict)}: {meaning}." for verdict, meaning in VERDICTS.items())


def _method(plan: Plan) -> Section:
    """How much was computed, with what."""
    from dataclasses import asdict

    from scoreprism.datasets import load_german_credit
    from scoreprism.report._versions import versions

    amounts = tuple((_AMOUNTS[name], _amount(value)) for name, value in asdict(plan).items())
    columns = (Column("name", "what"), Column("value", "how much", "count"))
    made_with = (Column("name", "package"), Column("value", "version"))
    blocks = (
        Table("plan", "How much was computed", columns, amounts),
        Table("versions", "With what", made_with, tuple(versions().items())),
        Notice("note", f"Data: {load_german_credit().attribution}"),
        Notice("note", "Seeds are fixed. Other versions of these libraries grow other forests from the same seed."),
    )
    meaning = (
        "Nothing here was typed in but the paper's own numbers: “python -m reproduction” computes all of it again."
    )
    return Section("method", "Method", meaning, blocks)


def _amount(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,}"


#: What the numbers of a plan count.
_AMOUNTS = {
    "name": "plan",
    "splits": "splits of the German credit data",
    "trees": "trees of each forest",
    "more": "further splits, for the forest's recalibrated log loss",
    "redraws": "redraws of the labels of a split, for its noise floor",
    "rows": "rows of each part of the synthetic data",
    "runs": "repetitions of each synthetic experiment",
    "step": "distance of the correlations ρ",
    "samples": "samples of appendix E",
    "resamples": "replicates of each bootstrap",
}


def _data_hash() -> str:
    """SHA-256 of the data as UCI has them."""
    import gzip
    import hashlib
    from importlib import resources

    packed = resources.files("scoreprism.datasets").joinpath("german_credit.data.gz").read_bytes()
    return hashlib.sha256(gzip.decompress(packed)).hexdigest()
