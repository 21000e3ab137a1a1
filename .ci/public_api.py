"""Everything public, a line each: names, signatures, members of classes, rows of tables, commands with their options.

``python .ci/public_api.py --write`` sets tests/architecture/public_api.txt anew. A line that goes or changes there may
break somebody's program: it is a decision, and CHANGELOG.md says so. Types are left out:
tests/architecture/typed_user.py checks them from outside.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import scoreprism
from scoreprism.cli import COMMANDS, main

KEPT = Path(__file__).parents[1] / "tests" / "architecture" / "public_api.txt"


def parameters(thing: Any, *, bound: bool = False) -> str:
    """Names, kinds and defaults of parameters; nothing where another library or Python defines them."""
    signature = inspect.signature(thing)
    plain = []
    for one in list(signature.parameters.values())[bound:]:
        if one.name.startswith("_"):  # what the library passes to itself
            continue
        default: Any = one.default
        if default is not inspect.Parameter.empty and callable(default) and hasattr(default, "__name__"):
            default = _Named(default.__name__)
        elif object.__repr__(default) == repr(default):
            default = _Named(f"{type(default).__name__}()")
        plain.append(one.replace(annotation=inspect.Parameter.empty, default=default))
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    if re.search(r" at 0x|\n", text):
        raise SystemExit(f"the default of a parameter cannot be written down: {thing} {text}")
    return text


class _Named:
    """A default that is written as its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def own_classes(kind: type) -> list[type]:
    """The class and those of its bases that belong to the library: members of others change with their versions."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "scoreprism"]


def members(kind: type, listed: set[int]) -> Iterator[str]:
    """Public methods, properties and attributes of a class; what it inherits from a public class is listed there."""
    found: dict[str, Any] = {}
    for base in reversed(own_classes(kind)):
        if base is kind or id(base) not in listed:
            found |= dict.fromkeys(inspect.get_annotations(base)) | vars(base)
    for name in sorted(found):
        if name.startswith("_") or name.endswith("_request"):  # scikit-learn writes those of metadata routing
            continue
        thing = found[name]
        if inspect.isfunction(thing):
            yield f".{name}{parameters(thing, bound=True)}"
        elif isinstance(thing, (classmethod, staticmethod)):
            what = "class" if isinstance(thing, classmethod) else "static"
            yield f".{name}{parameters(thing.__func__, bound=what == 'class')}  [{what} method]"
        elif isinstance(thing, (functools.singledispatchmethod, functools.partialmethod)):
            yield f".{name}(…)"
        else:
            yield f".{name}"


def describe(path: str, thing: Any, paths: Mapping[int, str]) -> Iterator[str]:
    """The lines of one public name."""
    if inspect.isclass(thing):
        makes = any({"__init__", "__new__"} & vars(base).keys() for base in own_classes(thing))
        bases = [paths[id(base)] for base in own_classes(thing)[1:] if id(base) in paths]
        yield f"class {path}{parameters(thing) if makes else ''}{' : ' * bool(bases)}{', '.join(bases)}"
        yield from (f"    {line}" for line in members(thing, set(paths)))
    elif callable(thing):
        yield f"{path}{parameters(thing)}"
    elif isinstance(thing, Mapping):
        yield f"table {path}: {', '.join(map(str, thing))}"
    else:
        yield path


def commands() -> Iterator[str]:
    """The command line: arguments and options of each command."""
    for name in ("", *COMMANDS):
        command = main.get_command(click.Context(main), name) or main
        words = [param.human_readable_name.upper() for param in command.params if isinstance(param, click.Argument)]
        words += ["/".join([*one.opts, *one.secondary_opts]) for one in command.params if isinstance(one, click.Option)]
        yield " ".join(["$ scoreprism", *([name] if name else []), *words])


def survey() -> list[str]:
    """All lines: the top level, the packages, the commands; a name of two paths is described where a package has it."""
    homes = {f"scoreprism.{name}": importlib.import_module(f"scoreprism.{name}") for name in scoreprism.PUBLIC_PACKAGES}
    things = {
        f"{home}.{name}": getattr(homes[home], name) for home in sorted(homes) for name in sorted(homes[home].__all__)
    }
    top = {f"scoreprism.{name}": getattr(scoreprism, name) for name in sorted(scoreprism.__all__)}
    paths: dict[int, str] = {}
    for path, thing in things.items():
        paths.setdefault(id(thing), path)
    lines: list[str] = []
    for path, thing in (top | things).items():
        home = paths.get(id(thing), path)
        lines += [f"{path} = {home}"] if home != path else describe(path, thing, paths)
    return [*lines, *commands()]


if __name__ == "__main__":
    text = "\n".join(survey()) + "\n"
    if "--write" in sys.argv[1:]:
        KEPT.write_text(text, encoding="utf-8", newline="\n")
    else:
        sys.stdout.buffer.write(text.encode())
