"""Renderings of a report: the same numbers everywhere, the same bytes every time, and no word of the user's runs."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import math
import re
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from scoreprism import Finding, compare, decompose
from scoreprism.cli import main
from scoreprism.decomposition import Decomposition
from scoreprism.exceptions import ScoreprismError
from scoreprism.report import Callout, Column, Figure, ModelResult, Paragraph, Range, Report, Section, Table
from tests.report.report_sample import NAMES, blank, hostile_report, material, page_of, sample_report

pytestmark = pytest.mark.usefixtures("few_draws")

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"


@pytest.fixture(scope="module")
def report():
    return sample_report()


@pytest.fixture(scope="module")
def hostile():
    return hostile_report()


@pytest.fixture(scope="module")
def page():
    return page_of("sample")


def small(*blocks, **more):
    """A report of one section."""
    parts = {"kind": "report", "title": "T", "headline": "H"} | more
    return Report(sections=(Section("verdict", "Verdict", (Finding("no_lower_loss"),), blocks),), **parts)


def svg_of(figure):
    """A figure as it stands on a page, where it is the first."""
    (text,) = re.findall(r'<svg [^>]*aria-labelledby="figure-1-title.*?</svg>', small(figure).to_html(), re.DOTALL)
    return text


@cache
def rows_of_terms():
    """A decomposition, for reports whose model has any name."""
    y, *_ = material()
    return ModelResult({"log": decompose(y, np.full(y.size, 0.3), loss="log", calibrator="platt", random_state=0)})


def csv_cell(word):
    """The cell of a model's name in CSV."""
    lines = csv.DictReader(io.StringIO(small(models={word: rows_of_terms()}).to_csv(), newline=""))
    return next(lines)["model"]


TWO = (Column("name", "name"), Column("x", "value", "number"))


def table(*rows, columns=TWO, **more):
    return Table("t", "A table", columns, rows, **more)


def line_figure(key="f", draw=None, **more):
    def drawn():
        axes = blank(3, 2)
        axes.plot([0, 1], [0, 1], color="#0072B2")
        return axes.figure

    return Figure(key, "A line", "It rises.", draw or drawn, table(("a", 1.0)), **more)


class Elements(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, *tags):
        return [attributes for tag, attributes in self.found if tag in tags]


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode 语言 😀", "plain, ünïcode 语言 😀"),
        ("a\x1b[31m", "a\\x1b[31m"),
        ("a\x00b\x9b", "a\\x00b\\x9b"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("half \ud83d", "half \\ud83d"),
        ("tab\tcr\rcrlf\r\nend", "tab cr crlf\nend"),
        ("family 👨‍👩‍👧", "family 👨‍👩‍👧"),  # a joiner that belongs to the letter
    ],
)
def test_every_character_can_be_seen(text, shown):
    assert csv_cell(text) == shown
    found = small(title=text)
    first, after = found.to_markdown().split("\n")[:2]
    assert first.startswith("# ")
    assert after == ""  # a heading is one line
    for page in (found.to_html(), found.to_json(), found.to_markdown()):
        page.encode("utf-8")


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────


def luminance(colour):
    """Relative luminance, WCAG 2.1."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_of_a_figure_has_a_partner_that_can_be_read(page):
    """WCAG: 3 for graphics, against the paper of the page in dark mode; lines that guide the eye may be fainter."""
    (light,) = re.findall(r":root\{((?:--c-\w{6}:#\w{6};)+)--c-ffffff:var\(--paper\)\}", page)
    (dark,) = re.findall(r"@media screen and \(prefers-color-scheme:dark\)\{:root\{((?:--c-\w{6}:#\w{6};)+)\}\}", page)
    own, partner = (dict(re.findall(r"--c-(\w{6}):(#\w{6});", part)) for part in (light, dark))
    assert own == {name: f"#{name}" for name in partner}
    used = set(re.findall(r"[fs]-([0-9a-f]{6})\b", "".join(re.findall(r'class="([^"]+)"', page))))
    assert used <= {*own, "ffffff"}
    assert len(used) > 5
    paper = luminance("#15171a")
    for name, colour in partner.items():
        least = 1.5 if name == "c3c7cd" else 2.9
        assert (luminance(colour) + 0.05) / (paper + 0.05) > least, (name, colour)
        assert f".f-{name}{{fill:var(--c-{name})}}.s-{name}{{stroke:var(--c-{name})}}" in page


def test_a_picture_is_part_of_a_page():
    text = svg_of(line_figure())
    elements = Elements(text)
    svg = elements.named("svg")[0]
    assert svg["role"] == "img"
    assert svg["aria-labelledby"] == "figure-1-title figure-1-desc"
    assert '<title id="figure-1-title">A line</title><desc id="figure-1-desc">It rises.</desc>' in text
    assert text.startswith("<svg ")
    assert not re.search(r"style=|<\?xml|DOCTYPE|xlink|metadata|<style|#0072b2|\d\.\d{3}", text, re.IGNORECASE)
    assert 'class="s-0072b2"' in text
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(name.startswith("figure-1-") for name in ids)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert used
    assert used <= set(ids)
    assert "width=" in text
    assert "viewBox=" in text


def test_unknown_colours_stay_and_opacity_is_kept():
    def draw():
        axes = blank(3, 2)
        axes.fill_between([0, 1], [0, 1], color="#D55E00", alpha=0.25)
        axes.plot([0, 1], [0, 1], color="#123456", linestyle="--", solid_capstyle="round")
        axes.bar([0], [1], fill=False, edgecolor="#E69F00", hatch="///")
        return axes.figure

    text = svg_of(line_figure(draw=draw))
    assert 'stroke="#123456"' in text
    assert re.search(r'stroke-dasharray="[^"]+"', text)
    assert re.search(r'<path[^>]*fill-opacity="0.25"[^>]*class="f-d55e00"|opacity="0.25"[^>]*class="f-d55e00', text)
    pattern = re.search(r'<pattern id="(figure-1-\d+)"', text)
    assert pattern
    assert f'fill="url(#{pattern[1]})"' in text


def test_names_in_pictures_are_text_whatever_they_hold():
    for name in NAMES:
        if "\ud83d" in name:
            continue  # matplotlib has no half letters; no file that was read has them either

        def draw(name=name):
            axes = blank(4, 3)
            axes.plot([0, 1], [0, 1], label=name[:60])
            axes.set_yticks([0, 1], [name[:60], "b"])  # a formatter writes these anew when drawing
            axes.legend()
            return axes.figure

        text = svg_of(line_figure(draw=draw))
        assert html.escape(csv_cell(name[:60]).removeprefix("'"), quote=False) in text, name
        assert not Elements(text).named("script", "img")
        text.encode("utf-8")


def test_dollars_start_no_formula():
    def draw():
        axes = blank(3, 2)
        axes.set_xlabel("price in $ of $\\frac{")
        return axes.figure

    assert "price in $ of $\\frac{" in svg_of(line_figure(draw=draw))


def test_letters_of_older_matplotlib_keep_their_size():
    """How matplotlib 3.8 writes the font of a text: the shorthand, which is no attribute."""
    styles = [
        "font: bold 9.5px 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #222222",
        "font: 8px 'DejaVu Sans'; position: fixed",
    ]
    words = "".join(f'<text style="{style}">word</text>' for style in styles)

    class OldFigure(type(blank(2, 2).figure)):
        def savefig(self, sheet, **options):
            sheet.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 144 144">{words}</svg>')

    texts = re.findall(r"<text(.*?)>word</text>", svg_of(line_figure(draw=lambda: OldFigure(figsize=(2, 2)))))
    first = {"font-weight": "bold", "font-size": "9.5px", "text-anchor": "middle", "class": "f-222222"}
    assert [dict(re.findall(r'([\w-]+)="(.*?)"', text)) for text in texts] == [first, {"font-size": "8px"}]


def test_wide_pictures_are_scrolled_and_narrow_ones_squeezed():
    def draw(width):
        axes = blank(width, 2)
        axes.plot([0, 1], [0, 1])
        return axes.figure

    assert 'class="plot"' in svg_of(line_figure(draw=lambda: draw(4.4)))
    wide = svg_of(line_figure(draw=lambda: draw(8.5)))
    (name,) = re.findall(r'class="plot (w\d+)"', wide)
    found = small(line_figure(draw=lambda: draw(8.5))).to_html()
    assert f".plot.{name}{{min-width:" in found
    assert '<div class="scroll" tabindex="0" role="group" aria-labelledby="figure-1-caption"><svg' in found


def test_style_backend_and_figures_of_the_user_stay_as_they_are(page):
    import matplotlib.pyplot as plt

    def by_pyplot():
        figure, axes = plt.subplots()
        axes.plot([0, 1], [0, 1])
        return figure

    mine = plt.figure()
    usual = small(line_figure(draw=by_pyplot)).to_html()
    with mpl.rc_context():
        mpl.style.use("dark_background")
        mpl.rcParams.update({"svg.fonttype": "path", "font.size": 30, "savefig.bbox": "tight", "axes.grid": True})
        before = dict(mpl.rcParams)
        assert small(line_figure(draw=by_pyplot)).to_html() == usual
        assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == [mine.number]


def test_a_figure_that_cannot_be_drawn_leaves_nothing_open():
    import matplotlib.pyplot as plt

    def fails():
        plt.figure()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        small(line_figure(draw=fails)).to_html()
    assert plt.get_fignums() == []


# ── the page ────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_is_one_file_without_script_or_network(page):
    elements = Elements(page)
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "image", "base"}
    for _, attributes in elements.found:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        assert "src" not in attributes
    assert not re.search(r"https?://", page)
    assert "url(h" not in page


def test_the_policy_lets_in_the_one_style_sheet(page):
    (policy,) = [m["content"] for m in Elements(page).named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    (css,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_page_has_landmarks_headings_and_names(page, report):
    elements = Elements(page)
    assert dict(elements.found)["html"]["lang"] == "en"
    assert len(elements.named("h1")) == len(elements.named("main")) == len(elements.named("nav")) == 1
    assert len(elements.named("h2")) == len(report.sections) == 8
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in elements.found:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids)
    assert {a["href"][1:] for a in elements.named("a")} <= set(ids)
    pictures = [svg for svg in elements.named("svg") if svg.get("aria-hidden") != "true"]
    assert len(pictures) == 9
    assert all(svg["role"] == "img" for svg in pictures)
    assert len(elements.named("table")) == len(elements.named("caption")) == 13  # four of their own, nine of figures
    assert all(head.get("scope") in {"col", "row"} for head in elements.named("th"))


def test_the_page_says_everything(page, report):
    words = html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\u00a0", " ")  # numbers and their signs do not break
    assert report.title in words
    assert report.headline in words
    for section in report.sections:
        assert section.title in words
        assert section.meaning in words
        for callout in section.callouts:
            assert callout.text in words
        for block in section.blocks:
            assert not isinstance(block, Paragraph) or block.text in words
        for one in section.tables:
            assert one.title in words
            for row in one.shown():
                for cell in row:
                    assert cell.replace("-0.", "−0.") in words
    for word in ("Action", "Warning", "Note"):  # not by colour alone
        assert f"<strong>{word}</strong>" in page


def test_the_same_report_gives_the_same_bytes(page, report):
    assert report.to_html() == page
    assert report.to_json() == report.to_json()


def test_hostile_names_stay_words():
    page = page_of("hostile")
    elements = Elements(page)
    assert not elements.named("script", "img", "i", "b")
    allowed = (
        "aria-hidden aria-label aria-labelledby charset class clip-path content cx cy d fill fill-opacity fill-rule "
    )
    allowed += (
        "font-size font-weight height href http-equiv id lang name opacity patternunits preserveaspectratio r role "
    )
    allowed += "rx scope stroke stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-opacity "
    allowed += "stroke-width tabindex text-anchor transform viewbox width x y"
    assert {name for _, attributes in elements.found for name in attributes} <= set(allowed.split())
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
    page.encode("utf-8")


def test_the_frame_of_a_notebook_holds_the_page():
    given = small(line_figure(), table(('"><script>', 1.0)), title='"T"', headline="<H>")
    frame = given._repr_html_()
    ((tag, attributes),) = Elements(frame).found
    assert tag == "iframe"
    assert attributes["srcdoc"] == given.to_html()
    assert attributes["sandbox"] is None  # nothing is allowed
    assert attributes["title"] == '"T"'
    assert frame.endswith(">&quot;T&quot;: &lt;H&gt;</iframe>")


def test_long_tables_are_cut_on_the_page_and_whole_in_the_json():
    rows = [(f"row {i}", i / 7) for i in range(205)]
    found = small(table(*rows))
    assert "The first 200 rows; 5 more are in the JSON." in found.to_html()
    assert "row 199<" in found.to_html()
    assert "row 200<" not in found.to_html()
    assert len(found.to_dict()["sections"][0]["tables"][0]["rows"]) == 205


def test_odd_reports_are_pages_too():
    """No models, no rows, no columns, sections of any name, twice the same."""
    empty = table()
    odd = Section('x" onclick="y', "<i>", (), (empty, Table("n", "None", (), ())))
    found = replace(
        small(Callout(Finding("plugin_bias")), line_figure(), line_figure()),
        sections=(odd, odd, Section("content", "C")),
    )
    elements = Elements(found.to_html())
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {section["id"] for section in elements.named("section")} == {"section-1", "section-2", "section-3"}
    for text in (found.to_text(), found.to_markdown(), found.to_csv(), found.to_json()):
        assert text
    twice = small(line_figure(), line_figure())
    ids = [attributes["id"] for _, attributes in Elements(twice.to_html()).found if "id" in attributes]
    assert len(ids) == len(set(ids))


# ── the terminal ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_text_fits_the_terminal_and_breaks_no_number(report, width):
    from rich.cells import cell_len

    text = report.to_text(width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert not re.search(r" +$|\x1b", text, re.MULTILINE)
    log = next(iter(report.models.values())).decompositions["log"]
    interval = log.interval("reliability")
    known = (f"0 to {interval.high:.5f}", f"≤ {log.upper_bound('irreducible').value:.5f}")
    share = f"{100 * log.terms['reliability'] / log.risk:.1f} %".replace("-", "−")
    for number in (*known, share, "0.51910", "83.0 % to 100.0 %", "0.430"):
        assert number in text
    for section in report.sections:
        assert section.title in text
    assert "\n→ Recalibrate" in text
    assert "\n! Few data (550 rows" in text


@pytest.mark.parametrize("width", [40, 60, 70, 80, 100, 120])
def test_no_word_of_a_table_is_cut(report, width):
    """Rich, left to find the widths, cut "more" to "mor" at 80 columns and lost numbers at 60."""
    columns = (
        Column("model", "model"),
        Column("loss", "log loss", "loss"),
        Column("behind", "behind the best (95 %)", "signed"),
        Column("p", "calibrated? p", "pvalue"),
        Column("step", "next step"),
    )
    rows = (
        ("stacking with a name", 0.5131, None, 0.457, "nothing is shown yet, collect more rows: 1.0 % of them"),
        ("logistic", 0.5734, Range(0.0155, 0.1051), 0.001, "recalibrate"),
    )
    mine = Table("glance", "All models at a glance", columns, rows)
    for one in (mine, *(block for section in report.sections for block in section.blocks if isinstance(block, Table))):
        text = small(one).to_text(width=width)
        assert max(map(len, text.splitlines())) <= width
        words = [word for row in one.shown() for cell in row for word in cell.split()]
        assert [word for word in words if word not in text and len(word) <= 12] == []
    assert not re.search(r"^\s*%", small(mine).to_text(width=width), re.MULTILINE)


def test_wide_tables_repeat_their_first_column(report):
    text = report.to_text(width=60)
    part = text[text.index("All models, log loss") : text.index("Differences are judged")]
    heads = [line.split()[0] for line in part.splitlines() if line.startswith("model")]
    assert len(heads) == 2


def test_text_takes_names_as_they_are(hostile):
    text = hostile.to_text(width=300)
    assert "[red]not markup[/red] [link=x]y[/link] :smile:" in text
    assert "escape \\x1b[31mred\\x07 \\x00" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert repr(hostile) == hostile.to_text()


def test_colours_only_where_asked(capsys, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.1, 0.9, 200)
    lines = [f"{int(u < p)},{p}" for u, p in zip(rng.random(200), s, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["y,[b]x[/b]", *lines]), encoding="utf-8")

    def shown():
        with pytest.raises(SystemExit) as ended:
            main(["diagnose", str(tmp_path / "a.csv"), "--target", "y", "--score", "[b]x[/b]", "--quiet"])
        assert ended.value.code == 0
        return capsys.readouterr().out

    plain_lines = shown()
    assert "\x1b" not in plain_lines
    assert "[b]x[/b]" in plain_lines
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = shown()
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == plain_lines.split()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown()


def test_width_is_checked():
    with pytest.raises(ScoreprismError, match="width must be"):
        small().to_text(width=10)


# ── Markdown ────────────────────────────────────────────────────────────────────────────────────────


def test_markdown_has_tables_and_few_numbers_of_figures(report):
    text = report.to_markdown()
    assert text.startswith("# Credit default, holdout 2024\n\n**The model is nearly")
    assert "\n## What recalibration would do\n" in text
    assert "| --- | ---: | ---: | ---: | --- |" in text
    log = next(iter(report.models.values())).decompositions["log"]
    most = f"≤ {log.upper_bound('irreducible').value:.5f}"
    assert log.muted == ("grouping", "irreducible")  # 550 rows are few: bounds are told, and no estimates
    assert f"| irreducible | – | {most} | – | richer features or better data |" in text
    assert "(588 more rows are in the JSON.)" in text  # twelve of 600 are shown
    assert "> → **Action.** Recalibrate" in text
    assert "Reliability diagram" not in text  # the caption of a figure that is not there
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("[x](y)", r"\[x\](y)"),
        ("https://x", "https:<!-- -->//x"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("# h\n\n| x", r"\# h  \| x"),
        (":smile:", ":<!-- -->smile:"),
    ],
)
def test_markdown_shows_what_it_is_given(text, expected):
    """By the rules of GitHub Flavored Markdown 0.29: backslash escapes (6.1), entities (6.2), autolinks (6.9)."""
    assert small(headline=text).to_markdown().split("\n")[2] == f"**{expected}**"


def test_markdown_of_hostile_names(hostile):
    text = hostile.to_markdown()
    assert not re.search(r"<(?!!-- -->)", text)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} <= {3, 4, 6, 7, 10}


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────


def test_json_is_strict_and_fits_its_schema(report, hostile):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    validator.check_schema(validator.schema)
    for one in (report, hostile, small(table(("a", math.inf)))):
        text = one.to_json()
        found = json.loads(text, parse_constant=pytest.fail)
        text.encode("utf-8")
        validator.validate(found)
        assert found == one.to_dict()
        found["sections"][0]["extra"] = 1
        assert not validator.is_valid(found)


def test_numbers_of_the_json_are_those_of_the_results(report):
    found = json.loads(report.to_json())
    assert list(found["models"]) == list(report.models)
    for name, model in report.models.items():
        for loss, result in model.decompositions.items():
            entry = found["models"][name]["losses"][loss]
            assert entry["risk"] == result.risk
            for term, value in result.terms.items():
                muted = term in result.muted
                assert entry["terms"][term]["muted"] is muted
                assert entry["terms"][term]["estimate"] == (None if muted else value)
                assert entry["terms"][term]["std_error"] == (None if muted else result.std_error[term])
                assert entry["terms"][term]["share"] == (None if muted else value / result.risk)
                interval = result.interval(term)
                assert (entry["terms"][term]["low"], entry["terms"][term]["high"]) == (interval.low, interval.high)
            assert entry["terms"]["grouping"]["lower_bound"] == result.lower_bound("grouping").value
            assert entry["terms"]["grouping"]["upper_bound"] is None  # no data can give one
            assert entry["terms"]["irreducible"]["lower_bound"] is None
            again = Decomposition.from_json(json.dumps(entry["decomposition"]))
            assert again.terms == result.terms
        assert found["models"][name]["tests"]["calibration"]["pvalue"] == model.tests["calibration"].pvalue
        assert found["models"][name]["findings"] == [one.to_dict() for one in model.findings]
        estimates = found["models"][name]["metrics"]["metrics"]
        assert estimates["auc"]["estimate"] == float(model.metrics.estimates["auc"])


def test_infinite_losses_are_words_in_the_json_and_signs_elsewhere():
    y, *_ = material()
    score = np.where(np.arange(y.size) == np.flatnonzero(y)[0], 0.0, 0.3)
    with pytest.warns(UserWarning, match="infinite"):
        result = decompose(y, score, loss="log", random_state=0)
    shown = table(("loss", math.inf), ("nothing", math.nan), ("less", -math.inf))
    found = small(shown, models={"m": ModelResult({"log": result})})
    entry = json.loads(found.to_json())
    assert entry["models"]["m"]["losses"]["log"]["risk"] == "inf"
    assert [row["x"] for row in entry["sections"][0]["tables"][0]["rows"]] == ["inf", None, "-inf"]
    assert "∞" in found.to_html()
    assert ",inf," in found.to_csv()
    assert "nan" not in found.to_csv()


def test_anything_becomes_plain():
    from datetime import date

    given = {"a": np.float64(0.1), 2: np.array([1, 2]), "r": Range(None, 1.0), "d": date(2024, 1, 2), "b": np.bool_(1)}
    settings = json.loads(small(settings=given | {"x": [np.nan, 1e-300, 5]}).to_json())["settings"]
    assert settings == {
        "a": 0.1, "2": [1, 2], "r": {"low": None, "high": 1.0}, "d": "2024-01-02", "b": True, "x": [None, 1e-300, 5],
    }  # fmt: skip


def test_the_level_of_the_report_is_used(report):
    looser = replace(report, settings=dict(report.settings) | {"confidence_level": 0.8})
    name = next(iter(report.models))
    terms = json.loads(looser.to_json())["models"][name]["losses"]["log"]["terms"]
    assert (
        terms["irreducible"]["upper_bound"]
        == report.models[name].decompositions["log"].upper_bound("irreducible", 0.8).value
    )


# ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────


def test_csv_has_a_row_per_term(report):
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert len(rows) == 2 * 2 * 3
    first = report.models["Logistic regression"].decompositions["log"]
    assert float(rows[0]["estimate"]) == first.terms["reliability"]
    assert float(rows[0]["high"]) == first.interval("reliability").high
    assert rows[1]["upper_bound"] == ""
    assert [row["muted"] for row in rows[:3]] == ["False", "True", "True"]
    assert [row["estimate"] == row["share"] == "" for row in rows[:3]] == [False, True, True]
    told = [row for row in rows if row["muted"] == "False"]
    assert all(float(row["estimate"]) == pytest.approx(float(row["share"]) * _risk(report, row)) for row in told)


def _risk(report, row):
    return report.models[row["model"]].decompositions[row["loss"]].risk


@pytest.mark.parametrize("word", ["=1+1", "+cmd|'/C calc'!A0", "-x", "@SUM(1)", "\t=1", "\r=1", "＝1", "-1-2", "- 1"])
def test_spreadsheets_run_nothing(word):
    cell = csv_cell(word)
    assert cell.startswith("'")
    assert cell[1:] == word.translate({9: " ", 13: " "})


@pytest.mark.parametrize("word", ["-0.5", "+3", "1e-5", "a=b", "", "plain"])
def test_numbers_and_plain_words_stay(word):
    assert csv_cell(word) == word


def test_csv_of_any_table(tmp_path):
    """Ranges are two columns, all digits are kept, and a quoted name is a cell: the differences of two models."""
    y, *_ = material()
    scores = {'a "quoted", one': np.linspace(0.1, 0.9, y.size), "b": np.linspace(0.2, 0.7, y.size)}
    pl.DataFrame({"y": y, **scores}).write_csv(tmp_path / "a.csv")
    asked = [part for name in scores for part in ("--score", name)]
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "a.csv"), "--target", "y", *asked, "--as-given",
                                     "--loss", "brier", "--format", "csv", "--quiet"])  # fmt: skip
    gap = compare(y, scores, loss="brier", random_state=0)
    gap = gap['a "quoted", one'].minus(gap["b"])
    interval = gap.interval("reliability")
    assert done.stdout.splitlines()[0] == "pair,term,value,interval_low,interval_high"
    assert done.stdout.splitlines()[2] == (
        f'"a ""quoted"", one − b",reliability,{gap.terms["reliability"]!r},{interval.low!r},{interval.high!r}'
    )


def test_heavy_libraries_are_loaded_when_used():
    import subprocess

    code = "import sys, scoreprism.report; print([m for m in ('matplotlib', 'jinja2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
