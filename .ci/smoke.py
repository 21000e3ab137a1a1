"""Install the wheel alone, with the lowest versions that it declares, and use it as a stranger would.

``python .ci/smoke.py`` builds the wheel first, with the package ``build``; ``--wheel FILE`` takes one that is there.
``--newest`` installs the newest dependencies in place of the lowest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from lowest import lowest

ROOT = Path(__file__).parents[1]
#: A wheel must stay below this; 0.1.0 has 1,117 kB, nearly all of it code.
LARGEST = 1_200_000
#: Nothing but the library and its metadata.
OWN = ("scoreprism/", "scoreprism-")
PROGRAM = """
import numpy as np
import scoreprism
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 2))
p = 1 / (1 + np.exp(-2 * X[:, 0]))
y = (rng.random(500) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(int)
d = scoreprism.decompose(y, p, X, random_state=0)
assert list(d.terms) == ["reliability", "grouping", "irreducible"], d.terms
assert abs(sum(d.terms.values()) - d.risk) < 1e-12
scoreprism.make_report(y, p, X, output="report.html")
d.plot()
print(scoreprism.__version__)
"""


def run(*command: str | Path, cwd: str | Path = ROOT) -> None:
    """Run a command, and show it; its failure ends this script."""
    print("$", *command, flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=True)  # noqa: S603 - our own commands


def build(folder: Path) -> Path:
    """Build the wheel."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check(wheel: Path) -> None:
    """Hold the wheel to its size, and to the library."""
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size:,} bytes")
    names = zipfile.ZipFile(wheel).namelist()
    others = [name for name in names if not name.startswith(OWN)]
    if size > LARGEST or others or "scoreprism/py.typed" not in names:
        raise SystemExit(f"the wheel is too large, lacks py.typed, or holds what it should not: {others[:5]}")


def use(wheel: Path, folder: Path, *, newest: bool) -> None:
    """Install the wheel in an environment of its own, and run the demo and a program."""
    home = folder / "environment"
    venv.create(home, with_pip=True)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    constraints = folder / "lowest.txt"
    constraints.write_text("\n".join(f"{name}=={version}" for name, version in lowest([]).items()), encoding="utf-8")
    run(python, "-m", "pip", "install", "--quiet", wheel, *([] if newest else ["--constraint", constraints]))
    run(python, "-m", "pip", "list")
    run(python, "-m", "scoreprism", "demo", cwd=folder)
    run(python, "-c", PROGRAM, cwd=folder)
    if not (folder / "scoreprism-demo.html").is_file():
        raise SystemExit("the demo has written no report")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--newest", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        wheel = build(Path(made)) if chosen.wheel is None else chosen.wheel.resolve()
        check(wheel)
        use(wheel, Path(made), newest=chosen.newest)
