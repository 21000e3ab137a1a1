"""Every block of Python in the documentation runs as it is written, page by page, and gives the outputs that it shows."""

import doctest
import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {
    str(page.relative_to(DOCS)): page.read_text(encoding="utf-8")
    for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
}
TRANSCRIPTS = [page for page, text in TEXTS.items() if "\n>>> " in text]
PAGES = [page for page, text in TEXTS.items() if re.search(r"```python\n(?!>>>)", text)]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", TEXTS[page], re.DOTALL):
        if block.lstrip().startswith(">>>"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small samples make for notes that have nothing to do with the page
            exec(compile(block, page, "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", TRANSCRIPTS)
def test_outputs_are_those_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(?:python|pycon)?\n(>>> .*?)```", TEXTS[page], re.DOTALL)
    page_test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, str(DOCS / page), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.DocTestRunner().run(page_test)
    assert found.attempted > 0
    assert found.failed == 0
