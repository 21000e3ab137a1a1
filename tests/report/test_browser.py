"""The page of a report in a browser: offline, silent, within its width, accessible in light and dark, printable."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.report.report_sample import page_of

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.pages

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDTHS = (320, 390, 768, 1280)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Finds the file of a page by its name."""
    folder = tmp_path_factory.mktemp("pages")

    def find(name):
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(page_of(name), encoding="utf-8")
        return file

    return find


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium on this machine: install it, for example with apt-get install chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def window(browser):
    """One window, offline; what its page asked for and what the browser had to say are kept.

    A window for every test took three times as long as loading a page anew, which is what keeps tests apart.
    """
    context = browser.new_context()
    context.set_offline(True)
    page = context.new_page()
    page.asked, page.said = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (page.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    return page


@pytest.fixture(scope="module")
def opened(window, pages):
    """Loads a page."""

    def open_page(name="sample", width=1280, color_scheme="light"):
        window.goto("about:blank")
        window.asked.clear()
        window.said.clear()
        window.set_viewport_size({"width": width, "height": 900})
        window.emulate_media(media="null", color_scheme=color_scheme)  # "null": on a screen, and pdf() on paper
        window.goto(pages(name).as_uri())
        return window

    return open_page


@pytest.mark.parametrize("name", ["sample", "hostile", "real"])
def test_the_page_asks_for_nothing_and_the_browser_says_nothing(opened, name):
    page = opened(name)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    page.wait_for_timeout(100)
    assert len(page.asked) == 1
    assert page.said == []
    assert page.title() == page.locator("h1").inner_text()


@pytest.mark.parametrize("name", ["sample", "hostile", "real"])
def test_no_element_comes_from_a_name(opened, name):
    page = opened(name)
    assert page.locator("h1").count() == 1
    assert page.locator("script, img, iframe, object, embed, form, link").count() == 0
    handlers = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => /^on|style|autofocus/.test(n))"
    assert page.evaluate(handlers) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("document.styleSheets[0].cssRules.length > 50")  # the policy lets the style sheet in


@pytest.mark.parametrize("name", ["sample", "hostile", "real"])
def test_the_page_never_scrolls_sideways(opened, name):
    page = opened(name)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        for shut in ("false", "true"):
            page.evaluate(f"document.querySelectorAll('details').forEach(one => {{ one.open = {shut} }})")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, shut)
    outside = """[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, .hidden') &&
        e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + ' ' + e.className)"""
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate(outside) == []


@pytest.mark.parametrize("name", ["sample", "real"])
def test_what_can_be_scrolled_can_be_reached_by_keyboard(opened, name):
    page = opened(name, width=390)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0)"
    assert page.evaluate(f"{cut}.map(e => e.textContent.slice(0, 60))") == []


@pytest.mark.parametrize("name", ["sample", "real"])
def test_letters_of_pictures_can_be_read_on_a_phone(opened, name):
    page = opened(name, width=390)
    sizes = """[...document.querySelectorAll('svg.plot')].map(svg => {
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return scale * Math.min(...[...svg.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize)));
    })"""
    assert min(page.evaluate(sizes)) > 6.2  # the small legend of three panels; elsewhere above 8
    assert sorted(page.evaluate(sizes))[1] > 7.5


@pytest.mark.parametrize("name", ["sample", "real"])
@pytest.mark.parametrize("width", [390, 1280])
def test_words_of_pictures_are_neither_cut_nor_on_each_other(opened, name, width):
    """With the fonts of the browser, not those that matplotlib measured."""
    page = opened(name, width=width)
    boxes = """[...document.querySelectorAll('svg.plot')].map(svg => {
        const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom] };
        return [box(svg), [...svg.querySelectorAll('text')].map(t => [t.textContent, ...box(t)])];
    })"""
    wrong = []
    for (left, top, right, bottom), words in page.evaluate(boxes):
        for i, (text, x0, y0, x1, y1) in enumerate(words):
            if x0 < left - 1 or y0 < top - 1 or x1 > right + 1 or y1 > bottom + 1:
                wrong.append(f"{text} is cut")
            for other, u0, v0, u1, v1 in words[:i]:
                across, down = min(x1, u1) - max(x0, u0), min(y1, v1) - max(y0, v0)
                if across > 1 and down > 0.3 * min(y1 - y0, v1 - v0):  # boxes hold more than letters
                    wrong.append(f"{text} is on {other}")
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    for name, width in (("hostile", 1280), ("real", 390)):  # "sample" has the elements of "hostile"
        page = opened(name, width, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        found = axe.Axe().run(page).response
        problems = [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found["violations"]]
        assert problems == []
        assert len(found["passes"]) > 20  # it did look


def test_dark_is_dark_and_print_is_light(opened):
    page = opened(color_scheme="dark")
    brightness = "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    assert max(page.evaluate(brightness)) < 60
    line = "getComputedStyle(document.querySelector('svg.plot .s-0072b2')).stroke"
    dark = page.evaluate(line)
    page.emulate_media(media="print")
    assert min(page.evaluate(brightness)) == 255
    assert page.evaluate(line) != dark
    assert page.locator("nav").is_hidden()


def test_the_contents_take_one_line_on_a_phone_and_a_column_on_a_desk(opened):
    page = opened(width=390)
    assert page.locator("nav").bounding_box()["height"] < 80
    assert page.locator("nav a:visible").count() == 0
    page.locator("nav summary").click()
    assert page.locator("nav a:visible").count() == 8
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.locator("nav a:visible").count() == 8
    assert page.locator("nav summary").is_hidden()


def test_the_page_prints(opened):
    pdf = opened().pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
    assert len(pdf) > 50_000
