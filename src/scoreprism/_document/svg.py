"""Figures as parts of a page: drawn by matplotlib, coloured by the page's style sheet, described for screen readers."""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from scoreprism._document.colours import INKS, LINES_OF, OTHERS, PALETTES, TERMS, house_style
from scoreprism._document.model import Figure
from scoreprism._findings.wording import visible

#: Pixels of the page to a point of a figure, where there is room: letters of 8 points are then 13 pixels.
SCALE = 1.65
#: Widest figure, in inches, that is still legible when it is squeezed into a phone; wider ones are scrolled.
NARROW = 6
#: Widest figure that the style sheet knows a least width of.
WIDEST = 16

#: Properties that are written as attributes: inline styles would need a content policy that lets any style in.
_PROPERTIES = frozenset(
    {"fill", "fill-opacity", "fill-rule", "font-size", "font-style", "font-weight", "opacity", "stroke", "text-anchor"}
    | {"stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit"}
    | {"stroke-opacity", "stroke-width"}
)
_FONT = re.compile(r"(?:(italic|oblique)\s+)?(?:(bold|\d{3})\s+)?([\d.]+px)")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


# ── colours ─────────────────────────────────────────────────────────────────────────────────────────


@cache
def partners() -> dict[str, str]:
    """What each colour of the house style is on dark paper."""
    pairs = list(zip(INKS["light"][:3], INKS["dark"][:3], strict=True))
    pairs.append(("#000000", INKS["dark"][0]))
    pairs += zip(PALETTES["light"], PALETTES["dark"], strict=True)
    pairs += [*TERMS.values(), *OTHERS]
    pairs += [(LINES_OF.get(a, a), LINES_OF.get(b, b)) for a, b in TERMS.values()]
    found: dict[str, str] = {}
    for a, b in pairs:
        found.setdefault(a.lower(), b.lower())
    return found


def colour_rules() -> str:
    """The style sheet of figures: a variable for each colour, light and dark, and classes that use it."""
    pairs = partners()
    light = "".join(f"--c-{a[1:]}:{a};" for a in pairs)
    dark = "".join(f"--c-{a[1:]}:{b};" for a, b in pairs.items())
    lines = [
        f":root{{{light}--c-ffffff:var(--paper)}}",
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}",
    ]
    for colour in (*pairs, "#ffffff"):
        name = colour[1:]
        lines.append(f".f-{name}{{fill:var(--c-{name})}}.s-{name}{{stroke:var(--c-{name})}}")
    lines += [f".plot.w{inches}{{min-width:{inches * 68}px}}" for inches in range(NARROW + 1, WIDEST + 1)]
    return "\n".join(lines) + "\n"


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def drawing() -> Iterator[None]:
    """Draw for a page, whatever style and backend the user has; figures of pyplot that appear inside are closed."""
    from matplotlib import rc_context, style

    strict: Any = {"svg.fonttype": "none", "svg.hashsalt": "scoreprism", "text.parse_math": False, "interactive": False}
    before = set(_open_figures())
    with warnings.catch_warnings(), style.context("default"), house_style(), rc_context(strict):
        # Letters that matplotlib has no shape for are drawn by the browser, which has.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        # A name may leave no room for its axes; that shows in the picture, and its numbers are below it.
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
        try:
            yield
        finally:
            for number in set(_open_figures()) - before:
                sys.modules["matplotlib.pyplot"].close(number)


def _open_figures() -> list[int]:
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    return [] if pyplot is None else list(pyplot.get_fignums())


def picture(figure: Figure, key: str) -> str:
    """A figure of a report, drawn and ready for a page."""
    with drawing():
        return inline_svg(figure.draw(), key=key, title=figure.title, description=figure.description)


def inline_svg(figure: Any, *, key: str, title: str, description: str) -> str:
    """A matplotlib figure as an ``svg`` element that is coloured by the page."""
    sheet = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    plain = {"facecolor": "none", "edgecolor": "none", "metadata": nothing}
    figure.savefig(sheet, format="svg", bbox_inches=_find_inked_part(figure), **plain)
    # Names may hold characters that XML forbids.
    root = ET.fromstring(visible(sheet.getvalue()))  # noqa: S314 - matplotlib has just written it
    return _Rewriter(root, key).page(title, description)


def _find_inked_part(figure: Any) -> Any:
    """
    The part of a figure that holds anything, and not much beyond the figure: names may be of any length.

    Square axes leave margins, which would push them off the left edge of the text.
    """
    from matplotlib.transforms import Bbox

    square = any(axes.get_aspect() != "auto" or axes.get_box_aspect() is not None for axes in figure.axes)
    for _ in range(1 + square):  # the layout decides where things are; of square axes it knows the size the second time
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    drawn, margin = figure.get_tightbbox(), 0.07
    most = 0.25  # inches that words may reach beyond the figure
    low, high = np.maximum(drawn.min, -most), np.minimum(drawn.max, figure.get_size_inches() + most)
    return Bbox([low - margin, high + margin])


class _Rewriter:
    """Rewrites a file of matplotlib's as a part of a page."""

    def __init__(self, root: ET.Element, key: str) -> None:
        self.root, self.key = root, key
        found = [value for element in root.iter() for value in element.attrib.values()]
        used = [value[1:] for value in found if value.startswith("#")]
        used += [name for value in found for name in _REFERENCE.findall(value)]
        self.ids = {name: f"{key}-{i}" for i, name in enumerate(dict.fromkeys(used))}

    def page(self, title: str, description: str) -> str:
        """The element as text, with a title and a description."""
        box = _round(self.root.attrib["viewBox"])
        width, height = (float(number) for number in box.split()[2:])
        inches = min(-(-width // 72), WIDEST)
        look = {"class": f"plot w{inches:.0f}" if inches > NARROW else "plot", "viewBox": box}
        look |= {"width": f"{SCALE * width:.0f}", "height": f"{SCALE * height:.0f}", "role": "img"}
        look["preserveAspectRatio"] = "xMinYMin"
        look |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}
        words = {"title": title, "desc": description}
        svg = ET.Element("svg", look | {"aria-labelledby": " ".join(f"{self.key}-{tag}" for tag in words)})
        for tag, text in words.items():
            ET.SubElement(svg, tag, {"id": f"{self.key}-{tag}"}).text = visible(text)
        for child in self.root:
            svg.extend(self.part(child))
        return ET.tostring(svg, encoding="unicode")

    def part(self, element: ET.Element) -> list[ET.Element]:
        """An element for the page: none, itself, or the children of a group without attributes."""
        tag = _strip_namespace(element.tag)
        if tag in {"metadata", "style"}:
            return []
        new = ET.Element(tag, self.attributes(element))
        new.text = element.text if tag in {"text", "tspan"} else None
        for child in element:
            parts = self.part(child)
            if tag in {"text", "tspan"} and parts:
                parts[-1].tail = child.tail
            new.extend(parts)
        if tag in {"g", "defs"} and not len(new):
            return []
        return list(new) if tag == "g" and not new.attrib else [new]

    def attributes(self, element: ET.Element) -> dict[str, str]:
        """Attributes of an element: styles apart, ids that nothing points to left out, colours as classes."""
        found: dict[str, str] = {}
        for name, value in element.attrib.items():
            local = _strip_namespace(name)
            if local == "style":
                found |= _read_style(value)
            elif local == "id":
                found |= {"id": self.ids[value]} if value in self.ids else {}
            elif local == "href" and value.startswith("#"):
                found["href"] = f"#{self.ids[value[1:]]}"
            elif not (local == "transform" and value.startswith("rotate(-0 ")):
                found[local] = _round(value) if local in {"d", "x", "y", "width", "height"} else value
        found = {name: self.pointing(value) for name, value in found.items()}
        classes = [f"{name[0]}-{found.pop(name)[1:]}" for name in ("fill", "stroke") if _is_themed(found.get(name, ""))]
        return found | ({"class": " ".join(classes)} if classes else {})

    def pointing(self, value: str) -> str:
        """References to ids of the figure, under their names in the page."""
        return _REFERENCE.sub(lambda found: f"url(#{self.ids[found[1]]})", value)


def _strip_namespace(name: str) -> str:
    return name.rpartition("}")[2]


def _is_themed(colour: str) -> bool:
    return colour == "#ffffff" or colour in partners()


def _read_style(style: str) -> dict[str, str]:
    """The properties of a style attribute."""
    found: dict[str, str] = {}
    for part in style.split(";"):
        name, _, value = (word.strip() for word in part.partition(":"))
        if name == "font" and (font := _FONT.match(value)):  # how matplotlib before 3.11 writes it
            names = zip(("font-style", "font-weight", "font-size"), font.groups(), strict=True)
            found |= {key: word for key, word in names if word}
        elif name in _PROPERTIES:
            found[name] = "#000000" if name == "fill" and value == "black" else value
    return {
        name: value.lower() if name in {"fill", "stroke"} and value[0] == "#" else value
        for name, value in found.items()
    }


def _round(numbers: str) -> str:
    """Coordinates to a hundredth of a point, on one line."""
    short = _DECIMALS.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), numbers)
    return " ".join(short.split())
