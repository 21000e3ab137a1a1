"""Run a cell, which is one function on many seeds, in blocks that are kept on disk: an interrupted run continues.

Simulation i of a cell depends on the name of the cell (or its seed) and on i alone: not on their number, the jobs or the order.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import scoreprism
from scoreprism._core.simplex import FloatArray

Numbers = dict[str, float]

#: What the numbers depend on: a change of these, other than of comments and docstrings, makes a checkpoint stale.
_SOURCES = (
    "calibrators", "losses", "decomposition", "_estimation", "_fitting", "_learners", "references", "inference",
    "_calibration_test", "_sample", "_kernels", "_maps", "_core",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A simulation: name, function of (generator, **arguments) for one sample, how often; cells of one `seed` share samples."""

    name: str
    function: Callable[..., Numbers]
    full: int
    quick: int
    arguments: dict[str, Any] = field(default_factory=dict)
    seed: str = ""

    def one(self, i: int) -> Numbers:
        """Simulation i; a failure is a number too, so that it is counted and ends nothing."""
        rng = np.random.default_rng([zlib.crc32((self.seed or self.name).encode()), i])
        try:
            return self.function(rng, **self.arguments)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            print(f"  {self.name}, simulation {i}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return {"failed": 1.0}


def timed(cell: Cell, i: int) -> Numbers:
    start = time.perf_counter()
    found = cell.one(i)
    return {"failed": 0.0, **found, "seconds": time.perf_counter() - start}


def _code_of(path: Path) -> str:
    """Source without comments, layout and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0] = ast.Expr(ast.Constant(None))
    return ast.dump(tree)


def fingerprint(more: Sequence[str] = ()) -> str:
    """A hash of the code that makes the numbers; `more` names further modules of the library."""
    root, here = Path(scoreprism.__file__).parent, Path(__file__).parent
    files = [file for name in (*_SOURCES, *more) for file in (*root.glob(f"{name}.py"), *root.glob(f"{name}/*.py"))]
    files += [here / name for name in ("scenarios.py", "simulate.py", "peers.py")]
    joined = "".join(_code_of(file) for file in sorted(files) if file.exists())
    return hashlib.sha256(joined.encode()).hexdigest()[:16]


class Checkpoint:
    """Results by cell in a folder; without a folder, nothing is kept."""

    def __init__(self, folder: Path | None, *, stale: bool = False, more: Sequence[str] = ()) -> None:
        self.folder, self.stale = folder, stale
        self.mark = fingerprint(more) if folder else ""
        if folder:
            folder.mkdir(parents=True, exist_ok=True)

    def _file(self, cell: Cell) -> Path | None:
        safe = "".join(c if c.isalnum() else "-" for c in cell.name)
        return None if self.folder is None else self.folder / f"{safe}.npz"

    def load(self, cell: Cell) -> dict[str, FloatArray]:
        """What there is of a cell, by the code as it is now (or by any, where that was asked for)."""
        file = self._file(cell)
        if file is None or not file.exists():
            return {}
        with np.load(file) as stored:
            if not self.stale and str(stored["mark"]) != self.mark:
                print(f"  {cell.name}: the code has changed since {file}; starting again", file=sys.stderr)
                return {}
            return {key: stored[key] for key in stored.files if key != "mark"}

    def save(self, cell: Cell, results: dict[str, FloatArray]) -> None:
        file = self._file(cell)
        if file is not None:
            part = file.with_suffix(".part.npz")
            np.savez_compressed(part, allow_pickle=False, mark=np.array(self.mark), **results)
            part.replace(file)


def _joined(old: dict[str, FloatArray], new: list[Numbers]) -> dict[str, FloatArray]:
    """Append simulations; a number that some simulations lack is NaN there."""
    before = len(next(iter(old.values()))) if old else 0
    keys = dict.fromkeys([*old, *(key for one in new for key in one)])
    absent = np.full(before, np.nan)
    return {key: np.r_[old.get(key, absent), [one.get(key, np.nan) for one in new]] for key in keys}


def run(cell: Cell, checkpoint: Checkpoint, wanted: int, *, jobs: int, place: str = "") -> dict[str, FloatArray]:
    """The first simulations of a cell: those on disk, and the rest."""
    results = checkpoint.load(cell)
    done = len(results["failed"]) if results else 0
    start, block = time.perf_counter(), max(2 * jobs, 20)
    with Parallel(n_jobs=jobs) as pool:
        while done < wanted:
            numbers = pool(delayed(timed)(cell, i) for i in range(done, min(done + block, wanted)))
            results = _joined(results, numbers)
            done += len(numbers)
            checkpoint.save(cell, results)
            spent = time.perf_counter() - start
            print(f"{place} {cell.name}: {done}/{wanted}, {spent:.0f} s", file=sys.stderr, flush=True)
    return {key: values[:wanted] for key, values in results.items()}
