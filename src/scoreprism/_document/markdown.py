"""A document as Markdown of GitHub's flavour: words of the user's start no element, link or mention."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scoreprism._document.model import Block, Callout, Document, Paragraph, Section, Table
from scoreprism._findings.wording import one_line

#: What stands before a notice.
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
    parts = [f"# {escaped(document.title)}"] if document.title else []
    parts += [f"**{escaped(document.headline)}**"] if document.headline else []
    for section in document.sections:
        parts += _section(section, pictures or {}, numbers or {})
    hashed = f", SHA-256 `{document.origin.sha256}`" if re.fullmatch(r"[0-9a-f]+", document.origin.sha256) else ""
    made = f"scoreprism {escaped(document.versions.get('scoreprism', ''))}".strip()
    return "\n\n".join([*parts, "---", f"{made}; data: {escaped(document.origin.name)}{hashed}"]) + "\n"


def _section(section: Section, pictures: Mapping[str, str], numbers: Mapping[str, str]) -> list[str]:
    meaning = [escaped(section.meaning)] if section.meaning else []
    blocks = [part for block in section.blocks for part in _block(block, pictures, numbers)]
    return [*([f"## {escaped(section.title)}"] if section.title else []), *meaning, *blocks]


def _block(block: Block, pictures: Mapping[str, str], numbers: Mapping[str, str]) -> list[str]:
    if isinstance(block, Callout):
        return [f"> {WORDS[block.kind]} {escaped(block.text)}"]
    if isinstance(block, Paragraph):
        return [escaped(block.text)]
    if isinstance(block, Table):
        return table_lines(block)
    behind = _behind(block.data, numbers)
    if block.key not in pictures:
        return behind  # no caption of a figure that is not there
    words = _MARKS.sub(r"\\\1", one_line(block.title).strip())  # a comment would be read out in alternative text
    shown = f"![{words}]({pictures[block.key]})"
    return [f"**{escaped(block.title)}**", shown, escaped(block.description), *behind]


def _behind(data: Table | None, files: Mapping[str, str]) -> list[str]:
    """The numbers behind a figure: the file that has them, or the first of them."""
    if data is None or not data.rows:
        return []
    return [f"[The numbers]({files[data.key]})"] if data.key in files else table_lines(data, FEW)


def table_lines(table: Table, most: int | None = None) -> list[str]:
    """A caption, the table, and what stands below."""
    shown = table.shown()
    head = [escaped(column.title) or " " for column in table.columns]
    rule = ["---" if column.kind == "text" else "---:" for column in table.columns]
    lines = [_line(cells) for cells in (head, rule, *([escaped(cell) for cell in row] for row in shown[:most]))]
    left = len(shown) - len(shown[:most])
    more = [f"({left:,} more rows are in the JSON.)"] if left else []
    return [f"*{escaped(table.title)}*", "\n".join(lines), *more, *([escaped(table.note)] if table.note else [])]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    words = _MARKS.sub(r"\\\1", one_line(text).strip()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LIST.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", _LINKS.sub("<!-- -->", words))
