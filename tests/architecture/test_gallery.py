"""Every example of the gallery has a title, reads like one, imports what is public, and (slow) runs and draws what it says."""

import ast
import functools
import importlib
import re
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

from scoreprism.calibrators import CALIBRATORS
from scoreprism.displays import DISPLAYS

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
EXAMPLES = {path.relative_to(GALLERY).as_posix(): path for path in sorted(GALLERY.glob("*/*.py"))}
SOURCES = {name: path.read_text(encoding="utf-8") for name, path in EXAMPLES.items()}
#: Names of displays in the words and the code of each example.
DRAWN = {
    name: {kind.__name__ for kind in DISPLAYS.values() if re.search(rf"\b{kind.__name__}\b", source)}
    for name, source in SOURCES.items()
}


@functools.cache
def tree_of(name):
    return ast.parse(SOURCES[name])


def test_folders_have_a_title_and_hold_examples_only():
    folders = {path for path in GALLERY.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert folders == {path.parent for path in EXAMPLES.values()}
    for folder in (GALLERY, *folders):
        header = (folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
        title, line = re.search(r"^(\w.*)\n([=-]+)\n", header, re.MULTILINE).groups()
        assert len(line) == len(title)
    assert all(path.name.startswith("plot_") for path in EXAMPLES.values())
    assert len({path.name for path in EXAMPLES.values()}) == len(EXAMPLES)  # pages of the same name lose their links
    assert len(EXAMPLES) >= 24


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_reads_like_one(name):
    """A title, why it matters, at most 70 lines, and a closing sentence that says what is seen."""
    title, line, blank, *why = ast.get_docstring(tree_of(name)).split("\n")
    assert line == "=" * len(title)
    assert not blank
    assert 80 < len(" ".join(why)) < 500
    assert SOURCES[name].count("\n") <= 70
    closing = SOURCES[name].rsplit("\n# %%\n", 1)[1].splitlines()
    assert all(row.startswith("# ") for row in closing)
    assert closing[-1].endswith(".")


def test_titles_differ():
    titles = [ast.get_docstring(tree_of(name)).split("\n")[0] for name in EXAMPLES]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_uses_public_names(name):
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("scoreprism"):
            assert "._" not in node.module
            public = set(importlib.import_module(node.module).__all__)
            if node.module == "scoreprism":
                public |= {path.stem for path in (GALLERY.parents[1] / "src" / "scoreprism").glob("[a-z]*")}
            assert {alias.name for alias in node.names} <= public
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("scoreprism.") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), node.attr
    for module, used in re.findall(r":(?:class|func|meth):`~(scoreprism[a-z.]*)\.(\w+)", SOURCES[name]):
        assert used in importlib.import_module(module).__all__


def test_every_display_is_in_the_gallery():
    assert {kind.__name__ for kind in DISPLAYS.values()} == set().union(*DRAWN.values())


def test_every_calibrator_is_in_the_gallery():
    said = set()
    for name in EXAMPLES:
        for node in ast.walk(tree_of(name)):
            said.add(node.value if isinstance(node, ast.Constant) else getattr(node, "id", None))
    assert [name for name, kind in CALIBRATORS.items() if not {name, kind.__name__} & said] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_without_a_warning_and_draws_what_it_says(name, tmp_path, monkeypatch):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawn = set()
    for kind in DISPLAYS.values():

        def plot(self, *args, _plot=kind.plot, **options):
            drawn.add(type(self).__name__)
            return _plot(self, *args, **options)

        monkeypatch.setattr(kind, "plot", functools.wraps(kind.plot)(plot))
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    try:
        runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert DRAWN[name] <= drawn
    assert not list(tmp_path.iterdir())
