"""The lowest versions that pyproject.toml declares, as constraints for pip.

``python .ci/lowest.py`` prints those of the library; ``python .ci/lowest.py duckdb test`` those of extras, too.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(extras: list[str]) -> dict[str, str]:
    """Package and lowest version of every requirement of the library and of these extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    found: dict[str, str] = {}
    for line in wanted:
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:; .*)?", line)
        if match is None:
            raise SystemExit(f"pyproject.toml: {line!r} is not of the form name>=version")
        name, version = match.groups()
        if found.setdefault(name, version) != version:
            raise SystemExit(f"pyproject.toml: {name} has two lowest versions, {found[name]} and {version}")
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest(sys.argv[1:]).items()))
