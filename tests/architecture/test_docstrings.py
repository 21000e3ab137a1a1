"""What docstrings say of defaults is what signatures have."""

from __future__ import annotations

import importlib
import inspect
import re

import scoreprism

#: An entry of the section "Parameters": names, and the type with its default.
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.+)$", re.MULTILINE)


def public_callables():
    """Functions, classes and methods by the path people use; scikit-learn writes those of its metadata routing."""
    homes = {"scoreprism": scoreprism}
    homes |= {
        f"scoreprism.{name}": importlib.import_module(f"scoreprism.{name}") for name in scoreprism.PUBLIC_PACKAGES
    }
    for path, home in homes.items():
        for name in home.__all__:
            thing = getattr(home, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield f"{path}.{name}", thing
            if inspect.isclass(thing):
                own = [
                    (key, getattr(thing, key))
                    for key in vars(thing)
                    if not key.startswith("_") and not key.endswith("_request")
                ]
                yield from (
                    (f"{path}.{name}.{key}", one)
                    for key, one in own
                    if inspect.isfunction(one) or inspect.ismethod(one)
                )


def stated_defaults(text):
    """Default of each parameter as the docstring states it: a value, None for "optional", or nothing."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}|\Z)", text, re.MULTILINE | re.DOTALL)
    for entry, kind in ENTRY.findall(section[1] if section else ""):
        names, match = entry.replace("*", "").split(", "), re.search(r"default=(.+)$", kind)
        if match:
            each = re.split(r", | and ", match[1])  # one for all names, or one for each
            yield from zip(names, each if len(each) == len(names) else [match[1]] * len(names), strict=True)
        elif kind.endswith("optional"):
            yield from ((name, "None") for name in names)


def wrong_defaults(thing):
    """Parameters whose docstring states another default than the signature: what is stated, and what is true."""
    try:
        parameters = inspect.signature(thing).parameters
    except ValueError:  # exceptions of Python have none
        return {}
    wrong = {}
    for name, stated in stated_defaults(inspect.getdoc(thing)):
        if name not in parameters:
            continue
        default = parameters[name].default
        written = {repr(default), repr(default).replace("'", '"'), f"np.{default!r}"}
        if stated not in written and not (stated == "None" and default == ""):
            wrong[name] = (stated, default)
    return wrong


def test_defaults_are_those_of_the_signature():
    documented = {path: thing for path, thing in public_callables() if inspect.getdoc(thing)}
    assert len(documented) > 400
    assert {path: wrong for path, thing in documented.items() if (wrong := wrong_defaults(thing))} == {}
