"""Figures on light and on dark paper: the same figure saved twice, the second time in the colours of dark pages."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import AbstractPathEffect
from matplotlib.text import Text
from PIL import Image

from scoreprism._document.colours import INKS, LINES_OF, OTHERS, PALETTES, TERMS

#: The background of a dark page of the theme.
PAPER = "#14181e"
#: Pixels per inch of a picture, and of the one for fine screens.
DPI = 100


def _read_house() -> dict[str, str]:
    """The library's colours on dark paper, by those on light paper."""
    known = dict(zip(PALETTES["light"], PALETTES["dark"], strict=True)) | dict((*TERMS.values(), *OTHERS))
    known |= {LINES_OF[light]: LINES_OF.get(dark, dark) for light, dark in TERMS.values() if light in LINES_OF}
    known |= dict(zip(INKS["light"], INKS["dark"], strict=True)) | {"#ffffff": PAPER}
    return {light.lower(): dark for light, dark in known.items()}


HOUSE = _read_house()


def darken(colour: Any) -> tuple[float, float, float, float]:
    """A colour for dark paper: the library's own, greys inverted, other colours light enough to be seen."""
    *rgb, alpha = to_rgba(colour)
    house = HOUSE.get(to_hex(rgb))
    if house:
        return to_rgba(house, alpha)
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb)
    inverted = max(rgb) - min(rgb) < 0.08 or lightness > 0.85  # a grey, or a tint, which fills
    lightness = 0.93 - 0.84 * lightness if inverted else max(lightness, 0.55)
    return (*colorsys.hls_to_rgb(hue, lightness, saturation), alpha)


def _change(read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
    """One colour of an artist, unless it has none or takes it from elsewhere ("auto", "inherit")."""
    colour = read()
    if colour is not None and not (isinstance(colour, str) and colour in {"none", "auto", "inherit"}):
        write(darken(colour))


def _change_all(read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
    """The colours of many marks that one artist draws."""
    colours = to_rgba_array(read())
    if colours.size:
        write(np.array([darken(colour) for colour in colours]))


def _change_effects(effects: list[AbstractPathEffect]) -> None:
    for effect in effects:
        if foreground := getattr(effect, "_gc", {}).get("foreground"):
            effect._gc["foreground"] = darken(foreground)  # matplotlib has no other way in


def put_on_dark_paper(figure: Figure) -> None:
    """Change the colours of all artists of a figure, in place; colours that stand for values stay as they are."""
    figure.canvas.draw()  # ticks and legends are made when drawn
    done: set[int] = set()
    for artist in figure.findobj():
        if isinstance(artist, Text):
            _change(artist.get_color, artist.set_color)
        elif isinstance(artist, Line2D):
            marks = artist.get_markerfacecolor(), artist.get_markeredgecolor()
            _change(artist.get_color, artist.set_color)
            _change(lambda own=marks[0]: own, artist.set_markerfacecolor)
            _change(lambda own=marks[1]: own, artist.set_markeredgecolor)
        elif isinstance(artist, Patch):
            fills, face, edge = artist.get_fill(), artist.get_facecolor(), artist.get_edgecolor()
            if fills and face[3]:
                artist.set_facecolor(darken(face))
            artist.set_edgecolor(darken(edge))
        elif isinstance(artist, Collection):
            edges = artist.get_edgecolor()
            if artist.get_array() is None:
                _change_all(artist.get_facecolor, artist.set_facecolor)
            if not isinstance(edges, str):
                _change_all(lambda own=edges: own, artist.set_edgecolor)
        effects = [one for one in artist.get_path_effects() or [] if id(one) not in done]
        done |= {id(one) for one in effects}
        _change_effects(effects)


def save_both(figure: Figure, path: Path, **options: Any) -> tuple[Path, Path]:
    """Save a figure on light paper at a path and on dark paper beside it; a figure that is dark stays so."""
    dark = path.with_stem(path.stem + "_dark")
    figure.savefig(path, facecolor=figure.get_facecolor(), **options)
    if sum(to_rgba(figure.get_facecolor())[:3]) > 1.5:
        put_on_dark_paper(figure)
    figure.savefig(dark, facecolor=figure.get_facecolor(), **options)
    return path, dark


#: sphinx-gallery keeps the first class only.
_PICTURE = """
.. image-sg:: /{path}
   :alt: {alt}
   :srcset: /{path}, /{fine} 2.00x
   :class: {only}
"""


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the open figures of an example for sphinx-gallery, each for light and for dark pages."""
    import matplotlib.pyplot as plt

    found = []
    for number, target in zip(plt.get_fignums(), block_vars["image_path_iterator"], strict=False):
        figure, path = plt.figure(number), Path(target)
        alt, pairs = _describe(figure) or path.stem.removeprefix("sphx_glr_plot_").replace("_", " "), []
        for fine in save_both(figure, path.with_stem(path.stem + "_2_00x"), dpi=2 * DPI):
            plain = fine.with_stem(fine.stem.replace("_2_00x", ""))
            with Image.open(fine) as picture:
                picture.reduce(2).save(plain)
            pairs.append((plain, fine))
        for (one, one_fine), only in zip(pairs, ("only-light", "only-dark"), strict=True):
            inside = [PurePosixPath(p.relative_to(gallery_conf["src_dir"])) for p in (one, one_fine)]
            found.append(_PICTURE.format(path=inside[0], fine=inside[1], alt=alt, only=only))
    plt.close("all")
    return "".join(found)


def _describe(figure: Figure) -> str:
    """The words that stand for a figure: its titles, else the labels of its axes."""
    titles = [figure.get_suptitle(), *(ax.get_title(where) for ax in figure.axes for where in ("left", "center"))]
    labels = [label for ax in figure.axes for label in (ax.get_xlabel(), ax.get_ylabel())]
    words = "; ".join(dict.fromkeys(filter(None, titles))) or "; ".join(dict.fromkeys(filter(None, labels)))
    return " ".join(words.split())
