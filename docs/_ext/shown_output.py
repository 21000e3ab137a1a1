"""The directive `run`: a block of a page that the build runs, and shows with what it really prints and draws.

`{run} shell` runs each line that begins with ``$``, `{run} python` runs its code; all blocks of a page share one
folder and one namespace. A block that fails ends the build.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: Folders and namespaces of the pages of this build.
_PAGES: dict[str, tuple[tempfile.TemporaryDirectory[str], dict[str, Any]]] = {}
#: Where figures are kept for the pages that show them, below the folder of sources; and files that pages link to.
MADE = "_made"


def _open_page(name: str) -> tuple[Path, dict[str, Any]]:
    """The folder and the namespace of a page, made with its first block."""
    if name not in _PAGES:
        _PAGES[name] = tempfile.TemporaryDirectory(prefix="page-"), {"__name__": "__main__"}
        commands = Path(_PAGES[name][0].name) / ".commands"
        commands.mkdir()
        for command in ("scoreprism", "python"):
            module = " -m scoreprism" if command == "scoreprism" else ""
            script = commands / command
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
    return Path(_PAGES[name][0].name), _PAGES[name][1]


def _run_shell(line: str, folder: Path) -> tuple[str, int]:
    """What a command prints on both streams, and its exit status."""
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    path = f"{folder / '.commands'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S602 - our own pages
        line, shell=True, cwd=folder, env=os.environ | plain | {"PATH": path}, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done.stdout, done.returncode


def _run_python(code: str, folder: Path, names: dict[str, Any], where: str) -> str:
    """What code prints, and the value of its last expression, as in an interactive session."""
    tree = ast.parse(code, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")  # a page that warns its readers shows it, or is mended
        exec(compile(tree, where, "exec"), names)  # noqa: S102 - our own pages
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307 - our own pages
            if value is not None:
                print(value if isinstance(value, str) else repr(value))  # noqa: T201 - into the page
    return said.getvalue()


class Run(SphinxDirective):
    """Run a block, and show it with its output."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {
        "head": directives.nonnegative_int,  # show the first lines of the output only
        "exit": directives.nonnegative_int,  # the exit status that is expected of the last command
        "figure": directives.unchanged,  # show the figure that is open afterwards; these words stand for it
        "hide": directives.flag,  # do not show the code
    }

    def run(self) -> list[nodes.Node]:
        kind, text = self.arguments[0], "\n".join(self.content)
        folder, names = _open_page(self.env.docname)
        try:
            if kind == "shell":
                return self._show_shell(text, folder)
            return self._show_python(text, folder, names)
        except Exception:  # noqa: BLE001 - whatever it is, it belongs in the log of the build, beside its place
            problem = "" if kind == "shell" else traceback.format_exc()
            raise self.severe(f"this block does not run:\n{text}\n{problem or sys.exc_info()[1]}") from None

    def _show_shell(self, text: str, folder: Path) -> list[nodes.Node]:
        shown = []
        lines = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        for place, line in enumerate(lines, 1):
            said, status = _run_shell(line.strip(), folder)
            if status != (self.options.get("exit", 0) if place == len(lines) else 0):
                raise RuntimeError(f"exit status {status}:\n{said}")
            shown.append(f"$ {line.strip()}\n{self._cut(said)}")
        return [_show_code("".join(shown).rstrip(), "console")]

    def _show_python(self, text: str, folder: Path, names: dict[str, Any]) -> list[nodes.Node]:
        import matplotlib as mpl

        mpl.use("agg")
        said = _run_python(text, folder, names, self.env.docname)
        found = [] if "hide" in self.options else [_show_code(text, "python")]
        if said:
            found.append(_show_code(self._cut(said).rstrip(), "text", "shown-output"))
        if "figure" in self.options:
            found += self._show_figure()
        return found

    def _cut(self, said: str) -> str:
        head, lines = self.options.get("head"), said.splitlines(keepends=True)
        if head is None or len(lines) <= head:
            return said
        return "".join(lines[:head]) + f"… {len(lines) - head} more lines\n"

    def _show_figure(self) -> list[nodes.Node]:
        import matplotlib.pyplot as plt
        from two_papers import save_both

        target = Path(self.env.srcdir, MADE)
        target.mkdir(exist_ok=True)
        name = f"{self.env.docname.replace('/', '-')}-{self.env.new_serialno('shown-figure')}.svg"
        width = f"{125 * plt.gcf().get_figwidth():.0f}px"  # words of all figures are as large as those of the page
        with mpl_ids(name):
            pair = save_both(plt.gcf(), target / name)
        plt.close("all")
        return [
            nodes.image(uri=f"{MADE}/{path.name}" if "/" not in self.env.docname else f"/{MADE}/{path.name}",
                        alt=self.options["figure"], width=width, classes=[only, "shown-figure"])
            for path, only in zip(pair, ("only-light", "only-dark"), strict=True)
        ]  # fmt: skip


def mpl_ids(name: str) -> Any:
    """The same names inside a picture in every build, and no date."""
    import matplotlib as mpl

    return mpl.rc_context({"svg.hashsalt": name})


def _show_code(text: str, language: str, *classes: str) -> nodes.literal_block:
    block = nodes.literal_block(text, text, language=language, classes=list(classes))
    block["force"] = language == "text"
    return block


class Made(SphinxDirective):
    """Link to a file that the blocks of this page have made: `{made} report.html` with the words of the link."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        folder, _ = _open_page(self.env.docname)
        place = Path(MADE, self.env.docname)
        target = Path(self.env.app.outdir, place)
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / self.arguments[0], target)
        up = "../" * self.env.docname.count("/")
        words = " ".join(self.content)
        link = nodes.reference(words, words, refuri=f"{up}{place.as_posix()}/{self.arguments[0]}", internal=True)
        return [nodes.paragraph("", "", link)]


def _close(app: Sphinx, exception: Exception | None) -> None:
    while _PAGES:
        _PAGES.popitem()[1][0].cleanup()


def setup(app: Sphinx) -> dict[str, bool]:
    """Entered by conf.py."""
    app.add_directive("run", Run)
    app.add_directive("made", Made)
    app.connect("build-finished", _close)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
