"""paired_comparison(): methods against a baseline, split by split, with tests that allow for overlapping splits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, parse_number, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._document.model import Range
from scoreprism._document.result import TermTable
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding, Noted, announce
from scoreprism._findings.wording import plural, write_percent
from scoreprism._kernels.holm import holm
from scoreprism._kernels.paired_tests import ALTERNATIVES, corrected_t, wilcoxon_p
from scoreprism._parameters import described
from scoreprism.pipelines._split_tables import LongTable, align_splits, find_deviation, make_label, read_long


@dataclass(frozen=True)
class PairedLine:
    """
    One method against the baseline, under one loss.

    Attributes
    ----------
    method, loss : str
        What is compared; the loss is empty where the frame names none.
    n_splits : int
        Number of splits.
    mean, sd : float
        Of the differences, method − baseline.
    win_rate : float
        Share of splits on the side of the alternative; below the baseline where it is two-sided.
    ties : int
        Splits without a difference.
    wilcoxon_p, wilcoxon_p_holm : float
        Signed-rank test, before and after Holm's correction over the methods.
    t_p, t_p_holm : float
        Corrected resampled t-test; NaN where numbers of rows are not known.
    low, high : float
        Interval of the mean difference, from the same t.

    Examples
    --------
    >>> PairedLine("a", "log", 9, -0.1, 0.1, 1.0, 0, 0.01, 0.02, 0.04, 0.08, -0.3, 0.1).label
    'a, log'
    """

    method: str
    loss: str
    n_splits: int
    mean: float
    sd: float
    win_rate: float
    ties: int
    wilcoxon_p: float
    wilcoxon_p_holm: float
    t_p: float
    t_p_holm: float
    low: float
    high: float

    @property
    def label(self) -> str:
        """Method and loss."""
        return make_label(self.method, self.loss)


@dataclass(frozen=True, eq=False, repr=False)
class PairedComparison(Noted, TermTable):
    """
    Methods against a baseline over the same splits.

    Made by `paired_comparison`.

    Attributes
    ----------
    names : tuple of str
        Methods (with their losses), one for each line.
    baseline, metric, alternative : str
        What was compared, and how.
    confidence_level : float
        Confidence level of the intervals.
    test_ratio : float
        n_test / (n_train + n_calibration), the correction of the t-test; 0 for none, NaN where it is not known.
    lines : tuple of PairedLine
        The numbers.
    differences : dict of str to array
        Differences of every split, by name.
    findings : tuple of Finding
        Cautions.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism.pipelines import paired_comparison
    >>> frame = pl.DataFrame(
    ...     {"split": [0, 0, 1, 1, 2, 2], "method": ["a", "b"] * 3, "raw": [0.5, 0.4, 0.6, 0.4, 0.5, 0.2]}
    ... )
    >>> result = paired_comparison(frame, baseline="a", metric="raw", test_ratio=0.25)
    >>> result.lines[0].win_rate, round(result.lines[0].mean, 3), round(result.lines[0].t_p, 3)
    (1.0, -0.2, 0.06)
    """

    baseline: str
    metric: str
    alternative: str
    confidence_level: float
    test_ratio: float
    lines: tuple[PairedLine, ...]
    differences: dict[str, FloatArray]
    findings: tuple[Finding, ...]

    @property
    def terms(self) -> dict[str, float]:
        """Mean differences by name."""
        return {line.label: line.mean for line in self.lines}

    def __getitem__(self, name: str) -> PairedLine:
        return self.lines[self.names.index(parse_choice(name, self.names, "name"))]

    def to_dict(self) -> dict[str, Any]:
        """
        Everything but the differences as plain Python objects.

        Returns
        -------
        dict
            With one entry in "comparisons" for every method and loss; numbers that are not known are None.
        """
        ratio = None if math.isnan(self.test_ratio) else self.test_ratio
        return {
            "baseline": self.baseline,
            "metric": self.metric,
            "alternative": self.alternative,
            "confidence_level": self.confidence_level,
            "test_ratio": ratio,
            "comparisons": [
                {key: None if value != value else encode(value) for key, value in vars(line).items()}
                for line in self.lines
            ],
            "findings": [one.to_dict() for one in self.findings],
        }

    def _columns(self) -> dict[str, list[Any]]:
        return {key: [getattr(line, key) for line in self.lines] for key in PairedLine.__dataclass_fields__}

    def _shown_columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"method": [line.method for line in self.lines]}
        if any(line.loss for line in self.lines):
            columns["loss"] = [line.loss for line in self.lines]
        columns["Δ mean"] = [line.mean for line in self.lines]
        columns["± sd"] = [line.sd for line in self.lines]
        columns["wins"] = [_write_wins(line) for line in self.lines]
        columns[f"{write_percent(self.confidence_level)} interval"] = [
            Range(line.low, line.high) for line in self.lines
        ]
        columns["corrected t, Holm p"] = [line.t_p_holm for line in self.lines]
        columns["Wilcoxon, Holm p"] = [line.wilcoxon_p_holm for line in self.lines]
        return columns

    def _kinds(self) -> Mapping[str, str]:
        return {"wins": "number", **dict.fromkeys(("corrected t, Holm p", "Wilcoxon, Holm p"), "pvalue")}

    def _title(self) -> str:
        sign = {"less": "< 0", "greater": "> 0", "two-sided": "≠ 0"}[self.alternative]
        count = self.lines[0].n_splits
        return f"{self.metric}: Δ = method − {self.baseline} over {count} splits, tests of Δ {sign}"

    def _findings(self) -> Sequence[Finding]:
        return self.findings


def _write_wins(line: PairedLine) -> str:
    """The share of splits that a method wins, and how many are ties."""
    return f"{100 * line.win_rate:.0f} %" + (f" ({plural(line.ties, 'tie')})" if line.ties else "")


@described()
def paired_comparison(
    frame: Any,
    *,
    baseline: str,
    metric: str = "reliability",
    loss: str | None = None,
    alternative: str = "less",
    confidence_level: float = 0.95,
    test_ratio: float | None = None,
    split: str = "split",
    method: str = "method",
    loss_column: str = "loss",
) -> PairedComparison:
    """
    Compare methods with a baseline over repeated splits (paper, appendix D).

    Parameters
    ----------
    frame : SplitTable or frame
        The result of `repeated_splits`, or any frame of pandas, polars or pyarrow with one row per split, method and,
        optionally, loss.
    baseline : str
        The method that the others are compared with.
    metric : str, default="reliability"
        The column of numbers; for instance "raw", "recalibrated", "reliability_plugin" or "lcs".
    loss : str, optional
        One of the losses; all by default, each a separate family for Holm's correction.
    alternative : {"less", "greater", "two-sided"}, default="less"
        Which differences, method − baseline, the tests look for: "less" where small numbers are good.
    test_ratio : float, optional
        n_test / (n_train + n_calibration), for the corrected t-test; 0 for splits that share no rows, which makes it
        the ordinary one. By default from the columns n_train, n_calibration (if there is one) and n_test.
    split, method, loss_column : str, default="split", "method" and "loss"
        Names of the columns; a frame may have no losses.

    Returns
    -------
    PairedComparison
        Mean and standard deviation of the differences, win rates, tests and intervals.

    Warns
    -----
    DoubleUseWarning
        If a method was fitted on the rows of its calibrator (column double_use), unless the metric is "raw", which does
        not depend on the calibrator.

    Notes
    -----
    Wilcoxon's signed-rank test drops splits without a difference. Up to 50 splits without ties it is exact; many
    splits get the normal approximation with a continuity correction, as in R's ``wilcox.test``. It assumes independent
    splits, which they are not. The corrected resampled t-test (Nadeau & Bengio 2003) multiplies the variance of the
    differences by 1/J + n_test/n_train instead of 1/J. All rows used for fitting count as n_train, those
    of the calibrator as well: what matters is the share of rows that two splits have in common. Losses are correlated
    about as much as this says; reliabilities, which contain the square of the calibrator's noise, much less, so that
    the corrected test of them rejects too rarely (docs/splits.md has the figures).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scoreprism.pipelines import paired_comparison, repeated_splits
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1)) + np.zeros((1, 4))                  # four times the same feature
    >>> y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    >>> models = {"logistic": LogisticRegression(), "bayes": GaussianNB()}   # naive Bayes counts it four times
    >>> table = repeated_splits(
    ...     models, X, y, n_splits=20, calibrator="platt", ensembles=(), clip=1e-6, noise_floor=0, random_state=0
    ... )
    >>> result = paired_comparison(table, baseline="bayes", loss="log")
    >>> result.lines[0].win_rate, bool(result.lines[0].t_p < 0.05)
    (1.0, True)
    """
    table = read_long(frame, {"split": split, "method": method, "loss": loss_column})
    base = parse_choice(baseline, table.methods, "baseline")
    side, confidence = parse_choice(alternative, ALTERNATIVES, "alternative"), parse_confidence(confidence_level)
    others = [name for name in table.methods if name != base]
    if not others:
        refuse("`frame` must hold a method beside the baseline", f"{base!r} alone", "Pass a table of several methods.")
    ratio = _parse_ratio(table, test_ratio)
    lines: list[PairedLine] = []
    differences: dict[str, FloatArray] = {}
    without: list[Finding] = []
    losses, metric = table.select_losses(loss), table.parse_metric(metric)
    for one in losses:
        values = align_splits(table, metric, one, [base, *others], infinite=len(losses) > 1)
        without += _find_left_out(values, one, metric, base, others)
        deltas = {name: values[name] - values[base] for name in others if {name, base} <= set(values)}
        family = _compare_family(deltas, one, side, confidence, ratio)
        lines += family
        differences |= {line.label: deltas[line.method] for line in family}
    if not lines:
        refuse(f"{metric} must be finite", "infinite numbers under every loss", "Pass `clip`=1e-6 to repeated_splits.")
    if lines[0].n_splits < 2:
        refuse("a comparison must have at least two splits", "1", "Pass more splits.")
    findings = [*([] if ratio == 0.0 else [Finding("overlapping_splits")]), *without, *_find_double_use(table, metric)]
    findings += [Finding("test_ratio_unknown")] if math.isnan(ratio) else []
    names = tuple(line.label for line in lines)
    return PairedComparison(
        names, table.backend, base, metric, side, confidence, ratio, tuple(lines), differences, tuple(findings)
    )


def _find_left_out(
    values: dict[str, FloatArray], loss: str, metric: str, base: str, others: Sequence[str]
) -> list[Finding]:
    """Methods that are not compared because they are infinite; all, if the baseline is."""
    infinite = [name for name in (base, *others) if name not in values]
    facts = {"reason": "infinite", "names": infinite, "all": base in infinite, "loss": loss, "metric": metric}
    return [Finding("left_out", facts=facts)] if infinite else []


def _parse_ratio(table: LongTable, test_ratio: float | None) -> float:
    """Test rows divided by rows used for fitting; the mean if splits differ in size."""
    if test_ratio is not None:
        return parse_number(test_ratio, "test_ratio", "a number from 0 on, n_test / n_train", lambda v: v >= 0.0)
    if not {"n_train", "n_test"} <= set(table.columns):
        return math.nan
    learned = table.get_numbers("n_train")
    if "n_calibration" in table.columns:
        learned = learned + table.get_numbers("n_calibration")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.mean(table.get_numbers("n_test") / learned))
    if not (math.isfinite(ratio) and ratio > 0.0):
        refuse("n_train and n_test must hold numbers of rows", f"a ratio of {ratio:g}", "Pass `test_ratio`.")
    return ratio


def _find_double_use(table: LongTable, metric: str) -> list[Finding]:
    """Methods fitted on the rows of their calibrator; none for the raw loss, which does not depend on it."""
    methods = [] if metric == "raw" else table.find_double_use()
    return [announce(Finding("calibrator_reused", facts={"methods": list(methods)}))] if methods else []


def _compare_family(
    deltas: dict[str, FloatArray], loss: str, alternative: str, confidence_level: float, ratio: float
) -> list[PairedLine]:
    """One line for each method, p-values corrected over all of them."""
    signed = {name: wilcoxon_p(delta, alternative) for name, delta in deltas.items()}
    tested = {name: corrected_t(delta, alternative, confidence_level, ratio) for name, delta in deltas.items()}
    signed_holm = dict(zip(signed, holm(list(signed.values())), strict=True))
    t_holm = dict(zip(tested, holm([p for p, _, _ in tested.values()]), strict=True))
    sign = 1.0 if alternative == "greater" else -1.0
    return [
        PairedLine(
            method=name,
            loss=loss,
            n_splits=int(delta.size),
            mean=float(delta.mean()),
            sd=find_deviation(delta),
            win_rate=float(np.mean(sign * delta > 0.0)),
            ties=int(np.sum(delta == 0.0)),
            wilcoxon_p=signed[name],
            wilcoxon_p_holm=signed_holm[name],
            t_p=tested[name][0],
            t_p_holm=t_holm[name],
            low=tested[name][1],
            high=tested[name][2],
        )
        for name, delta in deltas.items()
    ]
