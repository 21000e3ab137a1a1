"""What a release states in several places is the same everywhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}


@pytest.fixture(scope="module")
def lowest():
    spec = importlib.util.spec_from_file_location("lowest", ROOT / ".ci" / "lowest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lowest


def test_one_version():
    """Expected: that of pyproject.toml, in CITATION.cff and at the top of the changelog."""
    version = PROJECT["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [version]
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[:2] == ["Unreleased", version]


def test_versions_of_python_are_those_that_are_tried():
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    (tried,) = re.findall(r"python: \[(.+)\]", WORKFLOWS["tests.yml"])
    assert re.findall(r'"(.+?)"', tried) == stated
    assert PROJECT["project"]["requires-python"] == f">={stated[0]}"


def test_workflows_call_what_is_there():
    """Expected: scripts that exist, extras that pyproject.toml has, markers that pytest knows."""
    text = "\n".join(WORKFLOWS.values())
    scripts = set(re.findall(r"(?:bash|python) (\.ci/\S+)", text))
    assert {".ci/run", ".ci/smoke.py", ".ci/lowest.py"} <= scripts
    assert [name for name in scripts if not (ROOT / name).is_file()] == []
    extras = {extra for found in re.findall(r'-e "\.\[(.+?)\]"', text) for extra in found.split(",")}
    assert extras - {"docs"} <= set(PROJECT["project"]["optional-dependencies"])
    markers = {line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    (long,) = re.findall(r"marker: \[(.+)\]", text)
    assert set(long.split(", ")) | {"fast"} == markers


def test_actions_are_pinned_by_major_version():
    used = re.findall(r"uses: (\S+)", "\n".join(WORKFLOWS.values()))
    assert len(used) > 10
    assert [one for one in used if not re.search(r"@v\d+$|@release/v\d+$", one) and not one.startswith("./")] == []


def test_the_lowest_versions_are_those_of_the_requirements(lowest):
    """Expected: numpy 2.0 and click 8.1 as pyproject.toml writes them; every extra can be read, a marker is no hindrance."""
    assert lowest([])["numpy"] == "2.0"
    assert lowest([])["click"] == "8.1"
    assert len(lowest([])) == len(PROJECT["project"]["dependencies"])
    everything = lowest([extra for extra in PROJECT["project"]["optional-dependencies"] if extra != "docs"])
    assert everything["xgboost-cpu"] == "3.0"
    assert everything["dask"] == "2024.8"


def test_the_sdist_is_the_whole_checkout():
    """Expected: everything at the top that git tracks, but what only git reads."""
    listed = {name.removeprefix("/") for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    assert [name for name in sorted(listed) if not (ROOT / name).exists()] == []
    if not (ROOT / ".git").exists():
        pytest.skip("this is an sdist")
    command = ["git", "ls-tree", "--name-only", "HEAD"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert set(tracked) - {".gitattributes", ".gitignore", "pyproject.toml"} <= listed
