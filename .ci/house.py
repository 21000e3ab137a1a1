"""How big the house is, how its rooms are joined, and how far a call walks through it.

``python .ci/house.py [--walks]`` prints the facts. The numbers are signs, not aims: a file cut in two to pass one is
worse than a long file. Sizes and walks may grow with what the library can do. How its parts are joined may only get
better: tests/architecture/test_house.py compares that with .ci/house.json, which ``--write`` sets anew.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[1]
ROOT = PROJECT / "src" / "scoreprism"
KEPT = Path(__file__).with_name("house.json")
#: Facts that only fall: what they count makes a library harder to read or to change, however much it can do.
JOINTS = (
    "doors", "cycles", "file names used twice", "class names used twice", "private names in tests", "sniffed sentences",
    "ignores",
)  # fmt: skip
Facts = dict[str, int]


class Module(NamedTuple):
    """A file of the library."""

    name: str
    text: str
    tree: ast.Module
    nodes: list[ast.AST]  # all of the tree, which is long to walk
    package: bool

    @property
    def room(self) -> str:
        """The package, or the top-level module, it belongs to."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "scoreprism"


def modules() -> dict[str, Module]:
    """All files, by dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        found[name] = Module(name, text, tree, list(ast.walk(tree)), path.name == "__init__.py")
    return found


# ── size ────────────────────────────────────────────────────────────────────────────────────────────


def _docstring(node: ast.AST) -> range:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def code_lines(module: Module) -> int:
    """Lines that hold code, docstrings and comments apart."""
    described = {line for node in module.nodes for line in _docstring(node)}
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in layout:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - described)


# ── joints ──────────────────────────────────────────────────────────────────────────────────────────


def imports(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, ast.AST]]:
    """Modules of the library that this one imports, function-level imports included."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                inside = module.name.split(".") if module.package else module.name.split(".")[:-1]
                kept = inside[: len(inside) - node.level + 1]
                base = ".".join([*kept, base] if base else kept)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield (full if full in known else base), node
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)


def _only_for_types(tree: ast.Module) -> set[ast.AST]:
    """Imports under ``if TYPE_CHECKING``, which join nothing when the program runs."""
    guarded = [top for top in tree.body if isinstance(top, ast.If) and "TYPE_CHECKING" in ast.dump(top.test)]
    return {node for top in guarded for node in ast.walk(top)}


def joints(known: dict[str, Module]) -> tuple[Counter[str], dict[str, set[str]]]:
    """Private modules that another room imports, and who imports whom."""
    doors: Counter[str] = Counter()
    edges: dict[str, set[str]] = {name: set() for name in known}
    for module in known.values():
        typing = _only_for_types(module.tree)
        for target, node in imports(module, known):
            if target in known and target != module.name and node not in typing:
                edges[module.name].add(target)
            parts = target.split(".")
            if parts[0] == "scoreprism" and len(parts) > 2 and parts[2].startswith("_") and parts[1] != module.room:
                doors[".".join(parts[1:3])] += isinstance(node, ast.ImportFrom)
    return doors, edges


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other in a circle: strongly connected components (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10_000)
    for name in edges:
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def _sniffed(module: Module) -> int:
    """Places that tell a sentence by its beginning, its end or a part of it."""
    found = 0
    for node in module.nodes:
        name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in ("startswith", "endswith", "partition") and node.args:
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else ""
            found += isinstance(text, str) and (" " in text.strip() or text == " → ")
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            found += isinstance(node.left, ast.Constant) and getattr(node.comparators[0], "id", "") == "note"
    return found


def private_names_in_tests() -> int:
    """Names of private modules that tests import."""
    texts = [path.read_text(encoding="utf-8") for path in (PROJECT / "tests").rglob("*.py")]
    private = re.compile(r"scoreprism(\.\w+)*\._\w")
    return sum(
        len(node.names)
        for text in texts
        if private.search(text)  # most files import none, and need not be parsed
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and private.match(node.module or "")
    )


def survey() -> Facts:
    """The facts that need no call."""
    known = modules()
    doors, edges = joints(known)
    files = Counter(name.rpartition(".")[2] for name, module in known.items() if not module.package)
    classes = Counter(node.name for module in known.values() for node in module.nodes if isinstance(node, ast.ClassDef))
    return {
        "files": len(known),
        "lines": sum(module.text.count("\n") for module in known.values()),
        "code": sum(code_lines(module) for module in known.values()),
        "doors": sum(doors.values()),
        "cycles": len(cycles(edges)),
        "file names used twice": sum(count > 1 for count in files.values()),
        "class names used twice": sum(count > 1 for count in classes.values()),
        "private names in tests": private_names_in_tests(),
        "sniffed sentences": sum(_sniffed(module) for module in known.values()),
        "ignores": sum(module.text.count("# type: ignore") + module.text.count("# noqa") for module in known.values()),
    }


# ── walks ───────────────────────────────────────────────────────────────────────────────────────────


def walk(call: Callable[[], Any]) -> Facts:
    """Functions and files of the library that a call passes through, and how often it parses; caches are warm."""
    home = str(ROOT)
    files: set[str] = set()
    functions: set[tuple[str, str]] = set()
    parses = 0

    def see(frame: Any, event: str, _: Any) -> None:
        nonlocal parses
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(home) and not code.co_name.startswith("<"):
            files.add(code.co_filename)
            functions.add((code.co_filename, code.co_qualname))
            parses += code.co_name.lstrip("_").startswith(("parse", "require", "check"))

    call()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"functions": len(functions), "files": len(files), "parses": parses}


def walks() -> Facts:
    """The main calls, on 400 rows."""
    os.environ.setdefault("MPLBACKEND", "agg")
    import numpy as np
    import polars as pl

    import scoreprism
    from scoreprism.cli import main

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    p = 1 / (1 + np.exp(-1.5 * X[:, 0]))
    y = (rng.random(400) < 1 / (1 + np.exp(-X.sum(1)))).astype(int)
    d = scoreprism.decompose(y, p, X, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        pl.DataFrame({"y": y, "p": p, "a": X[:, 0], "b": X[:, 1]}).write_parquet(f"{folder}/a.parquet")
        command = f"report {folder}/a.parquet --target y --score p --features a,b -o {folder}/r.html --force -q"

        def report() -> None:
            quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
            with quiet[0], quiet[1], contextlib.suppress(SystemExit):
                main(command.split())

        calls: dict[str, Callable[[], Any]] = {
            "decompose": lambda: scoreprism.decompose(y, p, X, random_state=0),
            "summary": lambda: repr(d.summary()),
            "report": report,
        }
        return {f"{name}: {key}": value for name, call in calls.items() for key, value in walk(call).items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python .ci/house.py")
    parser.add_argument("--walks", action="store_true", help="also walk through the main calls")
    parser.add_argument("--write", action="store_true", help="keep what was found in .ci/house.json")
    options = parser.parse_args(arguments)
    facts = survey()
    if options.write:
        KEPT.write_text(json.dumps({name: facts[name] for name in JOINTS}, indent=1) + "\n", encoding="utf-8")
    facts |= walks() if options.walks else {}
    print("\n".join(f"{value:7}  {name}" for name, value in facts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
