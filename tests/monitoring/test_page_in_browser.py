"""The page of a monitor in a browser: what holds for the page of a report holds for it, in light, dark and print."""

from __future__ import annotations

import re

import pytest

from tests.report import test_browser as report_pages

pytestmark = pytest.mark.pages

#: Fixtures, of which `opened` takes the pages below.
browser, window, opened = report_pages.browser, report_pages.window, report_pages.opened
KINDS = ("alarm", "quiet", "mix", "segments", "classes", "hostile")


@pytest.fixture(scope="module")
def pages(page_of):
    return page_of


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_silent_plain_and_within_its_width(opened, kind):
    report_pages.test_the_page_asks_for_nothing_and_the_browser_says_nothing(opened, kind)
    report_pages.test_no_element_comes_from_a_name(opened, kind)
    report_pages.test_the_page_never_scrolls_sideways(opened, kind)
    report_pages.test_what_can_be_scrolled_can_be_reached_by_keyboard(opened, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_pictures_can_be_read(opened, kind):
    report_pages.test_letters_of_pictures_can_be_read_on_a_phone(opened, kind)
    for width in (390, 1280):
        report_pages.test_words_of_pictures_are_neither_cut_nor_on_each_other(opened, kind, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    for kind, width in (("alarm", 390), ("quiet", 1280), ("mix", 1280), ("segments", 390), ("classes", 1280)):
        found = axe.Axe().run(opened(kind, width, color_scheme=scheme)).response
        assert [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found["violations"]] == []
        assert len(found["passes"]) > 20  # it did look


def test_dark_is_dark_and_print_is_light(opened):
    page = opened("alarm", color_scheme="dark")
    paper = "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    assert max(page.evaluate(paper)) < 60
    page.emulate_media(media="print")
    assert min(page.evaluate(paper)) == 255


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_prints(opened, kind):
    pdf = opened(kind).pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4
