"""``python -m reproduction.keep FOLDER``: take the numbers of a finished full run into docs and tests.

FOLDER is what ``python -m reproduction --out FOLDER`` wrote. Its results become tests/data/reproduction.json, which the
slow tests compare later runs with; the tables of docs/reproduce.md are made from them; some figures are copied.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from reproduction.german import METRICS
from reproduction.pieces import minus
from reproduction.statements import METHODS

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "tests" / "data" / "reproduction.json", ROOT / "docs" / "reproduce.md"
#: Figures of docs/reproduce.md, and of docs/calibrators.md.
FIGURES = (
    "averaging-lcs",
    "brier-reducible",
    "beyond-noise-floor",
    "beyond-double-use",
    "maps-three",
    "bandwidth-truth",
)
COLUMNS = {
    "log/raw": "log loss, raw",
    "log/recalibrated": "log loss, recalibrated",
    "log/reliability_plugin": "reliability, log",
    "brier/raw": "Brier, raw",
    "brier/recalibrated": "Brier, recalibrated",
    "brier/reliability_plugin": "reliability, Brier",
}


def fill(text: str, results: dict) -> str:
    """Put the parts of docs/reproduce.md that are made from results in their places."""
    checks, numbers = {check["key"]: check for check in results["checks"]}, results["numbers"]
    parts = {
        "verdicts": _list_verdicts(results["checks"]),
        "robustness": _tabulate_means(checks),
        "paired": _tabulate_tests(checks, numbers),
        "beyond": _tabulate_beyond(numbers),
    }
    for name, part in parts.items():
        marks = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, count = re.subn(marks, lambda found, part=part: found[1] + part + found[2], text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"docs/reproduce.md must have one place for {name!r}; got {count}")
    return text


def _list_verdicts(checks: list[dict]) -> str:
    missed = [check for check in checks if check["verdict"] == "not reproduced"]
    kept = {word: sum(check["verdict"] == word for check in checks) for word in ("reproduced", "within noise")}
    start = (
        f"Of {len(checks)} numbers and statements, {kept['reproduced']} are reproduced, {kept['within noise']} agree "
        f"within noise, {len(missed)} are not reproduced:"
    )
    return "\n".join([start, "", *(f"- *{check['what']}* ({check['place']}). {check['why']}" for check in missed)])


def _tabulate(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return minus("\n".join(lines))


def _tabulate_means(checks: dict[str, dict]) -> str:
    rows = []
    for column, words in COLUMNS.items():
        digits, row = 4 if column.startswith("brier") else 3, [words]
        for check in (checks[f"robustness/{column}/{method}"] for method in METHODS):
            cell = f"{check['paper']:.3f} → {check['ours']:.{digits}f} ({check['tolerance']:.{digits}f})"
            row.append(f"**{cell}**" if check["verdict"] == "not reproduced" else cell)
        rows.append(row)
    return _tabulate(("paper → ours (tolerance)", *METHODS), rows)


def _tabulate_tests(checks: dict[str, dict], numbers: dict[str, float]) -> str:
    heads = ("Δ against the average", "paper", "ours", "wins, paper → ours", "p (Holm), paper → ours", "corrected t")
    rows = []
    for metric, words in METRICS.items():
        for method in METHODS[1:]:
            mean, wins, p = (checks[f"tests/{metric}/{method}/{part}"] for part in ("mean", "wins", "p"))
            row = [f"{words}, {method}", f"{mean['paper']:+.4f}", f"{mean['ours']:+.4f}"]
            row.append(f"{wins['paper']:.0%} → {wins['ours']:.0%}")
            row.append(f"{'< ' if p['paper'] < 0.001 else ''}{p['paper']:g} → {p['ours']:.2g}")
            rows.append([*row, f"{numbers[f'german/corrected-t/{metric}/{method}']:.2f}"])
    return _tabulate(heads, rows)


def _tabulate_beyond(numbers: dict[str, float]) -> str:
    differences = ("german/tests/reliability_plugin/{}/mean", "beyond/half/{}", "beyond/halves/{}")
    heads = (
        "reliability (log)",
        "plug-in",
        "noise floor",
        "debiased (95 %)",
        "Δ, same 200 rows",
        "same 100",
        "100 each",
    )
    rows = []
    for method in METHODS:
        found = {part: numbers[f"beyond/{part}/log/{method}"] for part in ("plugin", "floor", "debiased")}
        low, high = (numbers[f"beyond/debiased-{end}/log/{method}"] for end in ("low", "high"))
        row = [method, f"{found['plugin']:.4f}", f"{found['floor']:.4f}"]
        row.append(f"{found['debiased']:+.3f} ({low:+.3f} to {high:+.3f})")
        keys = (key.format(method) for key in differences)
        rows.append(row + [f"{numbers[key]:+.4f}" if key in numbers else " " for key in keys])
    return _tabulate(heads, rows)


def main(folder: Path) -> None:
    """Take over a full run."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    if results["plan"]["name"] != "full":
        raise SystemExit("the run must be a full one; got a quick one")
    RESULTS.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    for name in FIGURES:
        shutil.copy(folder / "figures" / f"{name}.png", ROOT / "docs" / "figures" / f"paper-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
