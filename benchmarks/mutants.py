"""``python -m benchmarks.mutants``: change the code in one place at a time, and see whether a test notices.

A mutant is the source with one operator, constant, condition or function exchanged. Those that run are sampled with a
fixed seed, as many from each package, kinds of change in turn. Coverage by test says which tests run the line; they run
the fastest first until one fails. A mutant that no test notices is a gap in the tests, unless it behaves as the
original does: such mutants are listed with the reason in `equivalent_mutants.json`.

Everything happens in a temporary copy of the repository: an interrupted run leaves nothing behind. Needs `coverage`
(``python -m pip install coverage``), a system with fork, and about ten seconds for each mutant.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import py_compile
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("decomposition", "_kernels", "_sample", "_fitting", "_estimation", "losses", "calibrators")
#: Tests that are asked: those of the mathematics, of estimation and of calibrators, and the examples in docstrings.
ASKED = (
    "loss_laws", "loss_accuracy", "custom_losses", "theorems", "intervals", "corp", "corp_bootstrap", "chain",
    "decompose", "segments_and_models", "calibrators", "calibrator_contract", "recalibrated", "sklearn_checks", "peers",
    "labels", "validation", "files", "references", "reliability_curve", "map_inference", "metrics", "grouping_test",
    "apply", "advice", "sentences", "any_shape", "partitions", "infinite_losses", "sample", "numerics", "resampling",
    "scale", "stages", "golden", "arrays", "embeddings", "map_files",
)  # fmt: skip
#: Loaded once, before a process is forked for each mutant.
HEAVY = ("numpy", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.interpolate", "sklearn.linear_model",
         "sklearn.ensemble", "sklearn.calibration", "sklearn.utils.estimator_checks", "joblib", "pytest", "pandas",
         "mpmath", "narwhals", "hypothesis.strategies", "polars")  # fmt: skip
#: Seconds of tests for the first look, and for the second, at whole files, that a survivor gets.
FIRST, SECOND = 12.0, 45.0
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")

COMPARE = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
           ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
           ast.NotIn: ("not in", "in")}  # fmt: skip
ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Pow: ("**", "*"),
              ast.FloorDiv: ("//", "/"), ast.Mod: ("%", "+"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&")}  # fmt: skip
PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("floor", "ceil"),
    ("zeros", "ones"),
)
FUNCTIONS = dict(PAIRS) | {b: a for a, b in PAIRS}
FLOATS = {0.0: "1.0", 0.5: "1.5", 1.0: "2.0", 2.0: "3.0"}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `stop` of a file become `new`."""

    package: str
    path: str
    line: int
    start: int
    stop: int
    old: str
    new: str
    kind: str
    text: str  # the line it is on, without margins
    column: int  # where in that text, in bytes

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.kind}: {self.old} → {self.new} in: {self.text}"

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What stays when lines move."""
        return self.path, self.text, self.column, self.new

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.stop :]


class Finder(ast.NodeVisitor):
    """Every place of a file where a change makes sense: no annotation, default, decorator, message or f-string."""

    def __init__(self, package: str, path: str, source: bytes) -> None:
        self.package, self.path, self.source = package, path, source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.depth = 0
        self.found: list[Mutant] = []

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _span(self, node: ast.expr) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _add(self, kind: str, start: int, stop: int, new: str) -> None:
        line = self.source[:start].count(b"\n") + 1
        old, text = self.source[start:stop].decode(), self.lines[line - 1].decode().strip()
        column = start - self.starts[line - 1] - (len(self.lines[line - 1]) - len(self.lines[line - 1].lstrip()))
        self.found.append(Mutant(self.package, self.path, line, start, stop, old, new, kind, text, column))

    def _between(self, kind: str, left: ast.expr, right: ast.expr, symbols: tuple[str, str]) -> None:
        """Exchange the operator between two operands."""
        start, stop = self._span(left)[1], self._span(right)[0]
        where = self.source.find(symbols[0].encode(), start, stop)
        if where >= 0:
            self._add(kind, where, where + len(symbols[0]), symbols[1])

    def _negate(self, test: ast.expr) -> None:
        start, stop = self._span(test)
        self._add("condition", start, stop, f"not ({self.source[start:stop].decode()})")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.depth += 1
        for part in node.body:
            self.visit(part)
        self.depth -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and self.depth:  # a default of a dataclass is documented, not computed
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    visit_Raise = visit_Assert = visit_Import = visit_ImportFrom = visit_JoinedStr  # noqa: N815 - names of ast

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._between("comparison", left, right, COMPARE[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if self.depth and type(node.op) in ARITHMETIC:
            self._between("arithmetic", node.left, node.right, ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        symbols = ARITHMETIC.get(type(node.op))
        if symbols:
            self._between("arithmetic", node.target, node.value, (f"{symbols[0]}=", f"{symbols[1]}="))
        self.visit(node.value)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        symbols = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._between("and/or", node.values[0], node.values[1], symbols)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, stop = self._span(node)
        operand = self.source[slice(*self._span(node.operand))].decode()
        if isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
            self._add("sign or not", start, stop, f"({operand})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, stop = self._span(node)
        if isinstance(node.value, bool):
            self._add("boolean", start, stop, str(not node.value))
        elif isinstance(node.value, int):
            self._add("constant", start, stop, str(node.value + 1))
            if node.value > 0:
                self._add("constant", start, stop, str(node.value - 1))
        elif isinstance(node.value, float) and node.value in FLOATS:
            self._add("constant", start, stop, FLOATS[node.value])
        elif node.value in ("left", "right"):
            self._add("side", start, stop, '"right"' if node.value == "left" else '"left"')

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg == "axis" and isinstance(node.value, ast.Constant) and node.value.value in (0, 1):
            self._add("axis", *self._span(node.value), str(1 - node.value.value))
        elif node.arg != "strict":  # zip(…, strict=True) guards against what never happens
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in FUNCTIONS:
            stop = self._span(node.func)[1]
            self._add("function", stop - len(name), stop, FUNCTIONS[name])
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                self._add("return", *self._span(node.value), "None")
            self.visit(node.value)


def mutants_of(package: str, skipped: set[str]) -> list[Mutant]:
    """Every change of a package, in the order of files and lines."""
    base = ROOT / "src" / "scoreprism"
    files = sorted((base / package).rglob("*.py")) if (base / package).is_dir() else [base / f"{package}.py"]
    found = []
    for file in files:
        path = str(file.relative_to(ROOT))
        if path.removeprefix("src/scoreprism/") not in skipped:
            finder = Finder(package, path, file.read_bytes())
            finder.visit(ast.parse(finder.source))
            found += finder.found
    return found


def sampled(candidates: list[Mutant], count: int, rng: random.Random) -> list[Mutant]:
    """Kinds in turn, and no line twice, as long as there are enough."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in rng.sample(candidates, len(candidates)):
        kinds.setdefault(mutant.kind, []).append(mutant)
    chosen, taken = [], set()
    while len(chosen) < count and any(kinds.values()):
        for kind in sorted(kinds):
            while kinds[kind]:
                mutant = kinds[kind].pop()
                if (mutant.path, mutant.line) not in taken:
                    taken.add((mutant.path, mutant.line))
                    chosen.append(mutant)
                    break
    return chosen[:count]


# ── which test runs which line ──────────────────────────────────────────────────────────────────────────


class Listener:
    """A plugin of pytest: tells coverage which test is running, how long each took, and which failed first."""

    def __init__(self, coverage=None) -> None:
        self.coverage, self.seconds, self.failed = coverage, {}, None

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        if self.coverage:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report) -> None:
        if report.failed and self.failed is None:
            self.failed = f"{report.nodeid} (not collected)"


#: One process, no cache, no plugin that would start others.
QUIET = [
    "-q",
    "-n0",
    "-p",
    "no:cacheprovider",
    "--no-header",
    "--tb=no",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
]


def trace(copy: Path, target: Path) -> None:
    """Run the asked tests once under coverage; write test → seconds and file → line → tests."""
    import coverage
    import pytest

    watched = coverage.Coverage(data_file=str(copy / ".coverage"), source=[str(copy / "src" / "scoreprism")])
    listener = Listener(watched)
    tests = [str(path.relative_to(copy)) for name in ASKED for path in (copy / "tests").rglob(f"test_{name}.py")]
    base = copy / "src" / "scoreprism"
    tests += [str((base / p if (base / p).is_dir() else base / f"{p}.py").relative_to(copy)) for p in PACKAGES]
    watched.start()
    code = pytest.main([*QUIET, *tests], plugins=[listener])
    watched.stop()
    data = watched.get_data()
    number = {test: index for index, test in enumerate(listener.seconds)}
    lines = {}
    for file in data.measured_files():
        path = str(Path(file).relative_to(copy))
        contexts = data.contexts_by_lineno(file)
        lines[path] = {line: [number[test] for test in tests if test] for line, tests in contexts.items()}
    target.write_text(json.dumps({"seconds": listener.seconds, "lines": lines}))
    sys.exit(int(code))


def covering(mutant: Mutant, known: dict) -> tuple[list[str], list[str]]:
    """Tests that run the line, and the others of their files (which may share what a first test made); fastest first."""
    lines, names = known["lines"].get(mutant.path, {}), list(known["seconds"])
    numbers = set(lines.get(str(mutant.line), ()))
    if not numbers:  # run when the module is loaded, or never: whoever uses what it names, or the module
        name = re.match(r"\w*", mutant.text).group() or "^"
        text = (ROOT / mutant.path).read_text().splitlines()
        users = [number for number, line in enumerate(text, 1) if re.search(rf"\b{name}\b", line)]
        numbers = set().union(*(lines.get(str(number), ()) for number in users)) or set().union(*lines.values())
    tests = {names[number] for number in numbers}
    files = {test.split("::")[0] for test in tests}
    others = {test for test in known["seconds"] if test.split("::")[0] in files} - tests
    seconds = known["seconds"]
    return sorted(tests, key=seconds.__getitem__), sorted(others, key=seconds.__getitem__)


def within(tests: list[str], seconds: dict[str, float], most: float) -> list[str]:
    """The fastest tests that take no longer than `most` together."""
    kept, total = [], 0.0
    for test in tests:
        total += seconds[test]
        if total > most:
            break
        kept.append(test)
    return kept


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────


def copied(target: Path) -> Path:
    """A copy of what tests need, compiled so that only the hash of a source decides whether it is compiled again."""
    ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, target, ignore=ignored)
    for file in (target / "src").rglob("*.py"):
        py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    return target


def environment(copy: Path) -> dict[str, str]:
    """Of every run of tests: the copy's source, one thread, the same examples each time."""
    return os.environ | {
        "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1", "CI": "1",
        "MPLBACKEND": "agg", "TMPDIR": str(copy.parent),
    }  # fmt: skip


#: Exit of a process in which our own code failed, not a test.
BROKEN = 99


def _ask(copy: Path, tests: list[str], told: Path) -> int:
    """Run tests on the copy, in this process; the first that fails is written down."""
    os.setsid()
    output = os.open(copy / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(copy)
    os.environ.update(environment(copy))
    here = {str(ROOT), str(ROOT / "src"), "", "."}
    sys.path[:] = [str(copy / "src"), str(copy), *(entry for entry in sys.path if entry not in here)]
    ours = ("scoreprism", "benchmarks", "tests", "conftest")
    for name in [name for name in sys.modules if name.split(".")[0] in ours]:
        del sys.modules[name]
    import pytest

    listener = Listener()
    code = int(pytest.main([*QUIET, "-x", *tests], plugins=[listener]))
    told.write_text(listener.failed or "")
    return code


def attempt(copy: Path, tests: list[str], limit: float) -> str | None:
    """The first test that fails, in a forked process; None if all pass."""
    told = copy / "told.txt"
    told.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            code = _ask(copy, tests, told)
        finally:
            traceback.print_exc()
            os._exit(code)
    start = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - start > limit:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "out of time"
        time.sleep(0.02)
    code = os.waitstatus_to_exitcode(status)
    if code == BROKEN:
        raise RuntimeError((copy / "output.txt").read_text())
    return None if code == 0 else (told.read_text() if told.exists() else "") or f"exit {code}"


def judge(mutant: Mutant, copy: Path, known: dict) -> str | None:
    """The test that notices a mutant; None if none does."""
    file, seconds = copy / mutant.path, known["seconds"]
    source = file.read_bytes()
    own, others = covering(mutant, known)
    file.write_bytes(mutant.applied(source))
    try:
        for tests in (within(own, seconds, FIRST), within([*own, *others], seconds, SECOND)):
            if tests:
                limit = 120.0 + 5.0 * sum(seconds[test] for test in tests)
                found = attempt(copy, tests, limit)
                if found == "exit 4":  # a test of that name is gone, which nobody would notice: ask what is left
                    found = attempt(copy, sorted({test.split("::")[0] for test in tests}), 600.0)
                if found is not None:
                    return found
    finally:
        file.write_bytes(source)
    return None


def key(one: dict) -> tuple[str, str, int, str]:
    """`Mutant.key` of a mutant in a file."""
    return one["path"], one["text"], one["column"], one["new"]


def excused() -> dict[tuple[str, str, int, str], str]:
    """Why mutants are equivalent to the original."""
    return {key(one): one["why"] for one in json.loads(EQUIVALENT.read_text())}


def table(results: list[tuple[Mutant, str | None]]) -> None:
    """Killed, equivalent and survived by package, as Markdown."""
    reasons = excused()
    print(
        "\n| package | mutants | killed | equivalent | survived | killed of the others |\n|---|---:|---:|---:|---:|---:|"
    )
    for package in (*PACKAGES, "all"):
        mine = [(m, found) for m, found in results if package in (m.package, "all")]
        if mine:
            killed = sum(found is not None for _, found in mine)
            same = sum(found is None and m.key in reasons for m, found in mine)
            rest = len(mine) - same
            share = f"{100 * killed / rest:.1f} %" if rest else "–"
            print(f"| {package} | {len(mine)} | {killed} | {same} | {rest - killed} | {share} |")
    for mutant, found in results:
        if found is None and mutant.key not in reasons:
            print(f"survived: {mutant}")


def parsed() -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__.splitlines()[0])
    reader.add_argument("--count", type=int, default=240, help="how many mutants, shared among packages")
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--packages", nargs="+", default=PACKAGES, choices=PACKAGES)
    reader.add_argument("--skip", nargs="+", default=(), metavar="FILE", help="for example _maps/map_files.py")
    reader.add_argument("--map", type=Path, help="coverage of an earlier run; made if it is missing")
    reader.add_argument("--results", type=Path, help="write each mutant and what noticed it, one JSON per line")
    reader.add_argument("--again", type=Path, help="run the survivors among these results only")
    reader.add_argument("--trace", nargs=2, type=Path, help=argparse.SUPPRESS)
    return reader.parse_args()


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        Path(folder).chmod(0o755)  # a test becomes another user, who must be able to import it
        yield copied(Path(folder) / "copy")


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The sample, or the survivors of an earlier run (their places are looked up again)."""
    every = {package: mutants_of(package, set(options.skip)) for package in options.packages}
    if options.again:
        lines = [json.loads(line) for line in options.again.read_text().splitlines()]
        keys = {key(one) for one in lines if one["noticed"] is None} - set(excused())
        return [mutant for found in every.values() for mutant in found if mutant.key in keys]
    share = -(-options.count // len(every))
    drawn = [sampled(found, share, random.Random(f"{options.seed} {name}")) for name, found in every.items()]  # noqa: S311
    return [mutant for some in drawn for mutant in some]


def main() -> int:
    options = parsed()
    if options.trace:
        trace(*options.trace)
    with workplace() as copy:
        target = options.map or copy / "map.json"
        if not target.exists():
            command = [sys.executable, "-m", "benchmarks.mutants", "--trace", str(copy), str(target.resolve())]
            subprocess.run(command, check=True, cwd=copy, env=environment(copy))
        known = json.loads(target.read_text())
        for name in HEAVY:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        results = []
        for mutant in chosen(options):
            start = time.monotonic()
            noticed = judge(mutant, copy, known)
            results.append((mutant, noticed))
            print(f"{len(results):4} {time.monotonic() - start:5.1f} s  {noticed or 'SURVIVED'}  {mutant}", flush=True)
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(mutant) | {"noticed": noticed}, ensure_ascii=False) + "\n")
    table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
