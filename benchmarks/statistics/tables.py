"""Numbers of many simulations summed up, judged by a bar, and written as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.simplex import FloatArray

#: Columns in the order they are shown; a table shows those that one of its lines fills. In 1e-4: truth … width.
COLUMNS = (
    "scenario", "n", "loss", "quantity", "simulations", "truth", "bias", "RMSE", "peer", "ratio", "coverage", "before", "width", "said", "rate",
    "gap", "±", "bar", "verdict",
)  # fmt: skip
_SMALL_UNITS = ("truth", "bias", "RMSE", "peer", "width")
Line = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A table with its title and what must be said about it."""

    title: str
    lines: list[Line]
    text: str = ""


@dataclass(frozen=True)
class Value:
    """A number from simulations with its Monte-Carlo error; tables show it times `unit`."""

    value: float
    error: float
    unit: float = 1.0


@dataclass(frozen=True)
class Bar:
    """What a number, as shown, must be: at least `low`, at most `high`; `size` judges its absolute value."""

    low: float | None = None
    high: float | None = None
    size: bool = False

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"[{self.low:.3g}, {self.high:.3g}]"
        text = f"≤ {self.high:.3g}" if self.low is None else f"≥ {self.low:.3g}"
        return f"size {text}" if self.size else text

    def judge(self, found: Value) -> str:
        """``met``; ``missed``; or ``within error`` where the value misses by at most two Monte-Carlo errors."""
        value, error = found.value * found.unit, found.error * found.unit
        if np.isnan(value):
            return "no number"
        value = abs(value) if self.size else value
        short = max(
            self.low - value if self.low is not None else 0.0, value - self.high if self.high is not None else 0.0
        )
        if short <= 0:
            return "met"
        return "within error" if short <= 2 * error else "**missed**"


# ── summing up ──────────────────────────────────────────────────────────────────────────────────────────


def mean(values: FloatArray) -> Value:
    """A mean of losses, shown in 1e-4."""
    kept = values[~np.isnan(values)]
    if kept.size < 2:
        return Value(float(kept.mean()) if kept.size else float("nan"), float("nan"), 1e4)
    return Value(float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(kept.size)), 1e4)


def root_mean_square(errors: FloatArray) -> Value:
    squares = mean(errors**2)
    root = float(np.sqrt(squares.value))
    return Value(root, squares.error / (2 * root) if root > 0 else 0.0, 1e4)


def root_ratio(ours: FloatArray, theirs: FloatArray) -> Value:
    """Ratio of two root mean squares over the same samples, its error by linearisation."""
    both = ~(np.isnan(ours) | np.isnan(theirs))
    a, b = ours[both] ** 2, theirs[both] ** 2
    if not a.size or b.mean() == 0:
        return Value(float("nan"), float("nan"))
    ratio = float(np.sqrt(a.mean() / b.mean()))
    if a.mean() == 0:
        return Value(ratio, 0.0)
    influence = ratio / 2 * (a / a.mean() - b / b.mean())
    return Value(ratio, float(influence.std() / np.sqrt(a.size)))


def share(hits: FloatArray) -> Value:
    """A frequency; its error is never 0 (two successes and two failures are added to it)."""
    count = hits.size
    kept = float(np.nansum(hits))
    smooth = (kept + 2) / (count + 4)
    return Value(kept / count, float(np.sqrt(smooth * (1 - smooth) / (count + 4))))


def within(low: FloatArray, high: FloatArray, truth: float) -> FloatArray:
    """Whether each interval holds the truth (to rounding); a failed simulation does not."""
    return ((low <= truth + 1e-12) & (truth - 1e-12 <= high)).astype(float)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────


def judged(line: Line, found: Value, bar: Bar | None) -> Line:
    """A line with the Monte-Carlo error of the number in question, its bar and the verdict."""
    line = line | {"±": found.unit * found.error}
    return line if bar is None else line | {"bar": str(bar), "verdict": bar.judge(found)}


def _written(column: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if column in ("n", "simulations"):
        return f"{value:d}"
    if column == "gap":
        return f"{value:.0e}"
    if column in _SMALL_UNITS:
        return f"{1e4 * value:.1f}".replace("-", "−")
    if column == "±":
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    return f"{value:.3f}"


def markdown(sections: Sequence[Section]) -> str:
    parts = []
    for section in sections:
        if not section.lines:
            continue
        columns = [c for c in COLUMNS if any(line.get(c) is not None for line in section.lines)]
        left = ("scenario", "loss", "quantity", "bar", "verdict")
        head = f"| {' | '.join(columns)} |\n|{'|'.join('---' if c in left else '---:' for c in columns)}|"
        body = "\n".join(f"| {' | '.join(_written(c, line.get(c)) for c in columns)} |" for line in section.lines)
        parts.append(f"## {section.title}\n\n{section.text + chr(10) * 2 if section.text else ''}{head}\n{body}\n")
    return "\n".join(parts)


def tally(sections: Sequence[Section]) -> str:
    verdicts = [line["verdict"] for section in sections for line in section.lines if "verdict" in line]
    kinds = {kind: verdicts.count(kind) for kind in ("met", "within error", "**missed**", "no number")}
    return ", ".join(f"{count} {kind.strip('*')}" for kind, count in kinds.items() if count)
