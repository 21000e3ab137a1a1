"""A document as Markdown of GitHub's flavour: words of the user's start no element, link or mention."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scoreprism._document.model import Block, Callout, Document, Paragraph, Section, Table
from scoreprism._findings.wording import one_line

#: Words in front of a callout.
WORDS = {"action": "→ **Action.**", "warning": "⚠ **Warning.**", "note": "**Note.**"}
#: Rows of the numbers behind a figure that are shown; all are in the JSON.
FEW = 12
#: Letters that mean something in Markdown.
_MARKS = re.compile(r"([\\`*_\[\]|~$#])")
#: What becomes a link, a mention or a picture by itself; an empty comment in the middle prevents it.
_LINKS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)(?=\w)|(?<=:)(?=[\w+-]+:)", re.IGNORECASE)
#: What starts a list at the beginning of a line.
_LIST = re.compile(r"^([-+]|\d+[.)])(?=\s)")


def render_markdown(
    document: Document, pictures: Mapping[str, str] | None = None, numbers: Mapping[str, str] | None = None
) -> str:
    """The document as Markdown."""
    parts = [f"# {_escape(document.title)}"] if document.title else []
    parts += [f"**{_escape(document.headline)}**"] if document.headline else []
    for section in document.sections:
        parts += _render_section(section, pictures or {}, numbers or {})
    hashed = f", SHA-256 `{document.origin.sha256}`" if re.fullmatch(r"[0-9a-f]+", document.origin.sha256) else ""
    made = f"scoreprism {_escape(document.versions.get('scoreprism', ''))}".strip()
    return "\n\n".join([*parts, "---", f"{made}; data: {_escape(document.origin.name)}{hashed}"]) + "\n"


def _render_section(section: Section, pictures: Mapping[str, str], numbers: Mapping[str, str]) -> list[str]:
    meaning = [_escape(section.meaning)] if section.meaning else []
    blocks = [part for block in section.blocks for part in _render_block(block, pictures, numbers)]
    return [*([f"## {_escape(section.title)}"] if section.title else []), *meaning, *blocks]


def _render_block(block: Block, pictures: Mapping[str, str], numbers: Mapping[str, str]) -> list[str]:
    if isinstance(block, Callout):
        return [f"> {WORDS[block.kind]} {_escape(block.text)}"]
    if isinstance(block, Paragraph):
        return [_escape(block.text)]
    if isinstance(block, Table):
        return _render_table(block)
    behind = _render_numbers(block.data, numbers)
    if block.key not in pictures:
        return behind  # no caption of a figure that is not there
    words = _MARKS.sub(r"\\\1", one_line(block.title).strip())  # a comment would be read out in alternative text
    shown = f"![{words}]({pictures[block.key]})"
    return [f"**{_escape(block.title)}**", shown, _escape(block.description), *behind]


def _render_numbers(data: Table | None, files: Mapping[str, str]) -> list[str]:
    """The numbers behind a figure: the file that has them, or the first of them."""
    if data is None or not data.rows:
        return []
    return [f"[The numbers]({files[data.key]})"] if data.key in files else _render_table(data, FEW)


def _render_table(table: Table, most: int | None = None) -> list[str]:
    """Caption, table and note."""
    shown = table.shown()
    head = [_escape(column.title) or " " for column in table.columns]
    rule = ["---:" if column.has_numbers else "---" for column in table.columns]
    lines = [_join_cells(cells) for cells in (head, rule, *([_escape(cell) for cell in row] for row in shown[:most]))]
    left = len(shown) - len(shown[:most])
    more = [f"({left:,} more rows are in the JSON.)"] if left else []
    return [f"*{_escape(table.title)}*", "\n".join(lines), *more, *([_escape(table.note)] if table.note else [])]


def _join_cells(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Escape a text so that Markdown shows it as it is, on one line."""
    words = _MARKS.sub(r"\\\1", one_line(text).strip()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LIST.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", _LINKS.sub("<!-- -->", words))
