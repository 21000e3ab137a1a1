"""While the house is rebuilt its facts only fall: .ci/house.json holds the last ones (``python .ci/house.py --write``)."""

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


def test_facts_only_fall(house):
    kept = json.loads(house.KEPT.read_text())
    found = house.survey() | house.walks()
    assert found.keys() == kept.keys()
    assert {name: value for name, value in found.items() if value > kept[name]} == {}
