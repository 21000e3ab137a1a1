"""One table of what the paper prints and states: ``paper.csv``, the only constants here that were not computed.

Its columns: the experiment that looks at a number or statement; its name; where the paper has it; what it is; the rule
that judges it (`reproduction.checks.RULES`); the printed value with its decimals, standard deviation and number of runs;
the source of ours: a column of the splits (loss/method/column/baseline), or what computes it; and of a statement, the
sentence that our evidence is put into.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import polars as pl

#: Methods of the German credit study, in the order of the paper's tables.
METHODS = ("average", "glm", "forest", "stacking")
#: Losses of the paper in words.
LOSSES = {"log": "log loss", "brier": "Brier"}


@dataclass(frozen=True)
class Statement:
    """A row of the table."""

    experiment: str
    key: str
    place: str
    what: str
    rule: str
    value: float | None
    decimals: int
    sd: float | None
    runs: int | None
    source: str | None
    evidence: str | None

    @property
    def std_error(self) -> float:
        """Standard error of a mean that the paper prints, or of a share of its runs."""
        sd = sqrt(self.value * (1 - self.value)) if self.rule == "share" else self.sd
        return sd / sqrt(self.runs)

    @property
    def half_unit(self) -> float:
        """Half a unit of the last printed decimal: what rounding may hide."""
        return 0.5 * 10.0**-self.decimals


#: Every number and statement of the paper that can be checked, by name.
STATEMENTS = {
    row["key"]: Statement(**row) for row in pl.read_csv(Path(__file__).with_name("paper.csv")).iter_rows(named=True)
}


def select(experiment: str, *rules: str) -> list[Statement]:
    """Take the statements of an experiment that some rules judge."""
    return [one for one in STATEMENTS.values() if one.experiment == experiment and one.rule in rules]
