"""A document as one page: no script, no network, every word of the user's escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from scoreprism._document.model import Block, Callout, Cell, Column, Document, Figure, Paragraph, Section, Table
from scoreprism._document.svg import colour_rules, picture
from scoreprism._findings.wording import visible

if TYPE_CHECKING:
    from jinja2 import Environment

#: Words in front of a callout, whose kind should not show by colour alone.
WORDS = {"action": "Action", "warning": "Warning", "note": "Note"}
#: Rows of a table that the page shows; all of them are in the JSON.
MOST_ROWS = 200
#: A table of more columns than this, or of more letters, may be wider than a phone.
_COLUMNS, _LETTERS = 3, 32
#: Signs of a verdict.
_SIGNS = tuple("✓≈✗")
#: The numbers behind a figure are scrolled where there are more rows than this.
_TALL = 12
#: A cell of more letters than this is a sentence, which needs room.
_SENTENCE = 28
#: One of fewer is not broken.
_WORD = 20


def render_html(document: Document, facts: Sequence[str] = (), rules: str = "") -> str:
    """The document as one page, with `facts` above its title, and rules of its own at the end of its style sheet."""
    from markupsafe import Markup

    css = _style_sheet() + rules
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    page = _environment().get_template("page.html.j2")
    sections = _Numbering().sections(document)
    trusted = Markup(css)  # noqa: S704 - our own file
    return page.render(document=document, sections=sections, facts=facts, css=trusted, policy=policy)


def render_frame(document: Document, facts: Sequence[str] = ()) -> str:
    """The document for a notebook: the page in a frame of its own, so that its style stays inside."""
    source, title = (html.escape(text) for text in (render_html(document, facts), visible(document.title)))
    fallback = html.escape(visible(f"{document.title}: {document.headline}"))
    look = "width:100%;height:min(48rem,85vh);min-height:30rem;border:1px solid #8884;border-radius:4px;background:#fff"
    return f'<iframe srcdoc="{source}" sandbox title="{title}" style="{look}">{fallback}</iframe>'


@cache
def _environment() -> Environment:
    """Templates that escape everything that is not marked as our own."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        for sign in (" %", "p = ", "p < ", "1 − t"):  # a number and its sign stay on one line
            value = value.replace(sign, sign.replace(" ", "\u00a0"))
        return visible(value)

    loader = PackageLoader("scoreprism._document")
    lines: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=shown, **lines)


@cache
def _style_sheet() -> str:
    environment = _environment()
    assert environment.loader is not None  # noqa: S101 - for the type checker
    return environment.loader.get_source(environment, "page.css")[0] + colour_rules()


class _Numbering:
    """Goes through a document once, and gives every part an id and a number."""

    def __init__(self) -> None:
        self.figures = self.tables = 0

    def sections(self, document: Document) -> list[dict[str, Any]]:
        """Sections as the template takes them."""
        ids: list[str] = []
        for i, section in enumerate(document.sections, start=1):
            plain = re.fullmatch(r"[a-z][a-z0-9]*", section.key) and section.key not in (*ids, "content")
            ids.append(section.key if plain else f"section-{i}")
        return [
            {"id": key, "title": section.title, "meaning": section.meaning, "blocks": list(self.blocks(section))}
            for key, section in zip(ids, document.sections, strict=True)
        ]

    def blocks(self, section: Section) -> Iterator[dict[str, Any]]:
        """Blocks in order; callouts that follow each other are one list, tables and figures one row where they fit."""
        for kind, group in groupby(section.blocks, _find_run):
            if kind == "notices":
                callouts = [block for block in group if isinstance(block, Callout)]
                notices = [{"kind": one.kind, "word": WORDS[one.kind], "text": one.text} for one in callouts]
                yield {"kind": "notices", "notices": notices}
            else:
                yield {"kind": "row", "blocks": list(map(self.block, group))}

    def block(self, block: Block) -> dict[str, Any]:
        """A table, a figure or words."""
        if isinstance(block, Figure):
            return self.figure(block)
        if isinstance(block, Paragraph):
            return {"kind": "words", "text": block.text}
        assert isinstance(block, Table)  # noqa: S101 - for the type checker
        self.tables += 1
        return {"kind": "table", "label": f"Table {self.tables}"} | _lay_out(block, f"table-{self.tables}")

    def figure(self, figure: Figure) -> dict[str, Any]:
        """A figure with its numbers."""
        from markupsafe import Markup

        self.figures += 1
        key = f"figure-{self.figures}"
        svg = Markup(picture(figure, key))  # noqa: S704 - written by ElementTree, which escapes
        return {
            "kind": "figure",
            "id": key,
            "label": f"Figure {self.figures}",
            "title": figure.title,
            "description": figure.description,
            "svg": svg,
            "wide": 'class="plot w' in svg,
            "data": None if figure.data is None else _lay_out_data(figure.data, f"{key}-data"),
        }


def _find_run(block: Block) -> str:
    """How blocks that follow each other are grouped."""
    return "notices" if isinstance(block, Callout) else "words" if isinstance(block, Paragraph) else "row"


def _lay_out_data(table: Table, key: str) -> dict[str, Any]:
    """The numbers behind a figure: no number of their own, and scrolled where they are many."""
    grid = _lay_out(table, key)
    return grid | {"label": "", "wide": grid["wide"] or len(grid["rows"]) > _TALL}


def _lay_out(table: Table, key: str) -> dict[str, Any]:
    """A table as the template takes it: cells as text, each with its look."""
    looks = [_choose_look(column, [row[i] for row in table.rows]) for i, column in enumerate(table.columns)]
    heads = [{"text": column.title, "look": look} for column, look in zip(table.columns, looks, strict=True)]
    rows = [
        [{"text": _bind_sign(text), "look": look} for text, look in zip(row, looks, strict=True)]
        for row in table.shown()[:MOST_ROWS]
    ]
    left = len(table.rows) - len(rows)
    letters = sum(max([len(row[i]["text"]) for row in rows], default=0) for i in range(len(heads)))
    return {
        "id": key,
        "title": table.title,
        "heads": heads,
        "rows": rows,
        "note": table.note,
        "more": f"The first {MOST_ROWS} rows; {left:,} more are in the JSON." if left else "",
        "named": bool(looks) and looks[0] != "number",
        "wide": len(heads) > _COLUMNS or letters > _LETTERS,
    }


def _bind_sign(text: str) -> str:
    """A sign before a word stays on its line: on narrow paper a verdict would take two."""
    return f"{text[0]}\N{NO-BREAK SPACE}{text[2:]}" if text[:1] in _SIGNS and text[1:2] == " " else text


def _choose_look(column: Column, cells: list[Cell]) -> str:
    """Class of the cells of a column: numbers align to the right, words to the left, sentences get room."""
    if column.has_numbers:
        return "number"
    letters = max((len(str(cell)) for cell in cells), default=0)
    return "text long" if letters > _SENTENCE else "text short" if letters < _WORD else "text"
