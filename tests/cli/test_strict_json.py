"""Every JSON file of ours goes through one strict reader: what is not ours is refused in our words, at once."""

from __future__ import annotations

import copy
import hashlib
import json
import tracemalloc

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from scoreprism import Chain, Decomposition, Level, scale
from scoreprism.calibrators import from_json
from scoreprism.exceptions import InputError
from scoreprism.pipelines import pipeline_bootstrap


def refused(read, text):
    with pytest.raises(InputError) as error:
        read(text)
    return str(error.value)


DEPTH = 48
DEEP = f"must have at most {DEPTH} levels; got more lists or objects within one another"
BAD = {
    "deep lists": ("[" * 900, DEEP),
    "deep objects": ('{"a":' * 600 + "1" + "}" * 600, DEEP),
    "deep after a text": ('["]]]]", ' + "[" * 60, DEEP),
    "deep after a quoted quote": (r'["\"", ' + "[" * 60, DEEP),
    "long": ("0" * 64_000_001, "must have at most 64 MB; got 64 MB"),
    "many": ("[" + "0," * 2_000_000 + "0]", "must hold at most 2000000 values; got about 2000002"),
    "repeated": ('[{"b": 1, "a": 1, "a": 2}]', "must not repeat a field; got 'a' twice"),
    "NaN": ("[NaN]", "must hold finite numbers; got NaN"),
    "-Infinity": ("[-Infinity]", "must hold finite numbers; got -Infinity"),
    "overflow": ("[1e999]", "must hold finite numbers; got 1e999"),
    "not text": (3, "must be read from text; got int"),
    "not UTF-8": (b"[\xff]", "must be JSON in UTF-8; got byte 255 in place 1"),
    "empty": ("", "must be JSON; got '' (Expecting value: line 1 column 1 (char 0))"),
    "open text": ('["[[', "must be JSON; got '[\"[[' (Unterminated string starting at: line 1 column 2 (char 1))"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused(case):
    text, message = BAD[case]
    told = f"the JSON of a decomposition {message}. Pass the text that Decomposition.to_json() wrote."
    assert refused(Decomposition.from_json, text) == told


def test_long_integers_are_no_numbers():
    assert refused(Decomposition.from_json, "1" * 5000).startswith("the JSON of a decomposition must be JSON; got '11")


def test_what_is_read():
    deepest = "[" * DEPTH + "]" * DEPTH
    assert "levels" not in refused(Decomposition.from_json, deepest)  # the deepest that is parsed
    name = "[{" * DEPTH + 'é"\\'  # brackets in a text are not nested
    d = Chain([0, 1], [Level("S", [0.2, 0.7]), Level(name, [0.1, 0.8])]).decompose("brier")
    for text in (d.to_json(), f"\ufeff{d.to_json()}".encode()):
        assert Decomposition.from_json(text).to_json() == d.to_json()
        assert json.dumps(name)[1:-1] in json.dumps(json.loads(d.to_json()))


def test_little_is_allocated_for_what_is_refused():
    """A file of 20 MB of empty lists would take 500 MB as Python objects."""
    text = "[" + "[]," * 7_000_000 + "0]"
    tracemalloc.start()
    try:
        refused(from_json, text)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


# ── every reader of ours, fed with damage ───────────────────────────────────────────────────────────


def decomposition():
    y, s = np.array([0, 1, 0, 1, 1, 0]), np.array([0.2, 0.7, 0.3, 0.9, 0.6, 0.4])
    return Chain(y, [Level("S", s), Level("C", [0.1, 0.8, 0.2, 0.8, 0.8, 0.2])]).decompose("brier").to_json()


def scaled():
    rng = np.random.default_rng(0)
    p = rng.random(600)
    rows = {"y": (rng.random(600) < p).astype(int), "s": p, "g": np.arange(600) % 2}
    import polars as pl

    return scale.decompose(pl.DataFrame(rows), target="y", score="s", loss="brier", segments="g").to_json()


def partial():
    rng = np.random.default_rng(0)
    p = np.round(rng.random(100), 1)
    import polars as pl

    return scale.aggregate(
        pl.DataFrame({"y": (rng.random(100) < p).astype(int), "s": p}), target="y", score="s"
    ).to_json()


READERS = {
    "decomposition": (decomposition, Decomposition.from_json),
    "scaled decomposition": (scaled, scale.ScaledDecomposition.from_json),
    "partial": (partial, scale.Sums.from_json),
}


def places(node, path=()):
    """Every place in a tree of lists and dicts; of a long list the first two."""
    yield path
    inside = node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


@pytest.mark.parametrize("name", READERS)
def test_no_damage_leaks_an_error_of_python(name):
    """Each place in turn holds something else: read all the same, or refused with our own error."""
    make, read = READERS[name]
    text = make()
    read(text)
    original, refusals = json.loads(text), 0
    added = {"scaled decomposition": "scale"}.get(name)  # what it has beside the other's, down to its segments
    for path in list(places(original))[1:]:
        if added and (path[0] != added or len(path) > 5):
            continue
        for value in (None, "x", -1, 10**400, [], {}, True, [[]], {"name": 3}, "inf"):
            data = copy.deepcopy(original)
            node = data
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
            try:
                read(json.dumps(data))
            except InputError:
                refusals += 1
    assert refusals > 50
    for deep in ("[" * 600, "[" * 900, '{"a":' * 900):
        assert "must have at most 48 levels" in refused(read, deep)


# ── lines of checkpoints and journals with a valid hash ─────────────────────────────────────────────


def line(text):
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {text}\n".encode()


@pytest.fixture(scope="module")
def splits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    return [(X[i : i + 100], y[i : i + 100]) for i in (0, 100, 200)]


def boot(splits, path):
    return pipeline_bootstrap(GaussianNB(), *splits, calibrator="platt", n_resamples=3, checkpoint=path, random_state=0)


@pytest.fixture(scope="module")
def checkpoint(splits, tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "run"
    boot(splits, path)
    return path.read_bytes()


def changed(**change):
    return lambda entry: {**entry, **change}


def first_value(value):
    return lambda entry: {**entry, "values": [value, *entry["values"][1:]]}


LINES = {
    "a list": (lambda _: [], "a list"),
    "nothing": (lambda _: {}, "no numbered replicate"),
    "a field more": (changed(more=1), "no numbered replicate"),
    "a word for a number": (changed(replicate="0"), "no numbered replicate"),
    "a list for a number": (changed(replicate=[]), "no numbered replicate"),
    "true": (changed(redrawn=True), "no numbered replicate"),
    "NaN": (changed(redrawn=np.nan), "no numbered replicate"),  # which Python writes, and journals read
    "another shape": (lambda entry: {**entry, "shape": [len(entry["values"])]}, "values of shape (6,) instead of (2, 1, 3)"),
    "no shape": (changed(shape=None), "no shape"),
    "a negative length": (changed(shape=[-1]), "no shape"),
    "too long": (changed(shape=[10**9, 10**9]), "no 1000000000000000000 numbers"),
    "no values": (changed(values=None), "no 6 numbers"),
    "nan": (first_value("nan"), "no 6 numbers"),
    "a decimal": (first_value("0.5"), "no 6 numbers"),
    "a number": (first_value(0.5), "no 6 numbers"),
    "huge": (first_value("0x1p+5000"), "no 6 numbers"),
    "twice": (changed(replicate=1), "replicate 1, a second time,"),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_lines_of_a_checkpoint_are_checked(case, splits, checkpoint, tmp_path):
    change, got = LINES[case]
    lines = checkpoint.splitlines(keepends=True)
    number = 3 if case == "twice" else 2
    entry = json.loads(lines[1].partition(b" ")[2])
    if case == "twice":
        lines[1] = line(json.dumps({**entry, "replicate": 1}))
    lines[number - 1] = line(json.dumps(change(entry)))
    path = tmp_path / "run"
    path.write_bytes(b"".join(lines))
    assert refused(lambda where: boot(splits, where), path) == (
        f"a checkpoint must hold what pipeline_bootstrap wrote; got {got} in line {number} of {str(path)!r}. "
        "Use another path; it is left as it is."
    )
    assert path.read_bytes() == b"".join(lines)


HEADERS = {
    "no identity": {"identity": 3},
    "a list of pairs": {"identity": ["ab"]},
    "a word for the seed": {"seed": "0"},
    "a negative seed": {"seed": -1},
}


@pytest.mark.parametrize("case", HEADERS)
def test_the_first_line_of_a_checkpoint_is_checked(case, splits, checkpoint, tmp_path):
    first, *rest = checkpoint.splitlines(keepends=True)
    path = tmp_path / "run"
    path.write_bytes(line(json.dumps(json.loads(first.partition(b" ")[2]) | HEADERS[case])) + b"".join(rest))
    assert refused(lambda where: boot(splits, where), path) == (
        f"a checkpoint must hold what pipeline_bootstrap wrote; got no problem and seed in line 1 of {str(path)!r}. "
        "Use another path; it is left as it is."
    )


@pytest.mark.parametrize("text", ["[]", "3", "{", "[" * 100])
def test_a_first_line_that_is_no_object(text, splits, tmp_path):
    path = tmp_path / "run"
    path.write_bytes(line(text))
    assert refused(lambda where: boot(splits, where), path).endswith("Use another path; it is left as it is.")
