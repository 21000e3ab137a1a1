"""How the parts of the library are joined only gets better: .ci/house.json holds the facts (``python .ci/house.py --write``)."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / ".ci" / "house.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # its records look their annotations up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["house"]


def test_joints_only_get_better(house, monkeypatch):
    monkeypatch.setattr(house, "code_lines", lambda _: 0)  # sizes take long to count and are not compared
    kept, facts = json.loads(house.KEPT.read_text()), house.survey()
    assert tuple(kept) == house.JOINTS
    worse = {name: (limit, facts[name]) for name, limit in kept.items() if facts[name] > limit}
    assert worse == {}, "see what these count in .ci/house.py, and mend it"


def test_a_report_parses_once(house, monkeypatch, few_draws):
    whole = house.walk  # of three calls, of which one is looked at
    monkeypatch.setattr(house, "walk", lambda call: whole(call) if call.__name__ == "report" else {})
    # the same in every run; it was 9,818 before the rebuilding
    assert 50 < house.walks()["report: parses"] <= 200  # a report that fails parses little
