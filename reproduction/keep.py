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

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "data" / "reproduction.json"
PAGE = ROOT / "docs" / "reproduce.md"
#: Figures of docs/reproduce.md, and of docs/calibrators.md.
FIGURES = (
    "averaging-lcs",
    "brier-reducible",
    "beyond-noise-floor",
    "beyond-double-use",
    "maps-three",
    "bandwidth-truth",
)
METHODS = ("average", "glm", "forest", "stacking")
COLUMNS = {
    ("log", "raw"): "log loss, raw",
    ("log", "recalibrated"): "log loss, recalibrated",
    ("log", "reliability_plugin"): "reliability, log",
    ("brier", "raw"): "Brier, raw",
    ("brier", "recalibrated"): "Brier, recalibrated",
    ("brier", "reliability_plugin"): "reliability, Brier",
}


def tables(results) -> dict[str, str]:
    """The parts of docs/reproduce.md that are made from results, by name."""
    checks = {check["key"]: check for check in results["checks"]}
    return {
        "verdicts": _verdicts(results["checks"]),
        "robustness": _robustness(checks),
        "paired": _paired(checks, results["numbers"]),
        "beyond": _beyond(results["numbers"]),
    }


def filled(text: str, results) -> str:
    """The page with these parts in their places."""
    for name, part in tables(results).items():
        marks = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, count = re.subn(marks, lambda found, part=part: found[1] + part + found[2], text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"docs/reproduce.md must have one place for {name!r}; got {count}")
    return text


def _verdicts(checks) -> str:
    counts = {word: sum(check["verdict"] == word for check in checks) for word in ("reproduced", "within noise")}
    missed = [check for check in checks if check["verdict"] == "not reproduced"]
    start = (
        f"Of {len(checks)} numbers and statements, {counts['reproduced']} are reproduced, "
        f"{counts['within noise']} agree within noise, {len(missed)} are not reproduced:"
    )
    lines = [start, ""]
    lines += [f"- *{check['what']}* ({check['place']}). {check['why']}" for check in missed]
    return "\n".join(lines)


def _robustness(checks) -> str:
    lines = ["| paper → ours (tolerance) | " + " | ".join(METHODS) + " |", "|---|" + "---|" * len(METHODS)]
    for (loss, column), words in COLUMNS.items():
        found = [checks[f"robustness/{loss}/{column}/{method}"] for method in METHODS]
        digits = 4 if loss == "brier" else 3
        cells = [_cell(check, digits) for check in found]
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(check, digits: int) -> str:
    text = f"{check['paper']:.3f} → {check['ours']:.{digits}f} ({check['tolerance']:.{digits}f})"
    return f"**{text}**" if check["verdict"] == "not reproduced" else text


def _paired(checks, numbers) -> str:
    heads = "| Δ against the average | paper | ours | wins, paper → ours | p (Holm), paper → ours | corrected t |"
    lines = [heads, "|---|---|---|---|---|---|"]
    for metric, words in (("recalibrated", "recalibrated log loss"), ("reliability_plugin", "reliability (log)")):
        for method in METHODS[1:]:
            mean, wins, p = (checks[f"tests/{metric}/{method}/{part}"] for part in ("mean", "wins", "p"))
            below = "< " if p["paper"] < 0.001 else ""
            t = numbers[f"german/corrected-t/{metric}/{method}"]
            lines.append(
                f"| {words}, {method} | {mean['paper']:+.4f} | {mean['ours']:+.4f} | {wins['paper']:.0%} → "
                f"{wins['ours']:.0%} | {below}{p['paper']:g} → {p['ours']:.2g} | {t:.2f} |"
            )
    return "\n".join(lines).replace("| -", "| −")


def _beyond(numbers) -> str:
    heads = (
        "reliability (log)",
        "plug-in",
        "noise floor",
        "debiased (95 %)",
        "Δ, same 200 rows",
        "same 100",
        "100 each",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for method in METHODS:
        plugin, floor, debiased, low, high = (
            numbers[f"beyond/{part}/log/{method}"]
            for part in ("plugin", "floor", "debiased", "debiased-low", "debiased-high")
        )
        same = numbers.get(f"german/tests/reliability_plugin/{method}/mean")
        fewer, apart = (numbers.get(f"beyond/{name}/{method}") for name in ("half", "halves"))
        ends = [" " if value is None else f"{value:+.4f}" for value in (same, fewer, apart)]
        lines.append(
            f"| {method} | {plugin:.4f} | {floor:.4f} | {debiased:+.3f} ({low:+.3f} to {high:+.3f}) | "
            f"{' | '.join(ends)} |"
        )
    return re.sub(r"(?<=[ (|])-(?=\d)", "−", "\n".join(lines))


def main(folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text())
    if results["plan"]["name"] != "full":
        raise SystemExit("the run must be a full one; got a quick one")
    RESULTS.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(), results))
    for name in FIGURES:
        shutil.copy(folder / "figures" / f"{name}.png", ROOT / "docs" / "figures" / f"paper-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
