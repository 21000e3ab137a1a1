"""Finding: one thing that was concluded, as data; and KINDS, the closed table of what can be."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from scoreprism import exceptions as ours

#: What a finding is to its reader, the most urgent first. A doubt forbids acting on the terms next to its level.
SEVERITIES = ("action", "statement", "doubt", "caution", "provenance", "gate")


#: A gain that does not reach this share of the loss is not worth a change.
MIN_GAIN = 0.01


class Kind(NamedTuple):
    """What all findings of a kind share."""

    severity: str
    warning: type[ours.ScoreprismWarning] | None = None  # also issued as this
    overrules: frozenset[str] = frozenset()  # kinds that are dropped beside it, of the same model


def _action(*overrules: str, warning: type[ours.ScoreprismWarning] | None = None) -> Kind:
    return Kind("action", warning, frozenset(overrules))


def _statement(*overrules: str) -> Kind:
    return Kind("statement", None, frozenset(overrules))


def _doubt(warning: type[ours.ScoreprismWarning] | None = None) -> Kind:
    return Kind("doubt", warning)


def _caution(warning: type[ours.ScoreprismWarning] | None = None) -> Kind:
    return Kind("caution", warning)


_PROVENANCE, _GATE = Kind("provenance"), Kind("gate")

#: Every kind there is. Code asks for kinds and numbers, never for words.
KINDS: dict[str, Kind] = {
    # what to do
    "infinite_loss": _action(warning=ours.InfiniteLossWarning),
    "do_not_act": _action(),
    "recalibrate": _action("recalibrate_size_open", "inconclusive", "no_lower_loss", "reachable_loss"),
    "recalibrate_size_open": _statement("no_miscalibration", "inconclusive"),
    "information_gain": _action("information_size_open", "inconclusive", "no_lower_loss", "reachable_loss"),
    "information_size_open": _statement("no_information_gain", "inconclusive"),
    "stack": _action("members_add_nothing", "members_insufficient"),
    "keep_members": _action("members_know_more", "members_add_nothing", "members_insufficient"),
    "members_size_open": _statement("members_know_more", "members_add_nothing", "members_insufficient"),
    "recalibration_pays": _action(),
    "stage_choice": _action(),
    "stages_alike": _statement(),
    "infinite_stages": _caution(),
    "infinite_splits": _caution(ours.InfiniteLossWarning),
    # what is known
    "floored": _statement(),
    "not_material": _statement("no_miscalibration", "recalibrate_size_open", "inconclusive"),
    "calibrated_enough": _statement("inconclusive"),
    "no_miscalibration": _statement(),
    "no_information_gain": _statement(),
    "heterogeneity": _statement(),
    "rest_unsplit": _statement(),
    "rest_unknowable": _statement(),
    "reachable_loss": _statement(),
    "no_lower_loss": _statement(),
    "inconclusive": _statement(),
    "term_doubtful": _statement(),
    "members_know_more": _statement("members_add_nothing"),
    "members_insufficient": _statement("members_add_nothing"),
    "members_add_nothing": _statement(),
    "best_model": _statement(),
    "not_worse": _statement(),
    "behind": _statement(),
    "calibration_refuted": _statement("calibration_not_refuted"),
    "miscalibrated_by_bound": _statement("calibration_not_refuted"),
    "calibration_not_refuted": _statement(),
    "event_bias": _statement(),
    "score_spread": _statement(),
    "segment_miscalibrated": _statement("segments_none"),
    "segments_none": _statement(),
    "class_miscalibrated": _statement("classes_none"),
    "classes_none": _statement(),
    "costly_confusion": _statement(),
    "segments_too_small": _statement(),
    "net_benefit": _statement(),
    "decision_cost": _statement(),
    "feature_adds": _statement(),
    "no_feature_adds": _statement(),
    "no_region": _statement(),
    "changed": _statement(),
    "map_gain": _statement(),
    "map_chosen": _statement(),
    "recalibration_costs": _statement(),
    "recalibration_undecided": _statement(),
    "path_loses": _statement(),
    # what a monitor says
    "monitor_pays": _action("monitor_quiet"),
    "monitor_open": _action("monitor_quiet"),
    "monitor_segments": _action("monitor_segments_none"),
    "monitor_alarm": _statement("monitor_quiet"),
    "monitor_quiet": _statement(),
    "monitor_idle": _statement(),
    "monitor_minor": _statement(),
    "monitor_cause": _statement(),
    "monitor_segments_none": _statement(),
    # what forbids acting on some terms
    "trained_on_rows": _doubt(ours.DoubleUseWarning),
    "calibration_reused": _doubt(ours.DoubleUseWarning),
    "parts_share_rows": _doubt(ours.DoubleUseWarning),
    "calibrator_reused": _doubt(ours.DoubleUseWarning),
    "overfit": _doubt(ours.OverfitWarning),
    "worse_than_coarser": _doubt(),
    "cells_too_coarse": _doubt(),
    # what to be careful about
    "not_calibrated_version": _caution(),
    "may_be_trained_on_rows": _caution(),
    "level_overfits": _caution(ours.OverfitWarning),
    "size_unknown": _caution(),
    "few_units": _caution(),
    "few_rows": _caution(),
    "few_surprises": _caution(),
    "few_effective_rows": _caution(),
    "few_calibration_rows": _caution(),
    "few_resamples": _caution(),
    "redrawn": _caution(),
    "shifted_replicates": _caution(),
    "few_held_out_rows": _caution(ours.ScoreprismWarning),
    "extrapolated": _caution(ours.ScoreprismWarning),
    "weights_unused": _caution(ours.ScoreprismWarning),
    "inner_validation": _caution(),
    "reference_limit": _caution(),
    "overlapping_splits": _caution(),
    "test_ratio_unknown": _caution(),
    "plugin_bias": _caution(),
    "in_sample_bias": _caution(),
    "partial_cv": _caution(),
    "dependent_rows": _caution(),
    "zero_weight": _caution(),
    "edge_scores": _caution(),
    "impossible_outcome": _caution(),
    "quantised": _caution(),
    "unreached_scores": _caution(),
    "left_out": _caution(),
    "unavailable": _caution(),
    "order_contradicted": _caution(ours.ContradictedOrderWarning),
    "hard_labels": _caution(ours.HardLabelsWarning),
    "reversed_scores": _caution(ours.ScoreOrderWarning),
    "separation": _caution(ours.SeparationWarning),
    "weight_scale": _caution(ours.WeightScaleWarning),
    "lost_resolution": _caution(ours.LostResolutionWarning),
    "shape_refuted": _caution(ours.RefutedShapeWarning),
    "file_suspect": _caution(ours.DoubtfulFileWarning),
    # where numbers come from
    "law_fitted": _PROVENANCE,
    "law_given": _PROVENANCE,
    "computed_on": _PROVENANCE,
    "candidates_left_out": _PROVENANCE,
    "clipped": _PROVENANCE,
    "unclipped_levels": _PROVENANCE,
    "from_sums": _PROVENANCE,
    "folds_drawn": _PROVENANCE,
    "sampled": _PROVENANCE,
    "approximated": _PROVENANCE,
    "read_as": _PROVENANCE,
    "assumption": _PROVENANCE,
    "monitor_guarantee": _PROVENANCE,
    # conditions under which a run fails
    "gate_reliability": _GATE,
    "gate_calibration": _GATE,
    "gate_unknown": _GATE,
}


@dataclass(frozen=True)
class Finding:
    """
    One thing that was concluded; fields that its kind does not use are empty.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    term, model : str or None
        What it is about.
    level : int or None
        Position of the information level in doubt, the prediction being 0.
    value : float or None
        A number; of findings on a gain the loss that it is a part of.
    low, high : float or None
        Ends of an interval, or bounds on one side: of the gain, or of the number.
    pvalue, confidence_level : float or None
        How sure it is.
    n : int or None
        A count: of rows, unless the kind says otherwise.
    subject : str or None
        A name: of a segment, a feature, a map, a class.
    because : Finding or None
        What it follows from.
    facts : mapping
        Everything else, as plain values.

    Examples
    --------
    >>> finding = Finding("recalibrate", low=0.02, value=0.5, confidence_level=0.95)
    >>> finding.severity, finding.text
    ('action', 'Recalibrate: this gains at least 0.0200 (4.0 %) of the loss.')
    """

    kind: str
    term: str | None = None
    model: str | None = None
    level: int | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    pvalue: float | None = None
    confidence_level: float | None = None
    n: int | None = None
    subject: str | None = None
    because: Finding | None = None
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def severity(self) -> str:
        """What it is to its reader: one of `SEVERITIES`."""
        return KINDS[self.kind].severity

    @property
    def text(self) -> str:
        """The sentence that says so."""
        from scoreprism._findings.sentences import say

        return say(self)

    def about(self, model: str) -> Finding:
        """
        The same about a named model.

        Parameters
        ----------
        model : str
            Its name.

        Returns
        -------
        Finding
            What it follows from is of the same model.
        """
        because = None if self.because is None else self.because.about(model)
        return replace(self, model=model, because=because)

    def with_facts(self, **facts: Any) -> Finding:
        """
        The same with more facts.

        Parameters
        ----------
        **facts : object
            Plain values.

        Returns
        -------
        Finding
            With these beside those it had.
        """
        return replace(self, facts={**self.facts, **facts})

    def to_dict(self) -> dict[str, Any]:
        """
        The finding as plain Python objects: fields that are empty are left out.

        Returns
        -------
        dict
            With its kind, severity and sentence.
        """
        found: dict[str, Any] = {"kind": self.kind, "severity": self.severity, "text": self.text}
        for one in fields(self)[1:]:
            value = getattr(self, one.name)
            if isinstance(value, Finding):
                found[one.name] = value.to_dict()
            elif value is not None and value != {}:
                found[one.name] = dict(value) if one.name == "facts" else value
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """
        Read back what `to_dict` gave; the sentence is made again.

        Parameters
        ----------
        data : mapping
            Fields by name.

        Returns
        -------
        Finding
            Equal to the one that was written.
        """
        known = {one.name for one in fields(cls)}
        values = {key: value for key, value in data.items() if key not in ("severity", "text")}
        if values.get("kind") not in KINDS or not set(values) <= known:
            raise ValueError(f"a finding of the kind {values.get('kind')!r} with the fields {', '.join(values)}")
        if "because" in values:
            values["because"] = cls.from_dict(values["because"])
        return cls(**values)


class Noted:
    """Something that has findings, and gives them in words."""

    findings: tuple[Finding, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(one.text for one in self.findings)


#: Kinds that several terms of a model may have, each its own.
_BY_TERM = frozenset({"no_information_gain", "information_size_open"})


def settle(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings without those that others overrule; each once, in the order they came."""
    distinct: list[Finding] = []
    for one in findings:
        if one not in distinct:
            distinct.append(one)
    gone = {(kind, one.model) for one in distinct for kind in KINDS[one.kind].overrules - _BY_TERM}
    gone_of_term = {(kind, one.model, one.term) for one in distinct for kind in KINDS[one.kind].overrules & _BY_TERM}
    return tuple(
        one
        for one in distinct
        if (one.kind, one.model) not in gone and (one.kind, one.model, one.term) not in gone_of_term
    )


def doubts(findings: Iterable[Finding]) -> dict[int, Finding]:
    """The first doubt of each level, by its position."""
    doubts_by_level: dict[int, Finding] = {}
    for one in findings:
        if one.severity == "doubt" and one.level is not None:
            doubts_by_level.setdefault(one.level, one)
    return doubts_by_level


def of_severity(findings: Iterable[Finding], *severities: str) -> tuple[Finding, ...]:
    """Those that are one of these to their reader."""
    return tuple(one for one in findings if one.severity in severities)


# ── warnings ────────────────────────────────────────────────────────────────────────────────────────


def count_own_frames() -> int:
    """How many frames up the user's own code is: a warning should point there."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "scoreprism":
        level, frame = level + 1, frame.f_back
    return level


def announce(finding: Finding, stacklevel: int | None = None) -> Finding:
    """Issue the warning of a finding, which carries the finding; and return it."""
    kind = KINDS[finding.kind].warning
    if kind is not None:
        warning = kind(finding.text)
        warning.finding = finding  # for those who collect findings, not sentences
        warnings.warn(warning, stacklevel=count_own_frames() if stacklevel is None else stacklevel + 1)
    return finding


@contextmanager
def collect_findings() -> Iterator[list[Finding]]:
    """The findings behind our own warnings, each once, in a list that is filled after the block; others are issued."""
    collected: list[Finding] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ours.ScoreprismWarning)
        yield collected
    for one in caught:
        finding = getattr(one.message, "finding", None)
        if finding is None:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif finding not in collected:
            collected.append(finding)


def select(findings: Sequence[Finding], *kinds: str) -> list[Finding]:
    """Findings of these kinds."""
    return [one for one in findings if one.kind in kinds]
