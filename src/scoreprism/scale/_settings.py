"""Settings: what was read into sums, and how; sums of the same settings can be added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from scoreprism._core.checks import refuse
from scoreprism.losses import LOSSES, ProperLoss, get_loss


@dataclass(frozen=True)
class Settings:
    """What partials must have in common to be added: the columns that were read, the cells, the losses."""

    target: str
    score: str
    levels: tuple[str, ...]
    laws: tuple[str, ...]
    losses: tuple[ProperLoss, ...]
    cells: int
    clip: float | None = None
    sample_weight: str | None = None
    by: tuple[str, ...] = ()
    time: str | None = None
    every: str | None = None
    fold: str | None = None
    fold_hash: int | None = None
    pos_label: Any = None

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.sample_weight is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that tell segments and periods apart."""
        return (*self.by, *([self.time] if self.time is not None else []))

    def require_like(self, other: Settings) -> None:
        """Refuse settings whose sums cannot be added to those of these."""
        for field in fields(Settings):
            a, b = getattr(self, field.name), getattr(other, field.name)
            if a != b:
                refuse(f"partials must have the same {field.name} to be added", f"{a!s} and {b!s}", "Add like to like.")

    def to_dict(self) -> dict[str, Any]:
        """Plain objects."""
        known = asdict(replace(self, losses=()))
        known["losses"] = [{"name": loss.name, "parameters": loss.parameters} for loss in self.losses]
        return known

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """What `to_dict` gave."""
        losses = tuple(get_loss(loss["name"], **loss["parameters"]) for loss in data["losses"])
        given = {field.name: data[field.name] for field in fields(cls) if field.name != "losses"}
        lists = {name: tuple(given[name]) for name in ("levels", "laws", "by")}
        return cls(**{**given, **lists, "losses": losses})


def known_loss(loss: ProperLoss) -> bool:
    """Whether a loss can be written to JSON by its name."""
    return LOSSES.get(loss.name) is type(loss)
