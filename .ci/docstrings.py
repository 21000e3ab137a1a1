"""Validate the docstring of every public name with numpydoc, and see that each has an example."""

from __future__ import annotations

import importlib
import inspect
import sys

from numpydoc.validate import validate

import scoreprism

# A summary line may be a sentence about a thing, not a verb (SS05, SS06); extended summaries, "See Also" and
# sections that a short docstring does not need are left to judgement (ES01, SA01, GL01, RT02, PR06 …).
CHECKS = {
    "GL02",
    "GL03",
    "GL05",
    "GL07",
    "GL08",
    "SS01",
    "SS03",
    "SS04",
    "PR01",
    "PR02",
    "PR03",
    "PR04",
    "PR05",
    "PR07",
}
CHECKS |= {"PR10", "RT01", "RT03", "RT04", "YD01"}


def public_names() -> dict[str, object]:
    """Every name in the ``__all__`` of every public package and of the top, by the path people use."""
    names = {}
    for module in scoreprism.PUBLIC_PACKAGES:
        loaded = importlib.import_module(f"scoreprism.{module}")
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if (inspect.isclass(thing) and thing is not object) or inspect.isfunction(thing):
                names[f"scoreprism.{module}.{name}"] = thing
    top = {f"scoreprism.{name}": getattr(scoreprism, name) for name in scoreprism.__all__}
    known = list(names.values())
    return names | {name: thing for name, thing in top.items() if inspect.isfunction(thing) and thing not in known}


def members(path: str, thing: object) -> list[str]:
    """Public methods and properties that the class itself defines; the rest is documented where it is defined."""
    if not inspect.isclass(thing):
        return []
    return [f"{path}.{name}" for name in vars(thing) if not name.startswith("_") and callable(getattr(thing, name))]


def problems(path: str, thing: object) -> list[str]:
    """What numpydoc and the example rule say about one public name and its methods."""
    found = []
    if ">>>" not in (inspect.getdoc(thing) or ""):
        found.append(f"{path}: no example")
    inherited = inspect.isclass(thing) and thing.__doc__ is None
    for target in [] if inherited else [path, *members(path, thing)]:
        for code, text in validate(target)["errors"]:
            excused = code == "GL08" and target != path  # an override inherits the docstring of its base class
            excused |= code == "PR01" and target == path and _attributes_documented(thing)
            excused |= code == "PR01" and target == path and _inherits_making(thing)
            if code in CHECKS and not excused:
                found.append(f"{target}: {code} {text}")
    return found


def _attributes_documented(thing: object) -> bool:
    """A result that the library makes lists its fields as attributes, not as parameters."""
    own = getattr(thing, "__annotations__", {})
    fields = [name for name, kind in own.items() if not name.startswith("_") and "ClassVar" not in str(kind)]
    text = inspect.getdoc(thing) or ""
    return "Attributes\n---" in text and all(name in text for name in fields)


def _inherits_making(thing: object) -> bool:
    """An exception that is made as its base class is, which documents the parts."""
    return inspect.isclass(thing) and issubclass(thing, Exception) and "__init__" not in vars(thing)


if __name__ == "__main__":
    everything = [line for path, thing in public_names().items() for line in problems(path, thing)]
    print("\n".join(everything) or f"{len(public_names())} public names are documented")
    sys.exit(bool(everything))
