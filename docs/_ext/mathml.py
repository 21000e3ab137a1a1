"""Mathematics as MathML, which browsers draw themselves: no script, no font and no request. docutils translates it."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

_LOG = logging.getLogger(__name__)


def _translate(node: nodes.Element, *, block: bool) -> str:
    text = re.sub(r"\\dots\b", r"\\ldots", node.astext())  # the one common command that docutils does not know
    try:
        return tex2mathml(text, as_block=block)
    except MathError as error:
        _LOG.warning("docutils cannot read this TeX: %s (%s)", text, error, location=node)
        return html.escape(text)


def _visit_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_translate(node, block=False))
    raise nodes.SkipNode


def _visit_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})</span>')
    writer.body.append(_translate(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Entered by conf.py; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
