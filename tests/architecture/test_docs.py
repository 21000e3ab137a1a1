"""Every block of Python in the documentation runs as it is written, page by page, and gives the outputs that it shows."""

import ast
import contextlib
import doctest
import functools
import re
import tempfile
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.pages

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {
    str(page.relative_to(DOCS)): page.read_text(encoding="utf-8")
    for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
}
TRANSCRIPTS = [page for page, text in TEXTS.items() if "\n>>> " in text]
PAGES = [page for page, text in TEXTS.items() if re.search(r"```python\n(?!>>>)", text)]


def shown(page):
    """The transcript of a page."""
    return "\n".join(re.findall(r"```(?:python|pycon)?\n(>>> .*?)```", TEXTS[page], re.DOTALL))


@functools.cache
def transcript(page):
    """The names that a page's transcript leaves, how many examples it has, and what doctest says of wrong outputs."""
    parsed = doctest.DocTestParser().get_doctest(shown(page), {}, page, str(DOCS / page), 0)
    names, said = parsed.globs, []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        found = doctest.DocTestRunner().run(parsed, out=said.append, clear_globs=False)
    return names, found.attempted, "".join(said)


@functools.cache
def transcripts_by_code():
    """Pages whose whole transcript is this code, comments apart."""
    found = {}
    for page in TRANSCRIPTS:
        examples = doctest.DocTestParser().get_examples(shown(page))
        found[ast.dump(ast.parse("".join(one.source for one in examples)))] = page
    return found


@pytest.fixture(scope="module")
def clusters():
    """A cluster like that of a page, which all pages share: its processes take seconds to start."""
    import distributed

    with contextlib.ExitStack() as stack:

        @functools.cache
        def start(**options):
            return contextlib.nullcontext(stack.enter_context(distributed.LocalCluster(**options)))

        yield start


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, tmp_path, monkeypatch, clusters):
    monkeypatch.chdir(tmp_path)
    if "LocalCluster" in TEXTS[page]:
        monkeypatch.setattr("dask.distributed.LocalCluster", clusters)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", TEXTS[page], re.DOTALL):
        if block.lstrip().startswith(">>>"):
            continue
        if not names and (same := transcripts_by_code().get(ast.dump(ast.parse(block)))):
            names |= transcript(same)[0]  # the guide begins with the same lines, which are long to run
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small samples make for notes that have nothing to do with the page
            exec(compile(block, page, "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", TRANSCRIPTS)
def test_outputs_are_those_shown(page):
    _, attempted, wrong = transcript(page)
    assert attempted > 0
    assert wrong == ""
