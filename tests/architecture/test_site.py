"""The site: what the README promises of it, what its pages are made with, and, with ``-m slow``, the pages themselves."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import scoreprism

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: Pages that a browser looks at.
LOOKED_AT = (
    "index", "start", "glossary", "monitoring", "guide/ideas", "api/generated/scoreprism.decompose", "api/generated/scoreprism.metrics",
)  # fmt: skip


def load(path):
    """A module that is no part of a package, by a name that hides no other: Python has a module ``site``."""
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its records look their annotations up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def extensions(monkeypatch):
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    monkeypatch.syspath_prepend(DOCS / "_ext")


# ── the README ──────────────────────────────────────────────────────────────────────────────────────


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120
    assert len(re.findall(r"^python -m pip install", README, re.MULTILINE)) == 2
    assert README.count("![") == 1


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) == 1 + 6  # the figure, and six pages
    assert [link for link in links if not (ROOT / link).is_file()] == []


# ── the pages ───────────────────────────────────────────────────────────────────────────────────────


def test_every_command_of_start_exists():
    """Commands are run by the build; that their names are ours is seen without it."""
    import click

    from scoreprism.cli import main

    used = re.findall(r"^\$ scoreprism (\w+)", (DOCS / "start.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"diagnose", "report", "recalibrate", "apply"} <= set(used) <= set(main.list_commands(click.Context(main)))


def test_the_glossary_has_the_words_of_the_command_line_and_the_terms():
    words = set(re.findall(r"^([A-Za-z][\w -]*)$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE))
    terms = {"reliability", "grouping", "irreducible", "refinement", "resolution", "uncertainty"}
    ours = {"groups", "segment", "period", "confidence level", "q", "baseline", "reference", "sums", "report", "law"}
    theirs = {"discrimination", "sharpness", "epistemic", "aleatoric", "calibration loss", "CORP"}
    assert terms | ours | theirs <= words


def test_every_public_name_has_a_page(extensions):
    import api_pages

    names = api_pages.find_names()
    things = [getattr(scoreprism, name) for name in scoreprism.__all__ if name != "__version__"]
    for package in scoreprism.PUBLIC_PACKAGES:
        module = importlib.import_module(f"scoreprism.{package}")
        things += [getattr(module, name) for name in module.__all__]
    paged = {id(thing) for thing in names.values()}
    assert [thing for thing in things if id(thing) not in paged] == []
    kinds = {api_pages._kind(thing) for thing in names.values()}
    assert kinds == {"class", "exception", "function", "data"}
    assert "calibrators.PlattCalibrator" in api_pages._write_page("scoreprism.CALIBRATORS", scoreprism.CALIBRATORS)


def test_prose_links_the_first_mention_of_a_name_that_is_no_everyday_word(extensions):
    from types import SimpleNamespace

    import api_pages
    from docutils import nodes

    words = ["PlattCalibrator", "compare", "PlattCalibrator", "scale.decompose()", "LOSSES", "y_true"]
    body = nodes.paragraph("", "", *(nodes.literal(word, word) for word in words))
    heading = nodes.title("", "", nodes.literal("from_loss", "from_loss"))
    link = nodes.inline("", "", nodes.literal("check_proper", "check_proper"))
    page = nodes.section("", heading, nodes.reference("", "", link), body)
    api_pages.link_first_mentions(SimpleNamespace(env=SimpleNamespace(docname="guide/look")), page)
    targets = [node.get("reftarget") for node in body]
    assert targets == [
        "scoreprism.calibrators.PlattCalibrator",
        None,
        None,
        "scoreprism.scale.decompose",
        "scoreprism.LOSSES",
        None,
    ]
    assert isinstance(heading[0], nodes.literal)
    assert isinstance(link[0], nodes.literal)


# ── what pages are made with ────────────────────────────────────────────────────────────────────────

PAGE = """
# A page

```{{run}} python
import matplotlib.pyplot as plt
x = {x}
x * 2
```

```{{run}} shell
:exit: 3
$ echo written > file.txt
$ cat file.txt; exit 3
```

```{{run}} python
:figure: a line
:hide:
line = plt.plot([0, 1], color="#0072B2")
```

The sum $\\\\sum_k p_k \\\\dots$.
"""
CONF = """
import sys
sys.path.insert(0, {ext!r})
extensions = ["myst_parser", "shown_output", "mathml"]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
html_theme = "basic"
"""


def build(folder, x):
    """Build a site of one page, in a process of its own."""
    (folder / "conf.py").write_text(CONF.format(ext=str(DOCS / "_ext")), encoding="utf-8")
    (folder / "index.md").write_text(PAGE.format(x=x).replace("\\\\", "\\"), encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(folder), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_page_shows_what_its_blocks_print_and_draw(extensions, tmp_path):
    pytest.importorskip("myst_parser")
    done = build(tmp_path, x=21)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>", "", page)
    assert "\n42\n" in text
    assert "$ cat file.txt; exit 3\nwritten\n" in text
    assert re.findall(r'<img alt="a line" class="(only-\w+) shown-figure"', page) == ["only-light", "only-dark"]
    assert "color=" not in text  # hidden
    assert "<mo movablelimits" in page
    drawn = {path.stem: path.read_text() for path in (tmp_path / "_made").glob("*.svg")}
    assert len(drawn) == 2
    colours = {("dark" in name): text for name, text in drawn.items()}
    assert "#0072b2" in colours[False]
    assert "#3e97d1" in colours[True]  # grouping on dark paper, in _document/colours.py
    assert "#0072b2" not in colours[True]
    assert load(ROOT / ".ci" / "site.py").find_problems(tmp_path / "out") == []


def test_a_block_that_fails_ends_the_build(extensions, tmp_path):
    pytest.importorskip("myst_parser")
    done = build(tmp_path, x="1 / 0")
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr


def test_a_figure_of_an_example_is_saved_for_both_papers(extensions, tmp_path):
    import matplotlib.pyplot as plt
    import two_papers

    plt.figure(figsize=(4, 3))
    plt.plot([0, 1], color="#0072B2")
    plt.title("A line")
    target = tmp_path / "images" / "sphx_glr_plot_it_001.png"
    target.parent.mkdir()
    text = two_papers.scrape(None, {"image_path_iterator": iter([str(target)])}, {"src_dir": str(tmp_path)})
    assert re.findall(r":class: (.*)", text) == ["only-light", "only-dark"]  # the theme hides one of the two
    assert text.count(":alt: A line") == 2
    pictures = {path.stem.partition("001")[2]: plt.imread(path) for path in target.parent.iterdir()}
    sizes = {end: picture.shape[1::-1] for end, picture in pictures.items()}
    assert sizes == {"": (400, 300), "_dark": (400, 300), "_2_00x": (800, 600), "_2_00x_dark": (800, 600)}
    assert pictures[""][0, 0, :3] * 255 == pytest.approx([255, 255, 255])
    assert pictures["_dark"][0, 0, :3] * 255 == pytest.approx([0x14, 0x18, 0x1E])  # the theme's dark page
    assert plt.get_fignums() == []


def test_what_is_wrong_with_a_site_is_found(tmp_path):
    (tmp_path / "good.html").write_text('<p id="here"><a href="#here">a</a><a href="https://elsewhere.test">b</a>')
    site = load(ROOT / ".ci" / "site.py")
    assert site.find_problems(tmp_path) == []
    (tmp_path / "bad.html").write_text(
        '<a href="gone.html">a</a><a href="good.html#there">b</a><script src="https://cdn.test/x.js"></script>'
        '<img srcset="good.html, gone.png 2x"><link rel="stylesheet" href="//cdn.test/x.css">'
    )
    (tmp_path / "bad.css").write_text("@import url('https://fonts.test/x'); body { background: url(data:image/png,) }")
    assert site.find_problems(tmp_path) == [
        "bad.html: asks //cdn.test/x.css of another host",
        "bad.html: asks https://cdn.test/x.js of another host",
        "bad.html: gone.html leads nowhere",
        "bad.html: gone.png leads nowhere",
        "bad.html: good.html#there leads nowhere",
        "bad.css: asks https://fonts.test/x of another host",
    ]


# ── the site itself ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without its gallery: a minute."""
    pytest.importorskip("pydata_sphinx_theme", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-D", "plot_gallery=0", str(DOCS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(site):
    assert load(ROOT / ".ci" / "site.py").find_problems(site) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_are_accessible_ask_for_nothing_and_fit(site, scheme, width):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_offline(True)
        for name in LOOKED_AT:
            page, asked = context.new_page(), []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_timeout(200)
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.evaluate("h = document.querySelector('h1'), h.scrollWidth <= h.clientWidth"), name
            violations = axe.Axe().run(page).response["violations"]
            assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == [], name
            page.close()
        browser.close()


@pytest.mark.slow
def test_search_shows_pages(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto((site / "search.html").as_uri() + "?q=recalibration")
        page.wait_for_selector("#search-results li a", timeout=30_000)
        assert page.locator("#search-results li a").count() > 5
        browser.close()


@pytest.mark.slow
def test_search_finds_a_name_and_a_word(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "MonotoneSplineCalibrator" in index
    assert "recalibr" in index  # stemmed
