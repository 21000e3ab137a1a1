"""The API reference: a page for each package and each public name, written from `__all__`, and links to them.

A word in single backticks, in a docstring, links to the name it is; if it is no public name, it is shown as code.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.roles import XRefRole
from sphinx.util.nodes import make_refnode

import scoreprism

#: Where the pages are, below the folder of sources.
PLACE = "api/generated"
PACKAGES = tuple(dict.fromkeys((*scoreprism.PUBLIC_PACKAGES, "monitoring")))
#: Whose members are left out of the pages of classes that inherit them.
FOREIGN = (
    "object", "float", "dict", "tuple", "Exception", "BaseException", "Warning", "UserWarning", "ValueError",
    "RuntimeError", "Mapping", "Generic", "ABC", "BaseEstimator", "ClassifierMixin", "TransformerMixin",
    "MetaEstimatorMixin", "ReprHTMLMixin", "_HTMLDocumentationLinkMixin", "_MetadataRequester", "ImportError",
    "NamedTuple",
)  # fmt: skip
#: Classes whose names are everyday words: types in docstrings do not link to them.
EVERYDAY = frozenset(("Column", "Figure", "Origin", "Paragraph", "Range", "Section", "Table", "Document", "Summary"))


def find_names() -> dict[str, Any]:
    """Every public name by its canonical path: that of the top where it is there, else that of its package."""
    found = {f"scoreprism.{name}": getattr(scoreprism, name) for name in scoreprism.__all__ if name != "__version__"}
    for package in PACKAGES:
        module = importlib.import_module(f"scoreprism.{package}")
        for name in module.__all__:
            top = f"scoreprism.{name}"
            if top not in found or found[top] is not getattr(module, name):
                found[f"scoreprism.{package}.{name}"] = getattr(module, name)
    return found


def _path_of(package: str, name: str, names: dict[str, Any]) -> str:
    inside = f"scoreprism.{package}.{name}"
    return inside if inside in names else f"scoreprism.{name}"


def _kind(thing: Any) -> str:
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if inspect.isroutine(thing) else "data"


def _comment(path: str) -> str:
    """The comment (``#:``) above a table, wherever in the package it is made."""
    name = path.rpartition(".")[2]
    for module in _modules():
        found = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
        if found and getattr(importlib.import_module(module), name, None) is _resolve(path):
            return " ".join(line for line in found if line).strip()
    raise LookupError(f"{path} has no comment that begins with #:")


def _modules() -> list[str]:
    root = Path(inspect.getfile(scoreprism)).parent
    every = (path.relative_to(root.parent).with_suffix("") for path in sorted(root.rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in every if path.name != "__main__.py"]


def _resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _write_page(path: str, thing: Any) -> str:
    """The page of a name."""
    kind = _kind(thing)
    if kind == "data":
        return _title(path) + _write_table(path, thing)
    text = _title(path) + f".. auto{kind}:: {path}\n"
    if kind == "class":
        text += f"   :members:\n   :inherited-members: {', '.join(FOREIGN)}\n"
    return text + f"\n.. minigallery:: {path}\n   :add-heading: Examples in the gallery\n   :heading-level: -\n"


def _write_table(path: str, table: Any) -> str:
    """The page of a table: what its comment says, and its rows."""
    text = f".. py:data:: {path}\n\n   {_comment(path)}\n\n"
    rows = list(table.items()) if isinstance(table, dict) else [(key, None) for key in table]
    for key, row in rows:
        text += f"   - ``{key!r}``{_describe_row(row)}\n"
    return text


def _describe_row(row: Any) -> str:
    """What a row of a table is: a public name, or the words that say it."""
    if row is None:
        return ""
    name = getattr(row, "__name__", None) or getattr(getattr(row, "func", None), "__name__", None)
    for path, thing in find_names().items():
        if thing is row or (name and path.endswith(f".{name}") and _kind(thing) == "function"):
            return f": :py:obj:`~{path}`"
    about = row if isinstance(row, str) else getattr(row, "about", None)
    return f": {about}" if about else ""


def _write_package(package: str, names: dict[str, Any]) -> str:
    """The page of a package, or of the top: what it is for, and what is in it."""
    path = f"scoreprism.{package}".rstrip(".")
    module = importlib.import_module(path)
    members = [_path_of(package, name, names) for name in module.__all__ if name != "__version__"]
    text = _title(path) + f".. py:module:: {path}\n\n.. py:currentmodule:: None\n\n{inspect.getdoc(module)}\n\n"
    return text + _write_lists({member: names[member] for member in members})


def _write_contents(paths: list[str]) -> str:
    """Links from a page to those below it, for the navigation."""
    lines = "".join(f"   {path.rpartition('.')[2]} <{path}>\n" for path in paths)
    return f".. toctree::\n   :hidden:\n\n{lines}"


def _write_lists(members: dict[str, Any]) -> str:
    """Functions, classes and tables with what each is for."""
    text = ""
    for kind, heading in (("function", "Functions"), ("class", "Classes"), ("exception", "Exceptions and warnings")):
        of_kind = [path for path, thing in members.items() if _kind(thing) == kind]
        if of_kind:
            text += _title(heading, "-") + ".. autosummary::\n   :nosignatures:\n\n"
            text += "".join(f"   ~{path}\n" for path in of_kind) + "\n"
    tables = [path for path, thing in members.items() if _kind(thing) == "data"]
    if tables:
        text += _title("Tables", "-") + ".. list-table::\n   :widths: 30 70\n   :class: autosummary longtable\n\n"
        text += "".join(f"   * - :py:obj:`~{path}`\n     - {_comment(path)}\n" for path in tables) + "\n"
    return text


def write_pages(app: Sphinx) -> None:
    """Write all pages, and remove those of names that are gone; a page that has not changed is left alone."""
    names = find_names()
    folder = Path(app.srcdir, PLACE)
    folder.mkdir(parents=True, exist_ok=True)
    pages = {path: _write_page(path, thing) for path, thing in names.items()}
    pages["top"] = _write_package("", names) + _write_contents([path for path in names if path.count(".") == 1])
    for package in PACKAGES:
        own = [path for path in names if path.startswith(f"scoreprism.{package}.")]
        pages[f"scoreprism.{package}"] = _write_package(package, names) + _write_contents(own)
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()


# ── links ───────────────────────────────────────────────────────────────────────────────────────────


class NameRole(XRefRole):
    """A word in single backticks."""

    def process_link(self, env: BuildEnvironment, refnode: Any, *text: Any) -> tuple[str, str]:
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        refnode["may_be_code"] = True
        _, title, target = text
        return title, target


def resolve_name(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Where a short name leads to that Sphinx could not place: a public name, a member of one, or a page."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].strip()
    page = re.fullmatch(r"docs/(\w+)\.md", target)
    if page and page[1] in env.all_docs:
        return make_refnode(app.builder, node["refdoc"], page[1], None, content)
    objects = env.domains.python_domain.objects
    for path in _candidates(target, node):
        if path in objects:
            found = objects[path]
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content, path)
    return content if node.get("may_be_code") else None


def _candidates(target: str, node: addnodes.pending_xref) -> list[str]:
    """Full paths that a short name may stand for."""
    short = target.removeprefix("scoreprism.").removesuffix("()")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", short):
        return []
    here = [f"{node['py:module']}.{short}"] if node.get("py:module") else []
    own = [f"{node['py:class']}.{short}"] if node.get("py:class") else []
    packages = [f"scoreprism.{package}.{short}" for package in PACKAGES]
    among = [path for path in packages if path in _PATHS or path.rpartition(".")[0] in _PATHS]
    return [*own, *here, f"scoreprism.{short}", *(among if len(among) == 1 else [])]


_PATHS = frozenset(find_names())


def find_types() -> dict[str, str]:
    """Words of types in docstrings that link to a page."""
    classes = {path: thing for path, thing in find_names().items() if _kind(thing) == "class"}
    return {path.rpartition(".")[2]: path for path in classes if path.rpartition(".")[2] not in EVERYDAY}


def link_first_mentions(app: Sphinx, document: nodes.document) -> None:
    """In a page of prose, link the first mention of a public name that is no everyday word."""
    page = app.env.docname
    if page.startswith(("api/", "auto_")):
        return
    short = {path.rpartition(".")[2]: path for path in _PATHS}
    left = {name: path for name, path in short.items() if re.search(r"[A-Z]\w{3}|_", name) and name not in EVERYDAY}
    left |= {path.removeprefix("scoreprism."): path for path in _PATHS if path.count(".") == 2}
    taken = (nodes.reference, nodes.title, addnodes.pending_xref)
    inside = {word for kind in taken for other in document.findall(kind) for word in other.findall(nodes.literal)}
    for word in list(document.findall(nodes.literal)):
        path = left.pop(word.astext().removesuffix("()"), None)
        if path and word not in inside:
            where = {"refdomain": "py", "reftype": "obj", "reftarget": path, "refdoc": page}
            link = addnodes.pending_xref("", **where, refexplicit=True)
            word.replace_self(link)
            link += word


def leave_out(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn writes into each class for its metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Entered by conf.py; `default_role = "name"` makes single backticks link."""
    app.add_role("name", NameRole(innernodeclass=nodes.literal))
    app.add_role_to_domain("py", "name", NameRole(innernodeclass=nodes.literal))
    app.connect("builder-inited", write_pages)
    app.connect("doctree-read", link_first_mentions)
    app.connect("missing-reference", resolve_name)
    app.connect("autodoc-skip-member", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
