"""The package as a stranger meets it: light import, nothing global changed, public names, command line, README."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import scoreprism
from scoreprism.cli import main
from scoreprism.losses import LOSSES

ROOT = Path(__file__).parents[2]
HEAVY = (
    "scipy.optimize",
    "scipy.stats",
    "sklearn",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "narwhals",
    "joblib",
    "rich",
    "jinja2",
)


def fresh(code):
    """Run code in a new interpreter and return what it prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_loads_nothing_heavy():
    loaded = fresh("import json, sys, scoreprism; print(json.dumps(sorted(sys.modules)))")
    assert "numpy" not in loaded
    assert not [name for name in loaded if name.startswith(HEAVY)]


def test_exact_decompositions_load_no_estimator_engine_or_figure():
    code = (
        "import json, sys\n"
        "from scoreprism import Chain, FiniteModel, Level\n"
        "FiniteModel([.5, .5], [.9, .1]).decompose([.5, .5], [[0, 0], [0, 1]])\n"
        "Chain([0, 1], [Level('S', [.2, .7]), Level('C', [.3, .6])]).decompose('brier')\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    assert not [name for name in fresh(code) if name.startswith(HEAVY)]


def test_import_changes_nothing_global():
    code = (
        "import json, warnings, locale, os, numpy as np, sklearn.calibration\n"  # which sets filters of its own
        "state = lambda: [repr(warnings.filters), repr(np.geterr()), repr(np.get_printoptions()), repr(locale.setlocale(locale.LC_ALL)), sorted(os.environ)]\n"
        "before = state()\n"
        "import scoreprism\n"
        "[getattr(scoreprism, name) for name in scoreprism.__all__]\n"
        "scoreprism.FiniteModel([.5, .5], [.9, .1]).decompose([.5, .5], [[0, 0], [0, 1]])\n"
        "print(json.dumps(before == state()))"
    )
    assert fresh(code) is True


def test_public_names_resolve_and_are_listed():
    for name in scoreprism.__all__:
        assert getattr(scoreprism, name) is not None
    assert len(scoreprism.__all__) == 26 + 1  # and __version__
    assert dir(scoreprism) == sorted([*scoreprism.__all__, *scoreprism.PUBLIC_PACKAGES])
    assert not set(scoreprism.__all__) & set(scoreprism.PUBLIC_PACKAGES)
    with pytest.raises(AttributeError, match="module 'scoreprism' has no attribute 'nonsense'"):
        _ = scoreprism.nonsense


def test_public_names_are_typed_and_documented():
    modules = [
        importlib.import_module(f"scoreprism.{m}")
        for m in ("losses", "decomposition", "datasets", "inference", "references")
    ]
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                hints = {k for k in thing.__annotations__ if k != "return"}
                assert hints == set(inspect.signature(thing).parameters), name
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert ">>>" in (thing.__doc__ or ""), name


def test_losses_command_lists_the_table():
    result = CliRunner().invoke(main, ["losses"])
    assert result.exit_code == 0
    assert all(name in result.output for name in LOSSES)


def test_help_is_light_and_module_runs():
    code = "import json, sys, runpy\nfrom scoreprism.cli import main\ntry:\n main(['--help'], standalone_mode=False)\nexcept SystemExit:\n pass\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert not [name for name in loaded if name.startswith((*HEAVY, "numpy"))]
    version = subprocess.run(
        [sys.executable, "-m", "scoreprism", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.strip() == f"scoreprism {scoreprism.__version__}"


def test_the_package_holds_no_host_and_no_machine_path():
    """No registry's host and no path of somebody's machine in what is shipped."""
    for path in [*ROOT.glob("src/**/*.py"), ROOT / "pyproject.toml", ROOT / "README.md"]:
        text = path.read_text(encoding="utf8")
        assert "files.pythonhosted" not in text
        assert "/home/" not in text


def test_every_theorem_of_the_docs_names_its_test():
    """docs/theorems.md points to tests that exist."""
    table = (ROOT / "docs" / "theorems.md").read_text(encoding="utf8")
    tests = "".join(path.read_text(encoding="utf8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", table))
    assert len(named) >= 20
    for name in named:
        assert f"def {name}(" in tests, name
