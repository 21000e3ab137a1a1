"""Versions of what computes; apart, because it loads nothing."""

from __future__ import annotations

import platform
from importlib.metadata import version

#: Packages whose versions may change a number.
_PACKAGES = ("scoreprism", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of what computes."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
