"""Roles of the columns of a file, found by the names that the user gave."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NoReturn

from scoreprism._core.checks import quote, refuse
from scoreprism._findings.wording import plural
from scoreprism.cli._words import list_names

#: Roles of one column each, in which no value may be missing.
_SINGLE = ("target", "q", "latent", "time", "weight", "groups")
#: Characters between the words of a name.
JOINTS = "_-. :/"


@dataclass(frozen=True)
class ReadOptions:
    """Which columns are what, as the user named them, and how the file is read."""

    target: str | None = None  # outcomes
    scores: tuple[str, ...] = ()  # models: a column each, or "p_*" or "p_a,p_b,p_c" for one of several classes
    models: tuple[str, ...] = ()  # models of one column each, by name, pattern or list
    features: tuple[str, ...] = ()
    all_features: bool = False  # whether every column without another role is a feature
    q: str | None = None  # P(Y=1 | X)
    latent: str | None = None  # P(Y=1 | Z)
    segments: tuple[str, ...] = ()  # columns that split the rows into segments
    time: str | None = None
    weight: str | None = None
    pos_label: str | None = None  # the class whose probability scores of one column are
    groups: str | None = None  # groups of dependent rows
    delimiter: str | None = None  # between fields; None: found from the first lines
    decimal_comma: bool = False  # whether "0,5" is a half
    encoding: str = "utf-8"  # of text
    drop_missing: bool = False  # whether rows with missing values in the columns named are dropped
    logits: bool = False  # whether scores are logits
    as_given: bool = False  # whether a score that falls with its class is taken as it is
    max_gigabytes: float = 8.0  # more than this is refused
    time_format: str | None = None  # how times are written, as in `datetime.strptime`; None for ISO 8601
    strict: bool = False  # whether a file that may not be complete is refused

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ReadOptions:
        """From the options of a command, of which some are about other things."""
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})

    @property
    def single(self) -> dict[str, str]:
        """Roles of one column each, and the names in them."""
        return {role: name for role in _SINGLE if (name := getattr(self, role)) is not None}


class Names:
    """The columns of a file."""

    def __init__(self, names: Sequence[str]) -> None:
        self.all = list(names)
        self.twice = [name for name, k in Counter(self.all).items() if k > 1]
        self._place = {name: i for i, name in enumerate(self.all)}

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def __getitem__(self, name: str) -> int:
        return self._place[name]

    def find(self, name: str, role: str) -> int:
        """Position of a column; its name must be there, once."""
        if name not in self._place:
            _refuse_column(name, self.all, role)
        if name in self.twice:
            refuse("a column in use must have a unique name", f"{quote(name)} twice", "Rename one of them.")
        return self._place[name]

    def of(self, positions: Iterable[int]) -> list[str]:
        """Names of columns."""
        return [self.all[i] for i in positions]

    def require_distinct(self) -> None:
        """Refuse names that occur twice, where every column is kept."""
        if self.twice:
            rule = "columns that are written back must have unique names"
            refuse(rule, f"{list_names(self.twice)} twice", "Rename one of them.")


def _refuse_column(name: str, names: Sequence[str], role: str) -> NoReturn:
    """Refuse a column that is not there, and suggest similar names."""
    folded = name.strip().casefold()
    alike = [other for other in names if other.strip().casefold() == folded]
    near = list(dict.fromkeys([*alike, *difflib.get_close_matches(name, names[:1000], n=3, cutoff=0.6)]))[:3]
    hint = f"Did you mean {' or '.join(map(quote, near))}? " if near else ""
    if names and all(_is_number(other) for other in names):
        hint = "The first line must hold the column names. "
    elif len(names) == 1:
        hint += "If another character separates the fields, pass it as --delimiter. "
    refuse(f"{role} must be a column of the file", quote(name), f"{hint}The columns are {list_names(names)}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ── scores ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Score:
    """A model, as the user named it: one column of two classes, or several that belong together."""

    name: str  # what it is called
    columns: tuple[int, ...]  # positions in the file
    classes: tuple[str, ...] = ()  # the class of each column, from its name; empty for one column
    #: Other readings of the names of listed columns: any start that they share may not belong to the class.
    other_classes: tuple[tuple[str, ...], ...] = ()


def find_scores(given: Sequence[str], names: Sequence[str]) -> list[Score]:
    """Find the columns of each model."""
    scores: list[Score] = []
    for word in given:
        score = _find_score(word, names, "--score")
        if any(other.columns == score.columns for other in scores):
            refuse("a score must be named once", f"{quote(word)} twice", "Remove one of them.")
        if any(other.name == score.name for other in scores):
            score = replace(score, name=word)
        scores.append(score)
    return scores


def find_models(given: Sequence[str], names: Sequence[str], apart: Collection[int]) -> list[Score]:
    """Find models of one column each; a pattern does not match columns with another role (`apart`)."""
    models: dict[int, Score] = {}
    for word in given:
        if word in names or word.count("*") != 1:
            columns = _find_score(word, names, "--models").columns
        else:
            columns = tuple(i for i in _match(word, names) if i not in apart)
        if not columns:
            got = f"{quote(word)}, which matches none without another role"
            refuse("--models must match a column", got, f"The columns are {list_names(names)}.")
        models |= {i: Score(names[i], (i,)) for i in columns if i not in apart}
    return list(models.values())


def _find_score(word: str, names: Sequence[str], option: str) -> Score:
    """Find the columns of one model, given by a name, a pattern or a list."""
    if word in names:
        return Score(word, (names.index(word),))
    if word.count("*") == 1:
        return _find_pattern(word, names)
    if "*" in word:
        refuse("a pattern of scores must have exactly one *", quote(word), "For example 'p_*'.")
    parts = [part if part in names else part.strip() for part in word.split(",")]
    if len(parts) == 1:
        _refuse_column(word, names, option)
    for part in parts:
        if part not in names:
            _refuse_column(part, names, f"each name in {option}")
    if len(set(parts)) < len(parts):
        refuse("a list of scores must name each column once", quote(word), "Remove the duplicate.")
    common = os.path.commonprefix(parts)  # noqa: RUF071 - names, not paths
    cut = max(common.rfind(joint) + 1 for joint in JOINTS) or len(common)
    if any(len(part) == cut for part in parts):
        cut = 0
    columns = tuple(names.index(part) for part in parts)
    classes, *others = [tuple(part[k:] for part in parts) for k in (cut, *range(len(common) + 1))]
    return Score(common[:cut].rstrip(JOINTS) or word, columns, classes, tuple(others))


def _find_pattern(word: str, names: Sequence[str]) -> Score:
    before, _, after = word.partition("*")
    fits = _match(word, names)
    if len(fits) < 2:
        got = f"{quote(word)}, which matches {plural(len(fits), 'column')}"
        hint = "If each column is a model of its own, pass --models. " if fits else ""
        refuse(
            "a pattern of scores must match a column for each class", got, f"{hint}The columns are {list_names(names)}."
        )
    classes = tuple(names[i][len(before) : len(names[i]) - len(after)] for i in fits)
    return Score(before.rstrip(JOINTS) or after.lstrip(JOINTS) or word, tuple(fits), classes)


def _match(word: str, names: Sequence[str]) -> list[int]:
    """Positions of the columns that match a pattern, whose star stands for at least one character."""
    before, _, after = word.partition("*")
    least = len(before) + len(after)
    return [i for i, name in enumerate(names) if name.startswith(before) and name.endswith(after) and len(name) > least]


# ── all roles ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Roles:
    """Columns in their roles."""

    given: ReadOptions  # the names of columns, as given or as found
    names: Names  # the columns of the file
    scores: list[Score]  # the models
    features: list[int]  # positions of the features
    notes: list[str]  # what a user should know

    @cached_property
    def required(self) -> dict[int, str]:
        """Columns in which no value may be missing, and their roles."""
        scores = {i: "score" for score in self.scores for i in score.columns}
        return scores | {self.names[name]: role for role, name in self.given.single.items()}

    @property
    def used(self) -> list[int]:
        """Positions of all columns that have a role."""
        return sorted({*self.required, *self.features, *(self.names[name] for name in self.given.segments)})

    def describe(self, i: int) -> str:
        """A column without missing values, with its role."""
        return f"{self.required[i]} {quote(self.names.all[i])}"

    def to_dict(self, features: Iterable[str]) -> dict[str, Any]:
        """Names in their roles, as plain values; of the features those that are used."""
        scores = {score.name: self.names.of(score.columns) for score in self.scores}
        several = {"features": list(features), "segments": list(self.given.segments)}
        return {**self.given.single, "scores": scores, **{role: names for role, names in several.items() if names}}


def find_roles(given: ReadOptions, names: Sequence[str], *, need_target: bool) -> Roles:
    """Find every column that was named."""
    columns, notes = Names(names), list[str]()
    if need_target and not (given.target is not None and (given.scores or given.models)):
        given = _take_language_model(given, columns, notes)
    scores = find_scores(given.scores, columns.all)
    named = [*given.single.values(), *given.segments, *given.features]
    apart = {i for score in scores for i in score.columns} | {columns[name] for name in named if name in columns}
    scores += find_models(given.models, columns.all, apart)
    scored = [columns.find(columns.all[i], "--score") for score in scores for i in score.columns]
    single = {role: columns.find(name, f"--{role}") for role, name in given.single.items()}
    segments = [columns.find(name, "--segment") for name in given.segments]
    _require_apart(given, scored, single, segments)
    features = _find_features(given, columns, {*scored, *single.values(), *segments}, set(scored), notes)
    return Roles(given, columns, scores, features, notes)


def _require_apart(given: ReadOptions, scored: list[int], single: dict[str, int], segments: list[int]) -> None:
    """Refuse columns in two roles that cannot be one thing; groups may be segments too."""
    taken = [*scored, *single.values()]
    for role, i in single.items():
        if role in ("q", "latent"):
            if i in scored:
                rule = f"--{role} must not be a score that is judged by it"
                refuse(rule, quote(given.single[role]), "Name another column.")
        elif [*taken, *(segments if role != "groups" else ())].count(i) > 1:
            refuse(f"the column of --{role} must have no other role", quote(given.single[role]), "Name another column.")


def _take_language_model(given: ReadOptions, columns: Names, notes: list[str]) -> ReadOptions:
    """Use the columns 'confidence' and 'correct' of language models, unless others were named."""
    silent = given.scores in ((), ("confidence",)) and not given.models and given.target in (None, "correct")
    if not (silent and "confidence" in columns and "correct" in columns):
        _refuse_unnamed(given, columns, silent)
    notes.append("Columns 'confidence' and 'correct' are used as score and target.")
    return replace(given, target="correct", scores=("confidence",))


def _refuse_unnamed(given: ReadOptions, columns: Names, silent: bool) -> NoReturn:
    named = {"--target": given.target, "--score": given.scores or given.models}
    missing = " and ".join(f"no {option}" for option, there in named.items() if not there)
    folded = {name.strip().casefold(): name for name in columns.all}
    hint = ""
    if silent and {"confidence", "correct"} <= folded.keys():
        hint = f"Did you mean --target {quote(folded['correct'])} --score {quote(folded['confidence'])}? "
    refuse("a target and a score must be named", missing, f"{hint}The columns are {list_names(columns.all)}.")


def _find_features(
    given: ReadOptions, columns: Names, taken: set[int], scored: set[int], notes: list[str]
) -> list[int]:
    features = [columns.find(name, "--features") for name in dict.fromkeys(given.features)]
    if given.target in given.features:
        refuse("the target must not be a feature", quote(given.target), "Remove it from --features.")
    if given.all_features:
        known = taken | set(features)
        features += [columns.find(name, "--all-features") for i, name in enumerate(columns.all) if i not in known]
        if not features:
            refuse("--all-features must find some", "no column without another role", "Leave it out.")
    both = scored & set(features)
    if both:
        which = list_names(columns.of(sorted(both)))
        if both == set(features):
            refuse("features must not all be scores", which, "Name other columns in --features, or leave it out.")
        notes.append(f"{which} {'is a score, not a feature' if len(both) == 1 else 'are scores, not features'}.")
    return [i for i in features if i not in both]
