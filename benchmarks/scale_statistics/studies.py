"""The studies: which laws, how many rows, how many samples."""

from __future__ import annotations

from benchmarks.scale_statistics import simulate
from benchmarks.statistics.cells import Cell

#: What is compared with what: an earlier and a later period.
PAIRS = {
    "nothing changes": (("a", "a"), ("b", "b"), ("c", "c"), ("d", "d")),
    "the law changes": (("c", "b"), ("b", "a"), ("b", "d")),
    "the mix changes": (("b", "b, other mix"), ("c", "c, other mix")),
}
#: Rows of a period, and samples of it: every sample of one law is paired with every sample of the other.
PERIOD_ROWS = {2000: 200, 20_000: 120, 200_000: 80}
#: The same for grouping, with the law Q given.
GROUPING = (("b", "b"), ("b", "a"), ("b", "b, other mix"))
GROUPING_ROWS = {2000: 100, 20_000: 60}

#: Splits of a change, and maps of the first period in the second: these have scores in common.
SHIFTS = (("b", "b"), ("c", "c, other mix"), ("b", "b, other mix"), ("c", "b"))
SHIFT_ROWS = {2000: 60, 20_000: 40}

FOLD_LAWS = ("b", "c", "e", "b to 0.01", "weights")
FOLD_ROWS = {500: 200, 2000: 200, 20_000: 60}

CELL_LAWS = ("a", "b", "c", "d", "e", "b to 0.0001", "rare 0.01", "rare 0.001", "rare 0.0001", "bold", "ends")
CELL_COUNTS = (256, 512, 1024, 4096)
#: Rows, samples, and numbers of cells that are tried.
CELL_ROWS = {100_000: (2, CELL_COUNTS), 1_000_000: (1, CELL_COUNTS), 10_000_000: (1, (1024,))}

NULL_ROWS, NULL_SAMPLES = 1_000_000, 100


def _laws(pairs: object) -> list[str]:
    return list(dict.fromkeys(law for pair in pairs for law in pair))  # type: ignore[attr-defined]


def cells() -> list[Cell]:
    """All of them, the short ones first."""
    found = []
    for law in FOLD_LAWS:
        for n, samples in FOLD_ROWS.items():
            found.append(_cell(f"folds/{law}/{n}", simulate.terms, samples, law=law, n=n, plain=True))
    for law in _laws(pair for pairs in PAIRS.values() for pair in pairs):
        for n, samples in PERIOD_ROWS.items():
            found.append(_cell(f"period/{law}/{n}", simulate.terms, samples, law=law, n=n, plain=False))
    for law in _laws(GROUPING):
        for n, samples in GROUPING_ROWS.items():
            found.append(_cell(f"grouping/{law}/{n}", simulate.terms, samples, law=law, n=n, plain=False, q=True))
    for before, after in SHIFTS:
        for n, samples in SHIFT_ROWS.items():
            given = {"before": before, "after": after, "n": n}
            found.append(_cell(f"shift/{before} to {after}/{n}", simulate.shift, samples, **given))
    null = {"law": "c", "n": NULL_ROWS, "plain": False}
    found.append(_cell(f"null/c/{NULL_ROWS}", simulate.terms, NULL_SAMPLES, **null))
    for n, (samples, counts) in CELL_ROWS.items():
        for law in CELL_LAWS:
            for count in counts:
                plain = count == 1024 and n <= 1_000_000
                given = {"law": law, "n": n, "cells": count, "plain": plain}
                found.append(_cell(f"cells/{law}/{n}/{count}", simulate.quantisation, samples, f"cells/{law}/{n}", **given))
    return found


def _cell(name: str, function: object, samples: int, seed: str = "", **arguments: object) -> Cell:
    quick = 1 if name.startswith("cells") and "/100000/" in name else 0 if name.startswith("cells") else max(samples // 50, 2)
    return Cell(name, function, samples, quick, arguments, seed)  # type: ignore[arg-type]
