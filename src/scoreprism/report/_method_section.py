"""Section 8: what was computed, from which data, and how to get it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scoreprism._document.model import Block, Callout, Origin, Paragraph, Section, Table, make_table, versions
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import plural, write_amount, write_count, write_share
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import Case
from scoreprism.scale import Sums

#: What the words and letters of the decomposition stand for.
SYMBOLS = {
    "S": "the score: the predicted probability of the outcome Y",
    "C": "the calibrated score P(Y | S): the event rate at each score, fitted out of sample",
    "Q": "P(Y | S, X): the probability given score and features X, fitted out of sample or given",
    "Π": "P(Y | Z): the probability given a latent state Z",
    "reliability": "E[ℓ(S, Y) − ℓ(C, Y)] = E d(S, C), with the divergence d of the loss ℓ",
    "grouping": "E[ℓ(C, Y) − ℓ(Q, Y)] = E d(C, Q)",
    "heterogeneity": "E[ℓ(Q, Y) − ℓ(Π, Y)] = E d(Q, Π)",
    "irreducible": "E ℓ(Q, Y), the entropy that is left",
    "refinement": "E ℓ(C, Y), the entropy that is left after recalibration",
    "noise": "E ℓ(Π, Y), the entropy of chance itself",
}

#: Where the methods come from.
REFERENCES = {
    "decomposition": "Charpentier & Fernandes Machado: Decomposing probabilistic scores (the decomposition)",
    "sufficiency": "Bröcker (2009): reliability, sufficiency, and the decomposition of proper scores",
    "corp": "Dimitriadis, Gneiting & Jordan (2021): stable reliability diagrams (isotonic, CORP)",
    "murphy": "Ehm, Gneiting, Jordan & Krüger (2016): elementary losses and Murphy diagrams",
    "grouping": "Perez-Lebel, Le Morvan & Varoquaux (2023): the grouping loss",
    "ici": "Austin & Steyerberg (2019): ICI, E50, E90, Emax",
    "net_benefit": "Vickers & Elkin (2006): net benefit",
    "decision_loss": "Hu & Wu (2024): the calibration decision loss",
    "holm": "Holm (1979): adjustment for several tests",
}


#: What a report from sums rests on beside the first references; it has no curves and no net benefit.
_OF_SUMS = (
    "Spiegelhalter (1986): a test of calibration",
    "DeLong, DeLong & Clarke-Pearson (1988): the error of the AUC",
)
_OF_CHANGES = "Zou & Donner (2008): intervals of changes"


def make_method(case: Case, origin: Origin, settings: Mapping[str, Any]) -> Section:
    """The last section."""
    model = case.first
    facts: list[tuple[str, str]] = [("file", origin.name)]
    facts += [("SHA-256", origin.sha256)] if origin.sha256 else []
    facts += [("rows", write_count(model.n))]
    counts = zip(model.labels[:12], model.outcomes, strict=False)
    facts.append(("outcomes", ", ".join(f"{label}: {write_count(count)}" for label, count in counts)))
    if case.binary:
        facts.append(("scores are probabilities of", model.labels[1]))
    facts += list(_flatten(origin.details)) + ([] if case.has_rows else _list_sum_facts(model.sums))
    facts += [(_name_setting(key), str(value)) for key, value in settings.items() if value is not None]
    data = make_table("data", "Data and choices", [("fact", "what", "text"), ("value", "value", "text")], facts)
    blocks: list[Block] = [data, *([] if case.has_rows else [_tabulate_exactness(case)]), *_make_tables(case, model.k)]
    blocks += [Callout(one) for one in case.findings if one.severity == "provenance"]
    blocks += [Paragraph(note) for note in case.notes]
    same = f"with seed {case.seed}. The same data, versions and choices give the same numbers"
    if case.has_rows:
        origin_note = f"Computed from {write_count(model.n)} rows {same}."
    else:
        rows = f"sums over {write_count(model.n)} rows, which were read where they are and never held in memory,"
        origin_note = f"Computed from {rows} {same}, up to rounding: engines add rows in any order."
    return Section("method", SECTIONS["method"], (), (Paragraph(origin_note), *blocks))


def _name_setting(key: str) -> str:
    """A setting as a reader calls it."""
    return "smallest gain worth a change" if key == "min_gain" else key.replace("_", " ")


def _flatten(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How data were read, a line each: nested names one by one, lists in words."""
    for key, value in details.items():
        name = str(key).replace("_", " ")
        if isinstance(value, Mapping):
            yield from ((f"{name}: {inner}", text) for inner, text in _flatten(value))
        elif isinstance(value, (list, tuple)):
            yield name, ", ".join(map(str, value))
        else:
            yield name, write_count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _list_sum_facts(sums: Sums) -> list[tuple[str, str]]:
    settings = sums.settings
    facts = [("target", settings.target)]
    facts += [("weights", settings.sample_weight)] if settings.sample_weight is not None else []
    if settings.fold is None:
        return [*facts, ("folds", "drawn within cells: rows are treated as independent")]
    how = f"hash of {settings.fold}" if settings.fold_hash else f"column {settings.fold}"
    return [*facts, ("folds", f"{len(sums.folds)}, from the {how}")]


def _tabulate_exactness(case: Case) -> Table:
    """What summing by cell did, beside what chance does."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        what = plural(model.sums.n_keys, "distinct score" if model.sums.exact else "cell")
        for name, result in model.decompositions.items():
            error = min(result.std_error.values())
            moved = result.quantisation_error
            share = write_share(moved / error) if error > 0.0 and moved > 0.0 else "–"
            bound = "0, exact" if model.sums.exact else write_amount(moved, 2)
            rows.append((case.label(model), name, what, bound, write_amount(error, 2), share))
    columns = [
        ("model", "model", "text"), ("loss", "loss", "text"), ("cells", "summed by", "text"),
        ("quantisation", "terms moved by up to", "text"), ("std_error", "standard error", "text"),
        ("ratio", "share of it", "text"),
    ]  # fmt: skip
    note = (
        "Nothing is lost where there are no more distinct scores than cells. Otherwise the loss of the score is exact; "
        "C is evaluated on cells, which moves reliability and refinement by up to about this, in opposite directions."
    )
    return make_table("exactness", "What is exact, and what is quantised", columns, rows, note)


def _list_references(case: Case) -> list[str]:
    if case.has_rows:
        return list(REFERENCES.values())
    keys = ["decomposition", "sufficiency", "holm"]
    keys += ["grouping"] if "grouping" in case.first.main.names else []
    drift = case.first.parts[-1].settings.time is not None
    return [*(REFERENCES[key] for key in keys), *_OF_SUMS, *([_OF_CHANGES] if drift else [])]


def _make_tables(case: Case, k: int) -> list[Table]:
    """Formulas, symbols, laws, versions and references."""
    formulas = [
        (name, loss.formula(k), "strictly proper" if loss.strictly_proper else "proper")
        for name, loss in case.losses.items()
    ]
    result = case.first.decompositions[case.loss]
    used = [(word, SYMBOLS[word]) for word in (*result.level_names, *result.names) if word in SYMBOLS]
    origins: dict[Finding, list[str]] = {}
    for name, model in case.models.items():
        for one in model.origins:
            origins.setdefault(one, []).append(name)
    whole = len(case.models)
    laws = [
        (None if whole == 1 else "all" if len(names) == whole else ", ".join(names), one.text)
        for one, names in sorted(origins.items(), key=lambda line: len(line[1]))  # what holds for all comes last
    ]
    columns: dict[str, tuple[str, tuple[str, ...], Sequence[tuple[str | None, ...]]]] = {
        "formulas": ("Losses", ("loss", "formula", "kind"), formulas),
        "symbols": ("The decomposition", ("word", "stands for"), used),
        "laws": ("How C and Q were fitted", ("model", "how"), laws),
        "versions": ("Versions", ("package", "version"), list(versions().items())),
        "references": ("References", ("source",), [(line,) for line in _list_references(case)]),
    }
    return [
        make_table(key, title, [(head.replace(" ", "_"), head, "text") for head in heads], rows)
        for key, (title, heads, rows) in columns.items()
    ]
