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
    return [*_one_period(), *_two_periods(), *_quantised()]


def _one_period() -> list[Cell]:
    studies = (
        ("folds", FOLD_LAWS, FOLD_ROWS, {"plain": True}),
        ("period", _laws(pair for pairs in PAIRS.values() for pair in pairs), PERIOD_ROWS, {"plain": False}),
        ("grouping", _laws(GROUPING), GROUPING_ROWS, {"plain": False, "q": True}),
        ("null", ("c",), {NULL_ROWS: NULL_SAMPLES}, {"plain": False}),
    )
    return [
        _cell(f"{study}/{law}/{n}", simulate.terms, samples, law=law, n=n, **more)
        for study, laws, rows, more in studies
        for law in laws
        for n, samples in rows.items()
    ]


def _two_periods() -> list[Cell]:
    return [
        _cell(f"shift/{before} to {after}/{n}", simulate.shift, samples, before=before, after=after, n=n)
        for before, after in SHIFTS
        for n, samples in SHIFT_ROWS.items()
    ]


def _quantised() -> list[Cell]:
    found = []
    for n, (samples, counts) in CELL_ROWS.items():
        for law in CELL_LAWS:
            for count in counts:
                given = {"law": law, "n": n, "cells": count, "plain": count == 1024 and n <= 1_000_000}
                name, seed = f"cells/{law}/{n}/{count}", f"cells/{law}/{n}"
                found.append(_cell(name, simulate.quantisation, samples, seed, **given))
    return found


def _cell(name: str, function: object, samples: int, seed: str = "", **arguments: object) -> Cell:
    quick = (
        1
        if name.startswith("cells") and "/100000/" in name
        else 0
        if name.startswith("cells")
        else max(samples // 50, 2)
    )
    return Cell(name, function, samples, quick, arguments, seed)  # type: ignore[arg-type]
