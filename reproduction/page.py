"""The page of a run: what came of it at a glance, the experiments, and how it was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from reproduction.checks import MARKS, VERDICTS, Check, count_verdicts
from reproduction.pieces import table
from reproduction.work import AMOUNTS, Outcome, Plan, versions
from scoreprism.datasets import load_german_credit
from scoreprism.report import Origin, Paragraph, Report, Section

_PAPER = "Decomposing Probabilistic Scores: Reliability, Information Loss and Uncertainty"


def make_report(plan: Plan, outcomes: Mapping[str, Outcome]) -> Report:
    """Put everything on a page."""
    checks = [check for outcome in outcomes.values() for check in outcome.checks]
    counts = count_verdicts(checks)
    headline = (
        f"Of {len(checks)} numbers and statements of the paper, {counts['reproduced']} are reproduced, "
        f"{counts['within noise']} agree within noise, and {counts['not reproduced']} are not reproduced."
    )
    sections = (_make_glance(plan, outcomes, checks), *(one.section for one in outcomes.values()), _make_method(plan))
    settings = {"plan": asdict(plan), "experiments": list(outcomes)}
    return Report(
        kind="report",
        title="The paper, number by number",
        headline=headline,
        sections=sections,
        origin=Origin("German credit, bundled"),
        settings=settings,
        versions=versions(),
    )


def _make_glance(plan: Plan, outcomes: Mapping[str, Outcome], checks: list[Check]) -> Section:
    """Count verdicts by experiment, and list everything that did not come out."""
    blocks = []
    if plan.name == "quick":
        text = (
            f"This is a quick run: {plan.splits} splits and {plan.trees} trees instead of the paper's 100 and 500. "
            "Tolerances are wider, and statements about tests may come out otherwise than in a full one."
        )
        blocks.append(Paragraph(text))
    counts = {one.section.title: count_verdicts(one.checks) for one in outcomes.values() if one.checks}
    rows = [
        {"experiment": title} | {MARKS[verdict]: number for verdict, number in found.items()}
        for title, found in counts.items()
    ]
    meanings = " ".join(f"{MARKS[verdict]}: {meaning}." for verdict, meaning in VERDICTS.items())
    blocks += [table("verdicts", "Verdicts", rows, meanings)] if rows else []
    missed = [
        {"number or statement": f"{check.place}: {check.what}", "why": check.why}
        for check in checks
        if check.verdict == "not reproduced"
    ]
    blocks += [table("not-reproduced", "What is not reproduced", missed)] if missed else []
    lead = (
        f"Every number and statement of “{_PAPER}” (Charpentier & Fernandes Machado) that can be checked, beside ours."
    )
    return Section("glance", "At a glance", (), (Paragraph(lead), *blocks))


def _make_method(plan: Plan) -> Section:
    """Say how much was computed, with what."""
    amounts = [{"what": AMOUNTS[name], "how much": str(value)} for name, value in asdict(plan).items()]
    packages = [{"package": name, "version": found} for name, found in versions().items()]
    blocks = (
        table("plan", "How much was computed", amounts),
        table("versions", "With what", packages),
        Paragraph(f"Data: {load_german_credit().attribution}"),
        Paragraph("Seeds are fixed. Other versions of these libraries grow other forests from the same seed."),
    )
    lead = "Nothing here was typed in but the paper's own numbers: “python -m reproduction” computes all of it again."
    return Section("method", "Method", (), (Paragraph(lead), *blocks))
