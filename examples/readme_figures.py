"""Draw the figures of the README: run its first example, and save the displays that it makes."""

from __future__ import annotations

import doctest
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "figures"


def first_example(text):
    """The statements of the first block of Python in a Markdown file."""
    block = text.split("```python\n", 1)[1].split("```", 1)[0]
    return [example.source for example in doctest.DocTestParser().get_examples(block)]


def main():
    names = {}
    for source in first_example((ROOT / "README.md").read_text(encoding="utf-8")):
        exec(source, names)  # noqa: S102 - our own README
    for name in ("waterfall", "murphy"):
        names[name].figure_.savefig(OUT / f"readme_{name}.png", dpi=160)
        print("drew", f"docs/figures/readme_{name}.png")


if __name__ == "__main__":
    main()
