"""``python -m benchmarks [group …]``: ratios against peers, all groups by default."""

from __future__ import annotations

import sys

from benchmarks import (
    bootstrap,
    calibrators,
    classes,
    curves,
    decompositions,
    diagrams,
    estimation,
    imports,
    losses,
    metrics,
)
from benchmarks.runner import run

GROUPS = {
    "imports": imports,
    "losses": losses,
    "decompositions": decompositions,
    "calibrators": calibrators,
    "classes": classes,
    "bootstrap": bootstrap,
    "estimation": estimation,
    "curves": curves,
    "diagrams": diagrams,
    "metrics": metrics,
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(GROUPS)
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        sys.exit(f"unknown group {', '.join(unknown)}; choose among {', '.join(GROUPS)}")
    met = [run(GROUPS[name].cases()) for name in chosen]
    sys.exit(0 if all(met) else 1)
