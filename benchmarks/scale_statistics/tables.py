"""Tables of the simulations, from the numbers of every sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.scale_statistics.laws import truth as population
from benchmarks.scale_statistics.simulate import LOSSES
from benchmarks.scale_statistics.studies import (
    CELL_COUNTS,
    CELL_LAWS,
    CELL_ROWS,
    FOLD_LAWS,
    FOLD_ROWS,
    GROUPING,
    GROUPING_ROWS,
    NULL_ROWS,
    PAIRS,
    PERIOD_ROWS,
    SHIFT_ROWS,
    SHIFTS,
)
from scoreprism._core.simplex import FloatArray

Results = dict[str, FloatArray]
Book = dict[str, Results]
#: Normal quantile of 95 %.
Z = 1.959963984540054


def markdown(book: Book) -> str:
    """Every study that was run."""
    parts = (_cells, _folds, _null, _drift, _grouping, _shift)
    return "\n".join(text for part in parts if (text := part(book)))


def _table(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    found = [" | ".join(str(entry) for entry in line) for line in lines]
    if not found:
        return ""
    rule = " | ".join("---" if i == 0 else "---:" for i in range(len(heads)))
    return "\n".join(f"| {line} |" for line in (" | ".join(heads), rule, *found)) + "\n"


def _titled(title: str, text: str) -> str:
    return f"### {title}\n\n{text}" if text else ""


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────


def _cells(book: Book) -> str:
    """The largest error over the samples of a law, in standard errors and as a share of the reported bound."""
    heads = ["law", "n", "loss", *(f"error/se, {count}" for count in CELL_COUNTS), "error/bound, 1024", "to plain/se"]
    lines = []
    for law in CELL_LAWS:
        for n, (_, counts) in CELL_ROWS.items():
            found = {count: book[name] for count in counts if (name := f"cells/{law}/{n}/{count}") in book}
            for loss in LOSSES if 1024 in found else ():
                errors = [f"{_relative(found[c], loss):.1g}" if c in found else "" for c in CELL_COUNTS]
                lines.append([law, f"{n:,}", loss, *errors, *_bounded(found[1024], loss)])
    return _titled("Cells against rows", _table(heads, lines))


def _relative(found: Results, loss: str) -> float:
    """Largest error of a term in units of its standard error."""
    terms = ("reliability", "refinement")
    return float(max(np.max(np.abs(found[f"{loss}/{t}/error"]) / found[f"{loss}/{t}/std_error"]) for t in terms))


def _bounded(found: Results, loss: str) -> list[str]:
    error, bound = np.abs(found[f"{loss}/reliability/error"]), found[f"{loss}/bound"]
    share = np.divide(error, bound, out=np.zeros(error.size), where=bound > 0.0)
    plain = found.get(f"{loss}/reliability/plain")
    apart = "" if plain is None else f"{np.max(np.abs(plain) / found[f'{loss}/reliability/std_error']):.1g}"
    return ["exact" if not bound.any() else f"{share.max():.2g}", apart]


# ── folds ───────────────────────────────────────────────────────────────────────────────────────────────


def _folds(book: Book) -> str:
    """Folds drawn within cells beside folds of rows, on the same samples; units of 1e-4."""
    heads = ["law", "n", "loss", "bias", "bias, rows", "difference ±", "V", "V, rows", "coverage", "coverage, rows"]
    lines = []
    for law in FOLD_LAWS:
        for n in FOLD_ROWS:
            found = book.get(f"folds/{law}/{n}")
            for loss in LOSSES if found else ():
                lines.append([law, f"{n:,}", loss, *_both_folds(found or {}, loss, population(law, loss).reliability)])
    return _titled("Folds drawn within cells", _table(heads, lines))


def _both_folds(found: Results, loss: str, truth: float) -> list[str]:
    ours, rows = (f"{kind}/{loss}/reliability" for kind in ("scale", "plain"))
    apart = found[f"{ours}/value"] - found[f"{rows}/value"]
    error = apart.std(ddof=1) / np.sqrt(apart.size)
    held = [np.mean((found[f"{k}/low"] <= truth) & (truth <= found[f"{k}/high"])) for k in (ours, rows)]
    bias = [1e4 * (found[f"{k}/value"].mean() - truth) for k in (ours, rows)]
    spread = [1e4 * found[f"{k}/down"].mean() for k in (ours, rows)]
    text = [f"{value:.2f}" for value in bias]
    text += [f"{1e4 * apart.mean():+.2f} ± {1e4 * error:.2f}", *(f"{value:.2f}" for value in spread)]
    return text + [f"{value:.3f}" for value in held]


# ── a calibrated score ──────────────────────────────────────────────────────────────────────────────────


def _null(book: Book) -> str:
    found = book.get(f"null/c/{NULL_ROWS}")
    heads = ["loss", "samples", "contains 0", "mean upper end", "largest upper end", "mean loss"]
    lines = []
    for loss in LOSSES if found else ():
        low, high = ((found or {})[f"scale/{loss}/reliability/{end}"] for end in ("low", "high"))
        risk = np.mean((found or {})[f"scale/{loss}/refinement/value"])
        ends = (f"{high.mean():.1g}", f"{high.max():.1g}", f"{risk:.3f}")
        lines.append([loss, low.size, f"{np.mean(low <= 0.0):.3f}", *ends])
    return _titled(f"A calibrated score, n = {NULL_ROWS:,}", _table(heads, lines))


# ── drift ───────────────────────────────────────────────────────────────────────────────────────────────

Ends = tuple[FloatArray, FloatArray]


class Pairs:
    """Every sample of an earlier period with every sample of a later one (of another, where the laws are the same)."""

    def __init__(self, before: Results, after: Results, key: str) -> None:
        sizes = before["failed"].size, after["failed"].size
        i, j = (index.ravel() for index in np.indices(sizes))
        apart = i != j if before is after else np.ones(i.size, dtype=bool)
        parts = ("value", "error", "low", "high", "difference_error", "up", "down")
        self.before = {part: before[f"{key}/{part}"][i[apart]] for part in parts}
        self.after = {part: after[f"{key}/{part}"][j[apart]] for part in parts}
        self.change = self.after["value"] - self.before["value"]

    def mover(self) -> Ends:
        """From both brackets, cut at 0 where the term is: what `Drift` does."""
        x, y = self.after, self.before
        below = np.hypot(_above(x["value"] - x["low"]), _above(y["high"] - y["value"]))
        above = np.hypot(_above(x["high"] - x["value"]), _above(y["value"] - y["low"]))
        return self.change - below, self.change + above

    def uncut(self) -> Ends:
        """The same with brackets that are not cut."""
        half = [part["up"] + part["down"] + Z * part["difference_error"] for part in (self.after, self.before)]
        return self.change - np.hypot(*half), self.change + np.hypot(*half)

    def clt(self) -> Ends:
        """The change ± z standard errors."""
        half = Z * np.hypot(self.after["error"], self.before["error"])
        return self.change - half, self.change + half


def _above(values: FloatArray) -> FloatArray:
    return np.maximum(values, 0.0)


METHODS: dict[str, Callable[[Pairs], Ends]] = {"MOVER": Pairs.mover, "uncut": Pairs.uncut, "clt": Pairs.clt}


def _drift(book: Book) -> str:
    """Coverage of the true change, share of tests that reject, and mean width, by method."""
    heads = ["what", "from, to", "n", "loss", "term", "change", *(f"{m}: covers, rejects, width" for m in METHODS)]
    lines = []
    for what, pairs in PAIRS.items():
        for before, after in pairs:
            for n in PERIOD_ROWS:
                names = [f"period/{law}/{n}" for law in (before, after)]
                if all(name in book for name in names):
                    found = [book[name] for name in names]
                    lines += [[what, f"{before} → {after}", f"{n:,}", *line] for line in _changes(before, after, found)]
    return _titled("Change of a term between two periods", _table(heads, lines))


def _changes(before: str, after: str, found: list[Results], terms: Sequence[str] = ("reliability", "refinement")):
    for loss in LOSSES:
        for term in terms:
            truth = _truth(after, loss, term) - _truth(before, loss, term)
            pairs = Pairs(*found, f"scale/{loss}/{term}")
            cells = []
            for method in METHODS.values():
                low, high = method(pairs)
                held, away = np.mean((low <= truth) & (truth <= high)), np.mean((low > 0.0) | (high < 0.0))
                cells.append(f"{held:.3f}, {away:.3f}, {1e4 * np.mean(high - low):.3g}")
            yield [loss, term, f"{1e4 * truth:.1f}", *cells]


def _truth(law: str, loss: str, term: str) -> float:
    found = population(law, loss)
    if term == "refinement":
        return found.grouping + found.irreducible
    return float(getattr(found, term))


def _grouping(book: Book) -> str:
    heads = ["from, to", "n", "loss", "term", "change", *(f"{m}: covers, rejects, width" for m in METHODS)]
    lines = []
    for before, after in GROUPING:
        for n in GROUPING_ROWS:
            names = [f"grouping/{law}/{n}" for law in (before, after)]
            if all(name in book for name in names):
                found = [book[name] for name in names]
                rows = _changes(before, after, found, ("grouping", "irreducible"))
                lines += [[f"{before} → {after}", f"{n:,}", *line] for line in rows]
    return _titled("Change of grouping, the law Q given", _table(heads, lines))


# ── why the loss changed ────────────────────────────────────────────────────────────────────────────────


def _shift(book: Book) -> str:
    heads = ["from, to", "n", "loss", "part", "truth", "bias", "coverage", "width"]
    lines = []
    for before, after in SHIFTS:
        for n in SHIFT_ROWS:
            found = book.get(f"shift/{before} to {after}/{n}")
            for loss in LOSSES if found else ():
                for part in ("mix", "outcomes", "gains", "loses"):
                    line = _part(found or {}, before, after, loss, part)
                    if line:
                        lines.append([f"{before} → {after}", f"{n:,}", loss, part, *line])
    return _titled("Mix and law; a map of the first period in the second", _table(heads, lines))


def _part(found: Results, before: str, after: str, loss: str, part: str) -> list[str]:
    value, low, high = (found[f"{loss}/{part}/{end}"] for end in ("value", "low", "high"))
    truth = found.get(f"{loss}/{part}/truth")
    if truth is None:
        same = before[0] == after[0]  # P(Y | S) is the same, so that all of the change is one of the mix
        if not same:
            return []
        change = sum(_truth(after, loss, term) - _truth(before, loss, term) for term in ("reliability", "refinement"))
        truth = np.full(value.size, change if part == "mix" else 0.0)
    held = np.mean((low <= truth) & (truth <= high))
    numbers = (1e4 * truth.mean(), 1e4 * (value - truth).mean())
    return [f"{numbers[0]:.2f}", f"{numbers[1]:.2f}", f"{held:.3f}", f"{1e4 * np.mean(high - low):.3g}"]
