"""Examples and theorems of the paper, exactly: a row for each statement, and what the two examples come to."""

from __future__ import annotations

import numpy as np

from reproduction.checks import EXACT, MARKS, judge, tabulate_checks
from reproduction.identities import IDENTITIES, make_average_model
from reproduction.pieces import scientific, table
from reproduction.statements import STATEMENTS, select
from reproduction.work import Outcome, Work
from scoreprism import FiniteModel
from scoreprism.report import Paragraph, Section

_TERMS = ("reliability", "grouping", "irreducible")


def run(work: Work) -> Outcome:
    """Try every statement on finite populations, and set the examples beside what the paper prints."""
    labels = [one.key.removeprefix("theorems/") for one in select("theorems", "identity")]
    measured = work.run("statements", measure_identity, labels, "statements")
    proofs = [judge(f"theorems/{label}", error) for label, (_, error) in zip(labels, measured, strict=True)]
    values = compute_examples()
    examples = [judge(one.key, values[one.source][0]) for one in select("theorems", "exact")]
    rows = [
        {
            "statement": check.place,
            "what it says": check.what,
            "computed by": STATEMENTS[check.key].source,
            "cases": cases,
            "largest error": scientific(check.ours, 0),
            "verdict": MARKS[check.verdict],
        }
        for check, (cases, _) in zip(proofs, measured, strict=True)
    ]
    note = (
        "Cases are losses × numbers of classes × forms of the decomposition × random populations of 16 states. The "
        "error is the largest difference between the two sides, the right one summed over states without the library's "
        "decomposition; of an inequality or an “only if”, by how much it is violated. A statement holds if it is below "
        f"{scientific(EXACT, 0)}."
    )
    formulas = [{"example": name, "value": value, "formula": formula} for name, (value, formula) in values.items()]
    blocks = (
        table("statements", "Every statement of the paper on finite populations", rows, note),
        tabulate_checks("examples-printed", "The two examples beside the paper", examples),
        table("example-values", "What the two examples come to", formulas, "H is the entropy of a coin, in nats."),
    )
    tried, worst = sum(cases for cases, _ in measured), max(error for _, error in measured)
    lead = f"{len(labels)} statements were tried in {tried:,} cases; the largest error is {scientific(worst, 0)}."
    numbers = {f"theorems/{name}": value for name, (value, _) in values.items()}
    return Outcome(
        Section("theorems", "Examples and theorems, exactly", (), (Paragraph(lead), *blocks)),
        [*proofs, *examples],
        numbers,
    )


def measure_identity(label: str) -> tuple[int, float]:
    """Count the cases of a statement, and find its largest error."""
    error, cases = IDENTITIES[label]
    return len(cases), max(error(case) for case in cases)


def compute_examples() -> dict[str, tuple[float, str]]:
    """Compute what the examples come to, by example and name, each with its formula."""
    constant, states = np.array([0.5, 0.5]), np.arange(2)
    lost = FiniteModel([0.5, 0.5], [0.9, 0.1])
    model, first, second = make_average_model()
    mean, pair = (first + second) / 2, np.arange(4)
    calibrated = model.level(mean)
    cases = (
        ("2.4/constant", lost, constant, states, "brier", ("0", "4/25", "9/100")),
        ("2.4/constant", lost, constant, states, "log", ("0", "log 2 − H(0.9)", "H(0.9)")),
        ("5.2/member", model, first, pair, "brier", ("0", "1/16", "1/8")),
        ("5.2/average", model, mean, pair, "brier", ("1/32", "0", "1/8")),
        ("5.2/recalibrated average", model, calibrated, pair, "brier", ("0", "0", "1/8")),
        ("5.2/average", model, mean, pair, "log", ("log(4/3)/2", "0", "log(2)/2")),
    )
    found = {}
    for name, population, score, finest, loss, formulas in cases:
        terms = population.decompose(score, [score, finest], loss).terms
        for term, formula in zip(_TERMS, formulas, strict=True):
            found[f"{name}/{loss}/{term}"] = (terms[term], formula)
    found["5.2/P(average = 0.25)"] = (float(model.prob[mean == 0.25].sum()), "1/4")
    found["5.2/P(Y=1 | average = 0.25)"] = (float(calibrated[mean == 0.25][0]), "0")
    return found
