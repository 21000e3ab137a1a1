"""Importing scoreprism against importing numpy, each in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.runner import Case


def cases() -> list[Case]:
    def fresh(code):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    return [
        Case("import", "import scoreprism", fresh("import scoreprism"), fresh("import numpy"), "import numpy", 1.5),
        Case(
            "import",
            "from scoreprism import Chain",
            fresh("from scoreprism import Chain"),
            fresh("import numpy"),
            "import numpy",
        ),
    ]
