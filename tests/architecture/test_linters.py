"""What runs on commit is what CI runs, and what the design says of layers is what import-linter holds."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_hooks_are_the_linters_of_ci():
    """Expected: the lines of the function `lint` of .ci/run."""
    _, _, steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").partition("\nlint() {\n")
    wanted = [line.strip() for line in steps.partition("\n}\n")[0].splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert wanted[0] == "ruff check ."
    assert re.findall(r"entry: (.*?), language", hooks) == wanted
    assert hooks.count("pass_filenames: false, always_run: true") == len(wanted)  # on all files, as in CI


def test_the_layers_of_the_design_are_those_that_are_held():
    """Expected: the contract of import-linter, in its order; layers of equal rank may take a line each."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    _, _, section = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").partition("## Layers")
    lines = section.split("```")[1].strip().splitlines()
    names = [name for line in lines for name in re.split(r"\s{2,}", line)[0].split(" | ")]
    assert names == [name for layer in layers for name in layer.split(" | ")]
