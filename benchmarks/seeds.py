"""``python -m benchmarks.seeds [--seeds 20]``: do the folds matter? The examples of the README and of ``scoreprism demo``.

For every seed of the folds the verdict of `summary()` without its numbers, and how far the estimates scatter; for permuted rows, how far terms move.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np

import scoreprism
from scoreprism._findings.finding import Finding
from scoreprism.datasets import CopulaLaw


def examples() -> dict[str, tuple[Any, Any, Any]]:
    """Outcomes, scores and features by name."""
    from scoreprism.cli._demo import SCORES, TARGET, make_predictions

    X, y, _ = CopulaLaw(rho=0.0).sample(4000, random_state=0)
    found: dict[str, tuple[Any, Any, Any]] = {"README": (y, 1 / (1 + np.exp(3 - 6 * X[:, 0])), X)}
    credit = make_predictions()
    for score in SCORES:
        found[f"demo, {score}"] = (credit[TARGET].to_numpy(), credit[score].to_numpy(), credit.drop(TARGET, *SCORES))
    return found


#: What is no part of a verdict.
_ASIDE = ("rest_unsplit", "rest_unknowable", "reachable_loss", "no_lower_loss")


def verdict(findings: tuple[Finding, ...]) -> tuple[tuple[str, str | None], ...]:
    """What is concluded, without its numbers: kinds and terms."""
    return tuple((one.kind, one.term) for one in findings if one.kind not in _ASIDE)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args(arguments)
    print(
        "| example | rows | features | verdicts over seeds | sd of reliability / se | sd of grouping / se | permuted rows: change / loss |"
    )
    print("|---|---:|---|---|---:|---:|---:|")
    warnings.simplefilter("ignore")
    for name, (y, s, X) in examples().items():
        for features in (None, X):
            runs = [scoreprism.decompose(y, s, features, random_state=seed) for seed in range(options.seeds)]
            verdicts = Counter(verdict(run.conclusions()) for run in runs)
            order = np.random.default_rng(0).permutation(len(y))
            moved = scoreprism.decompose(y[order], s[order], None if features is None else features[order])
            gap = max(abs(moved.terms[term] - runs[0].terms[term]) for term in runs[0].names) / runs[0].risk
            cells = []
            for term in ("reliability", "grouping"):
                if term in runs[0].names:
                    spread = np.std([run.terms[term] for run in runs], ddof=1)
                    cells.append(f"{spread / np.mean([run.std_error[term] for run in runs]):.2f}")
                else:
                    cells.append("")
            told = " / ".join(str(count) for count in verdicts.values())
            what = "no" if features is None else "yes"
            print(f"| {name} | {len(y)} | {what} | {told} | {cells[0]} | {cells[1]} | {gap:.0e} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
