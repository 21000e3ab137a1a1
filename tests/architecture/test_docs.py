"""Every block of Python in the documentation runs as it is written, page by page, and gives the outputs that it shows."""

import doctest
import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TRANSCRIPTS = sorted(page.name for page in DOCS.glob("*.md") if "\n>>> " in page.read_text(encoding="utf-8"))
PAGES = sorted(page.name for page in DOCS.glob("*.md") if "```python" in page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        if block.lstrip().startswith(">>>"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small samples make for notes that have nothing to do with the page
            exec(compile(block, page, "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", TRANSCRIPTS)
def test_outputs_are_those_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0
