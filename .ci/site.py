"""Check a built site: every link inside it leads somewhere, and no page asks another host for anything.

``python .ci/site.py FOLDER`` prints what is wrong, and ends with 1 if anything is.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

#: Attributes that a browser follows by itself.
LOADED = {
    ("script", "src"), ("img", "src"), ("img", "srcset"), ("source", "srcset"), ("source", "src"), ("iframe", "src"),
    ("link", "href"), ("video", "src"), ("object", "data"), ("embed", "src"),
}  # fmt: skip
#: Relations of ``<link>`` that are only followed by people.
FOLLOWED = {"index", "search", "next", "prev", "canonical", "author", "copyright"}


class Page(HTMLParser):
    """Anchors, links and resources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors |= {of[name] for name in ("id", "name") if name in of}
        if tag == "a" and "href" in of:
            self.links.add(of["href"])
        for name, value in of.items():
            if (tag, name) in LOADED and of.get("rel") not in FOLLOWED:
                parts = value.split(",") if name == "srcset" else [value]
                self.loads |= {part.split()[0] for part in parts if part.strip()}


def find_problems(folder: Path) -> list[str]:
    """What is wrong with a site, a line each."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html")) if not {"_made", "_static"} & {*path.parts}}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder)
        found += [f"{name}: asks {load} of another host" for load in sorted(page.loads) if _is_elsewhere(load)]
        for link in sorted(page.links | page.loads):
            if not _is_elsewhere(link) and not urlsplit(link).scheme and not _leads(path, link, pages):
                found.append(f"{name}: {link} leads nowhere")
    for path in sorted(folder.rglob("*.css")):
        for target in re.findall(
            r"(?:url\(|@import\s)\s*(?:url\()?['\"]?([^'\")\s]+)", path.read_text(encoding="utf-8")
        ):
            if _is_elsewhere(target):
                found.append(f"{path.relative_to(folder)}: asks {target} of another host")
    return found


def _is_elsewhere(link: str) -> bool:
    return link.startswith("//") or urlsplit(link).scheme in ("http", "https")


def _leads(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Whether a link of a page leads to a file and, in a page, to an anchor."""
    place, anchor = urldefrag(link)
    target = (path.parent / unquote(urlsplit(place).path)).resolve() if place else path
    if target in pages and anchor and not place.endswith(".py"):
        return unquote(anchor) in pages[target].anchors
    return target.exists()


if __name__ == "__main__":
    problems = find_problems(Path(sys.argv[1]).resolve())
    print("\n".join(problems) or "every link leads somewhere, and nothing is asked of another host")
    sys.exit(bool(problems))
