"""The order of the sections of the gallery."""

from __future__ import annotations

from pathlib import PurePath

ORDER = ("ideas", "decompose", "calibrate", "look", "certainty", "several_models", "scale_and_deploy")


def order_sections(folder: str) -> tuple[int, str]:
    """What sections are sorted by: their place in `ORDER`; others come after these, by name."""
    name = PurePath(folder).name
    return ORDER.index(name) if name in ORDER else len(ORDER), name
