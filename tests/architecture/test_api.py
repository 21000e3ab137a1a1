"""What is public stays as it is until somebody decides otherwise: tests/architecture/public_api.txt holds it."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path

import pytest

import scoreprism

HERE = Path(__file__).parent
DECISION = (
    "\n\nThe public names above were added (+), removed (-) or changed. That is a decision: somebody's program may break."
    "\nIf it is intended: python .ci/public_api.py --write, a line in CHANGELOG.md, and the reason in the commit."
)


@pytest.fixture(scope="module")
def public_api():
    spec = importlib.util.spec_from_file_location("public_api", HERE.parents[1] / ".ci" / "public_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(public_api):
    return public_api.survey()


def test_public_names_and_signatures_are_those_decided_on(public_api, found):
    kept = public_api.KEPT.read_text(encoding="utf-8").splitlines()
    changed = list(difflib.unified_diff(kept, found, "decided", "found", lineterm="", n=0))
    assert not changed, "\n" + "\n".join(changed) + DECISION


def test_the_list_covers_every_public_package_and_name(found):
    """Expected: `__all__` of the top level and of each package, and the methods that people use most."""
    text = "\n".join(found)
    for package in scoreprism.PUBLIC_PACKAGES:
        assert f"scoreprism.{package}." in text
    for name in scoreprism.__all__:
        assert f"scoreprism.{name}" in text
    assert "    .lower_bound(term, " in text
    assert "    .predict_proba(" in text
    assert any(line.startswith("table scoreprism.losses.LOSSES: brier, log") for line in found)
    assert any(line.startswith("$ scoreprism report FILE... ") and "--fail-if-miscalibrated" in line for line in found)


class Parent:
    colour = 1

    def inherited(self, x): ...


class Example(Parent):
    """A class with one member of each kind."""

    field: int

    def __init__(self, a, /, b=len, *, c=0.5, **more): ...

    def method(self, n=None): ...

    @classmethod
    def of(cls, text): ...

    @staticmethod
    def help(topic="all"): ...

    @property
    def size(self): ...

    def _private(self): ...

    def set_fit_request(self): ...


def test_a_class_is_written_with_all_its_members(public_api, monkeypatch):
    """Expected: written by hand from the class above; scikit-learn's requests and private names are left out."""
    monkeypatch.setattr(public_api, "own_classes", lambda kind: [k for k in kind.__mro__ if k is not object])
    base = {id(Parent): "Parent"}
    alone = ["    .colour", "    .inherited(x)"]
    assert list(public_api.describe("Parent", Parent, base)) == ["class Parent", *alone]
    own = [
        "    .field",
        "    .help(topic='all')  [static method]",
        "    .method(n=None)",
        "    .of(text)  [class method]",
        "    .size",
    ]
    head = "class Example(a, /, b=len, *, c=0.5, **more)"
    assert list(public_api.describe("Example", Example, base)) == [f"{head} : Parent", *own]
    assert list(public_api.describe("Example", Example, {})) == [head, *sorted([*own, *alone])]
