"""A frame that is read: its columns by role, and what is refused about their values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import listed, plain, refuse
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError
from scoreprism.scale._engines import fetched
from scoreprism.scale._partial import Partial
from scoreprism.scale._roles import Roles, Seen, is_outcome, number, outcome, period_label
from scoreprism.scale._settings import Settings

#: Segments times periods times folds; more than this is a column of identifiers, not of segments.
MOST_GROUPS = 20_000
#: The fourth power of weights above this, which says how skewed their sums are, cannot be summed.
MOST_WEIGHT = 1e70


@dataclass(frozen=True)
class Reading:
    """A frame, its columns by role (under names the engine takes, and as asked for), their types, what is summed."""

    frame: nw.LazyFrame[Any]
    schema: dict[str, nw.dtypes.DType]
    roles: Roles
    asked: Roles
    settings: Settings

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels whose law is given."""
        return self.settings.levels


def plain_label(value: Any) -> Any:
    """A label that JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, float) and abs(value) < 2.0**63 and value.is_integer():
        return int(value)  # pandas makes floats of whole numbers where some are missing
    if isinstance(value, (str, int, float, bool)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def written(value: Any) -> Any:
    """A label of a segment, period or fold; JSON has no infinite numbers."""
    label = plain_label(value)
    return str(label) if isinstance(label, float) and math.isinf(label) else label


def there(name: str, kind: nw.dtypes.DType) -> nw.Expr:
    """Whether a label is there; NaN is none."""
    column = nw.col(name)
    return ~column.is_null() & ~column.is_nan() if kind.is_float() else ~column.is_null()


def require_rows(partial: Partial) -> Partial:
    """A partial that holds something."""
    if not partial.table["n"].size:
        refuse_empty(partial.absent)
    return partial


def refuse_empty(absent: int) -> NoReturn:
    """Data without rows, or with `absent` rows of weight 0 only."""
    what = f"{absent:,} rows, all of weight 0" if absent else "0 rows"
    refuse("`data` must hold rows with weight", what, "Check the filter, or the weights.")


def segment_labels(table: Mapping[str, NDArray[Any]], keys: Sequence[str], every: str | None) -> list[tuple[Any, ...]]:
    """The labels of segment and period of each line, as JSON can hold them; `keys` are columns of the table."""
    columns = []
    for name in keys:
        values = table[name].tolist()
        columns.append([written(period_label(v, every) if name == "time" else v) for v in values])
    return list(zip(*columns, strict=True)) if columns else [()] * next(iter(table.values())).shape[0]


def require_few_groups(partial: Partial) -> None:
    """No more segments, periods and folds than can be looked at."""
    given = len(partial.folds) if partial.settings.fold_hash is None else 1
    require_few(len(partial.segments) * given, partial.settings)


def require_few(groups: int, settings: Settings) -> None:
    """Refuse more groups than that, naming the columns that make them."""
    if groups > MOST_GROUPS:
        names = [*settings.keys, *([settings.fold] if settings.fold is not None and not settings.fold_hash else [])]
        refuse(
            f"`by`, `time` and `cv_column` must make at most {MOST_GROUPS:,} groups",
            f"{'more' if groups == MOST_GROUPS + 1 else f'{groups:,}'} from {', '.join(map(repr, names))}",
            "Use coarser columns; identifiers are no segments (`key`= deals them to folds).",
        )


def refuse_bad(table: dict[str, NDArray[Any]], bad: NDArray[np.bool_], reading: Reading, seen: Seen) -> None:
    """Rows that cannot be summed, in words; and outcomes of three labels."""
    if bad.any():
        _explain(int(table["n"].sum()), reading)
    if reading.roles.pos_label is not None:
        seen.label(_other_labels(reading), reading.asked)
        return
    held = table["key"] >= 0  # rows without weight are not told apart by outcome
    seen.label([label for label in (-1, 0) if (held & (table["y"] == label)).any()], reading.asked)


def _other_labels(reading: Reading) -> set[Any]:
    """With pos_label, the first and the last of the other labels."""
    roles, kind = reading.roles, reading.schema[reading.roles.target]
    if kind == nw.Boolean:
        return set()
    label = nw.col("label") if kind.is_numeric() else nw.col("label").cast(nw.String)  # categories have no order
    others = reading.frame.select(label=nw.col(roles.target)).select(label=label)
    others = others.filter((nw.col("label") != roles.pos_label) & ~nw.col("label").is_null())
    found = fetched(others.select(low=nw.col("label").min(), high=nw.col("label").max()))
    return {plain_label(found[end][0]) for end in ("low", "high")} - {None}


def _explain(total: int, reading: Reading) -> NoReturn:
    """Say what is wrong with the first column that has something wrong; further queries, on the way to an error."""
    roles, asked = reading.roles, reading.asked
    numbers = {"score": roles.score, "q": roles.q, "latent": roles.latent, "sample_weight": roles.weight}
    for role, name in numbers.items():
        if name is None:
            continue
        most = MOST_WEIGHT if role == "sample_weight" else 1.0
        count, shown = _wrong(reading.frame.select(v=number(name)), (nw.col("v") >= 0.0) & (nw.col("v") <= most))
        if count:
            _refuse_values(role, asked.columns[role], shown, f"{count:,} of {total:,} rows")
    if roles.fold is not None:
        folds = reading.frame.select(v=nw.col(roles.fold))
        count, _ = _wrong(folds, there("v", reading.schema[roles.fold]))
        if count:
            refuse(
                f"`cv_column` or `key` {asked.fold!r} must not be missing",
                f"{count:,} of {total:,} rows without",
                "Drop these rows, or give them a fold.",
            )
    labels = reading.frame.select(y=outcome(roles, reading.schema[roles.target]), v=nw.col(roles.target))
    count, shown = _wrong(labels, is_outcome())
    rule = f"`target` {asked.target!r} must be 0 or 1 (or −1 or 1, or boolean) in every row"
    if roles.pos_label is not None:
        rule = f"`target` {asked.target!r} must not be missing"
    remedy = "Drop rows without an outcome." if shown == ["missing"] else "Pass `pos_label`= for other labels."
    refuse(rule, f"{listed(shown)} in {count:,} of {total:,} rows", remedy, LabelError)


def _wrong(column: nw.LazyFrame[Any], holds: nw.Expr) -> tuple[int, list[str]]:
    """How many values break a rule, and some of them as people write them."""
    fine = nw.when(holds).then(nw.lit(1)).otherwise(nw.lit(0))
    wrong = column.with_columns(fine=fine).filter(nw.col("fine") == 0).select("v")
    count = int(fetched(wrong.select(n=nw.len()))["n"][0])
    sample = [plain_label(value) for value in fetched(wrong.head(1000))["v"].tolist()] if count else []
    return count, list(dict.fromkeys("missing" if value is None else plain(value) for value in sample))


def _refuse_values(role: str, name: str, shown: list[str], rows: str) -> NoReturn:
    what = f"{listed(sorted(shown, key=_as_number))} in {rows}"
    if role == "sample_weight":
        rule = f"`sample_weight` {name!r} must be from 0 to {MOST_WEIGHT:.0e}, whose fourth power can be summed"
        refuse(rule, what, "Drop these rows, or multiply all weights by the same number.")
    remedy = "If these are percentages, divide by 100; logits go through a sigmoid first."
    if shown == ["missing"]:
        remedy = "Drop these rows, or fill them."
    refuse(f"{mark(role)} {name!r} must hold probabilities from 0 to 1", what, remedy)


def _as_number(shown: object) -> float:
    return math.inf if shown == "missing" else float(str(shown))
