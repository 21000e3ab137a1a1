"""The cells of the study, and the tables made of them: what was specified as bars, then what was not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from benchmarks.statistics import rough, simulate
from benchmarks.statistics.cells import Cell
from benchmarks.statistics.scenarios import LOSSES, SCENARIOS, SCORES
from benchmarks.statistics.tables import (
    Bar,
    Line,
    Section,
    Value,
    judged,
    mean,
    root_mean_square,
    root_ratio,
    share,
    within,
)
from scoreprism._core.simplex import FloatArray

Results = Mapping[str, FloatArray]
Book = Mapping[str, Results]

SIZES = (500, 2000)
#: Further simulations by scenario: sizes, and how many samples of each.
NEW = {
    "rare": (2000, 10_000),
    "edge": SIZES,
    "ten features": SIZES,
    "clusters": SIZES,
    "three classes": SIZES,
    "weights": SIZES,
}
ALTERNATIVES = {"slope": 0.60, "shift": 0.66, "wave": 0.43, "step": 0.48, "b": 0.95}


def cells() -> list[Cell]:
    """Every cell, the cheap ones first."""
    found = [Cell("identity", simulate.identity, 20, 2, {"n": 500})]
    for name in SCORES:
        found += [Cell(f"scores/{name}/{n}", simulate.scores, 1000, 16, {"scenario": name, "n": n}) for n in SIZES]
    for name in ("b", "q2"):
        found += [Cell(f"oracle/{name}/{n}", simulate.oracle, 1000, 10, {"scenario": name, "n": n}) for n in SIZES]
    found.append(Cell("null/3/500", simulate.multiclass_null, 1000, 10, {"n": 500}))
    found += [*_test_cells(), *_feature_cells(), *rough.cells()]
    return found


def _test_cells() -> Iterator[Cell]:
    rate = simulate.calibration_rate
    for k in (2, 3):
        for n in (200, 500, 2000):
            yield Cell(f"size/{k}/{n}", rate, 50, 1, {"kind": "size", "n": n, "k": k, "simulations": 20})
    for name in ALTERNATIVES:
        yield Cell(f"power/{name}/2000", rate, 50, 1, {"kind": "power", "alternative": name, "simulations": 20})
    for null in ("q2", "X₁ only"):
        for n in SIZES:
            yield Cell(f"grouping-size/{null}/{n}", simulate.grouping_size, 1000, 10, {"n": n, "null": null})
    yield Cell("grouping-power/sum/2000", simulate.grouping_power, 200, 6, {"n": 2000})


def _feature_cells() -> Iterator[Cell]:
    for name in SCORES:
        for n in SIZES:
            arguments = {"scenario": name, "n": n, "peer": name == "b"}
            yield Cell(f"features/{name}/{n}", simulate.features, 200, 4 if name == "b" else 2, arguments)
    for n in SIZES:
        arguments = {"scenario": "b", "n": n, "reference": "lightgbm"}
        yield Cell(f"lightgbm/b/{n}", simulate.features, 200, 4, arguments)
    for name, sizes in NEW.items():
        for n in sizes:
            yield Cell(f"new/{name}/{n}", simulate.features, 200, 2, {"scenario": name, "n": n})
    for n in SIZES:
        arguments = {"scenario": "clusters", "n": n, "groups": False}
        yield Cell(f"new/clusters, ignored/{n}", simulate.features, 200, 2, arguments, seed=f"new/clusters/{n}")


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────


def _cells_of(book: Book, study: str) -> Iterator[tuple[str, int, Results]]:
    for name, results in book.items():
        kind, *rest = name.split("/")
        if kind == study:
            yield rest[0], int(rest[1]), results


def _line(scenario: str, n: int, loss: str, quantity: str, results: Results) -> Line:
    count = len(results["failed"])
    return {"scenario": scenario, "n": n, "loss": loss, "quantity": quantity, "simulations": count}


def _truth(scenario: str, loss: str, term: str) -> float:
    terms = SCENARIOS[scenario.partition(",")[0]].truth(loss)
    return {"rel": terms.reliability, "grp": terms.grouping, "irr": terms.irreducible}[term]


def _estimate(results: Results, loss: str, term: str, truth: float) -> Line:
    errors = results[f"{loss}.{term}"] - truth
    return {"truth": truth, "bias": mean(errors).value, "RMSE": root_mean_square(errors).value}


def covering(
    scenario: str, n: int, loss: str, results: Results, term: str, ends: tuple[str, str], what: str, bar: Bar | None
) -> Line:
    """A line on the coverage of an interval or a bound; `ends` are the names of its ends, empty where there is none."""
    truth = _truth(scenario, loss, term)
    endless = {0: -np.inf, 1: np.inf}
    low, high = (
        results[f"{loss}.{end}"] if end else np.full(len(results["failed"]), endless[i]) for i, end in enumerate(ends)
    )
    covered = share(within(low, high, truth))
    line = _line(scenario, n, loss, what, results) | _estimate(results, loss, term, truth)
    line["coverage"] = covered.value
    if all(ends):
        line["width"] = mean(high - low).value
    else:  # of a bound: how far it lies from the truth
        line["width"] = mean(np.abs((low if ends[0] else high) - truth)).value
    return judged(line, covered, bar)


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────


def exactness(book: Book) -> Section:
    """Bar 1."""
    worst: dict[str, float] = {}
    count: dict[str, int] = {}
    for name, results in book.items():
        gaps = [v for key, v in results.items() if key.endswith(".gap") or key in ("fitted", "random")]
        if gaps:
            study = name.split("/")[0]
            worst[study] = max(worst.get(study, 0.0), float(np.nanmax(np.concatenate(gaps))))
            count[study] = count.get(study, 0) + len(results["failed"])
    lines = []
    for study, gap in worst.items():
        line: Line = {"scenario": study, "simulations": count[study], "gap": gap, "bar": "≤ 1e-12"}
        lines.append(line | {"verdict": Bar(high=1e-12).judge(Value(gap, 0.0))})
    text = "The largest gap over all samples of a study; *identity* is all losses, with laws fitted and laws drawn at random."
    return Section("1. Terms add up to the mean loss", lines, text)


def _reliability_bar(scenario: str, n: int) -> Bar | None:
    if scenario in ("a", "b", "e"):
        return Bar(low=0.92, high=0.99)
    if scenario == "c":
        return Bar(low=0.99)
    return Bar(low=0.88 if n == 500 else 0.91) if scenario == "d" else None


def reliability(book: Book) -> Section:
    """Bar 2."""
    lines = []
    for scenario, n, results in _cells_of(book, "scores"):
        for loss in LOSSES:
            bar = _reliability_bar(scenario, n)
            for what, ends, limit in (
                ("any shape (default)", ("rel.low", "rel.high"), None if bar is None else Bar(low=bar.low)),
                ("smooth", ("rel.low", "rel.smooth"), bar),
                ("bracket", ("bracket.low", "bracket.high"), None),
                ("envelope", ("envelope.low", "envelope.high"), Bar(low=0.94)),
            ):
                lines.append(covering(scenario, n, loss, results, "rel", ends, what, limit))
    text = (
        "Nominal 95 %. In c, reliability is 0 and coverage says how often the interval holds 0. *Any shape* may cover "
        "more than its bar's upper end: it makes no use of these curves being smooth."
    )
    return Section("2. Reliability and its intervals", lines, text)


def bounds(book: Book) -> Section:
    """Bar 3."""
    lines = []
    for scenario, n, results in _cells_of(book, "scores"):
        for loss in LOSSES:
            what = "reliability ≥"
            lines.append(covering(scenario, n, loss, results, "rel", ("rel.lower", ""), what, Bar(low=0.94)))
    for study, title, bar in (
        ("oracle", "q= given", 0.92),
        ("features", "stack", 0.94),
        ("lightgbm", "LightGBM", 0.94),
    ):
        for scenario, n, results in _cells_of(book, study):
            for loss in LOSSES:
                what = f"grouping ≥, {title}"
                lines.append(covering(scenario, n, loss, results, "grp", ("grp.lower", ""), what, Bar(low=bar)))
    for study, title in (("features", "stack"), ("lightgbm", "LightGBM")):
        for scenario, n, results in _cells_of(book, study):
            for loss in LOSSES:
                what = f"irreducible ≤, {title}"
                lines.append(covering(scenario, n, loss, results, "irr", ("", "irr.upper"), what, Bar(low=0.94)))
    text = "One-sided, nominal 95 %. Width: mean distance of the bound from the truth."
    return Section("3. Bounds", lines, text)


def against_plugin(book: Book) -> Section:
    """Bar 4."""
    limits = {"a": 0.90, "b": 0.60, "c": 0.40, "e": 0.65}
    lines = []
    for scenario, n, results in _cells_of(book, "scores"):
        for loss in LOSSES:
            truth = _truth(scenario, loss, "rel")
            theirs = results[f"{loss}.plugin"] - truth
            found = root_ratio(results[f"{loss}.rel"] - truth, theirs)
            line = _line(scenario, n, loss, "reliability", results) | _estimate(results, loss, "rel", truth)
            line |= {"peer": root_mean_square(theirs).value, "ratio": found.value}
            limit = limits.get(scenario)
            lines.append(judged(line, found, None if limit is None else Bar(high=limit)))
    text = "Peer: RMSE of the paper's plug-in (isotonic on the first half, mean divergence on the second) on the same samples."
    return Section("4. Reliability against the split-half isotonic plug-in", lines, text)


def calibration_tests(book: Book) -> Section:
    """Bar 5."""
    lines = []
    for study in ("size", "power"):
        for name, n, results in _cells_of(book, study):
            per_call = 20
            rate = float(np.nanmean(results["reject"]))
            count = per_call * len(results["reject"])
            found = Value(rate, share(np.r_[np.ones(round(rate * count)), np.zeros(count - round(rate * count))]).error)
            bar = Bar(low=0.03, high=0.07) if study == "size" else Bar(low=ALTERNATIVES[name])
            scenario = f"{name} classes, calibrated" if study == "size" else name
            line = {"scenario": scenario, "n": n, "quantity": study, "simulations": count, "rate": rate}
            lines.append(judged(line, found, bar))
    return Section("5. Test of calibration", lines, "Rejections at 5 %.")


def grouping(book: Book) -> Section:
    """Bar 6: the estimate."""
    lines = []
    for scenario, n, results in _cells_of(book, "features"):
        for loss in LOSSES:
            truth = _truth(scenario, loss, "grp")
            errors = results[f"{loss}.grp"] - truth
            base = _line(scenario, n, loss, "bias", results) | _estimate(results, loss, "grp", truth)
            judge = scenario == "b"
            limit = Bar(high=1e3 * truth, size=True) if judge else None  # a tenth of it, in 1e-4
            lines.append(judged(base, mean(errors), limit))
            if judge and loss == "brier":
                bar = Bar(high=60.0 if n == 500 else 28.0)
                lines.append(judged(base | {"quantity": "RMSE"}, root_mean_square(errors), bar))
            if judge and n == 2000:
                found = mean(results[f"{loss}.grp.lower"] / truth)
                found = Value(found.value, found.error)
                lines.append(judged(base | {"quantity": "bound / truth", "ratio": found.value}, found, Bar(low=0.6)))
            if f"{loss}.glest" in results:
                theirs = results[f"{loss}.glest"] - truth
                found = root_ratio(errors, theirs)
                line = base | {"quantity": "against glest", "peer": root_mean_square(theirs[~np.isnan(theirs)]).value}
                lines.append(judged(line | {"ratio": found.value}, found, Bar(high=0.5)))
    text = "The default stack. Peer: RMSE of glest's defaults on the same samples (its Brier score halved)."
    return Section("6. Grouping", lines, text)


def grouping_tests(book: Book) -> Section:
    """Bar 6: the test."""
    lines = []
    for study, bar in (("grouping-size", Bar(low=0.03, high=0.07)), ("grouping-power", Bar(low=0.95))):
        for name, n, results in _cells_of(book, study):
            found = share(results["reject"])
            kind = study.partition("-")[2]
            scenario = "S = σ(2.5(X₁+X₂−1))" if kind == "power" else name
            line = {"scenario": scenario, "n": n, "quantity": kind, "simulations": len(results["reject"])}
            lines.append(judged(line | {"rate": found.value}, found, bar))
    return Section("6b. Test of grouping", lines, "Rejections at 5 %.")


def irreducible(book: Book) -> Section:
    """Bar 7."""
    lines = []
    for study in ("features", "lightgbm"):
        for scenario, n, results in _cells_of(book, study):
            for loss in LOSSES:
                truth = _truth(scenario, loss, "irr")
                what = "irreducible, stack" if study == "features" else "irreducible, LightGBM"
                line = _line(scenario, n, loss, what, results) | _estimate(results, loss, "irr", truth)
                judge = study == "features" and loss == "brier" and n == 2000
                bar = Bar(high=12.0, size=True) if judge else None
                luck = results.get(f"{loss}.chance", 0.0)  # checkpoints of earlier versions have none
                bias = mean(results[f"{loss}.irr"] - truth - luck)
                lines.append(judged(line | {"bias": bias.value}, bias, bar))
    text = "Bias: beside the mean loss of the true law on the same outcomes, which has the same luck and expectation."
    return Section("7. The irreducible term", lines, text)


def guard(book: Book) -> Section:
    """Bar 7: the warning."""
    lines = []
    for study, title, bar in (("features", "stack", Bar(high=0.10)), ("lightgbm", "LightGBM", Bar(low=0.95))):
        for scenario, n, results in _cells_of(book, study):
            for loss in LOSSES:
                for key, what, limit in (
                    ("guard", "warns of overfitting", bar),
                    ("muted", "the estimate is muted", None),
                ):
                    found = share(results[f"{loss}.{key}"])
                    line = _line(scenario, n, loss, f"{what}, {title}", results) | {"rate": found.value}
                    lines.append(judged(line, found, limit))
    return Section("7b. The overfit guard", lines)


def null_of_three(book: Book) -> Section:
    """Bar 8."""
    lines = []
    for _, n, results in _cells_of(book, "null"):
        for loss in LOSSES:
            base = _line("3-class null", n, loss, "mean", results) | _estimate(results, loss, "rel", 0.0)
            bar = Bar(high=3.0, size=True) if loss == "log" else None
            lines.append(judged(base, mean(results[f"{loss}.rel"]), bar))
            ends = ("rel.low", "rel.high")
            lines.append(covering("3-class null", n, loss, results, "rel", ends, "any shape holds 0", Bar(low=0.98)))
    return Section("8. Three classes, calibrated", lines)


#: Sentences by the number in them: the term it speaks of, and whether a number above the truth is false (or one below).
_CLAIMS = {
    "at least": ("“this gains at least”, or the lower end of a gain", "rel", True),
    "at most": ("“recalibrating gains at most”, or the upper end of a gain", "rel", False),
    "better": ("“A better model of these features gains at least”", "grp", True),
    "reached": ("“A loss of … or less is achievable”", "irr", False),
}


def sentences(book: Book) -> Section:
    """How often a sentence of the advice is false, in the worst cell of a study."""
    lines = []
    for study in ("scores", "oracle", "features", "lightgbm", "new"):
        for loss in LOSSES:
            for key, (text, term, above) in _CLAIMS.items():
                rates = []
                for scenario, n, results in _cells_of(book, study):
                    said = results[f"{loss}.said.{key}"]
                    room = 0.5 * 10.0 ** (np.floor(np.log10(said)) - 2)  # sentences are rounded to three digits
                    truth = _truth(scenario, loss, term)
                    false = (said - room > truth) if above else (said + room < truth)
                    if not np.isnan(said).all() and scenario != "clusters, ignored":
                        rates.append((float(np.mean(false)), f"{scenario}, {n}", false, np.mean(~np.isnan(said))))
                if rates:
                    worst, where, false, said_in = max(rates, key=lambda rate: rate[0])
                    line = {"scenario": f"{study}: {where}", "loss": loss, "quantity": text, "simulations": false.size}
                    line |= {"said": float(said_in), "rate": worst}
                    lines.append(judged(line, share(false.astype(float)), Bar(high=0.06)))
    text = (
        "The cell of each study where the sentence is false most often: *said*, how often it is said there; *rate*, how "
        "often it is said and false, of all samples."
    )
    return Section("8b. Sentences that are false", lines, text)


def further(book: Book) -> Section:
    """What the bars do not reach; nothing is judged."""
    lines = []
    for scenario, n, results in _cells_of(book, "new"):
        for loss in LOSSES:
            kinds = (
                ("rel", ("rel.low", "rel.high"), "reliability, any shape"),
                ("grp", ("grp.lower", ""), "grouping ≥"),
                ("irr", ("", "irr.upper"), "irreducible ≤"),
            )
            lines += [covering(scenario, n, loss, results, term, ends, what, None) for term, ends, what in kinds]
    known = [SCENARIOS[name] for name in NEW]
    text = "Truths by Gauss–Legendre quadrature. " + "; ".join(f"**{one.name}**: {one.story}" for one in known) + "."
    return Section("Beyond the bars", lines, text)


SECTIONS: tuple[Callable[[Book], Section], ...] = (
    exactness, reliability, bounds, against_plugin, calibration_tests, grouping, grouping_tests, irreducible, guard,
    null_of_three, sentences, *rough.SECTIONS, further,
)  # fmt: skip
