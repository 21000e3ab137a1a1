"""Which columns of a file are what: names that users gave, found among names that are data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from scoreprism._core.checks import refuse
from scoreprism.cli._scores import Score, find_models, find_scores
from scoreprism.cli._words import refuse_column, several, shown


@dataclass(frozen=True)
class Roles:
    """Which columns are what, as the user named them."""

    target: str | None = None  # outcomes
    scores: tuple[str, ...] = ()  # models: a column each, or "p_*" or "p_a,p_b,p_c" for one of several classes
    models: tuple[str, ...] = ()  # models of one column each, by name, pattern or list
    features: tuple[str, ...] | None = None  # features
    all_features: bool = False  # whether every column without another role is a feature
    reference: str | None = None  # P(Y=1 | X) and P(Y=1 | Z)
    latent: str | None = None  # P(Y=1 | X) and P(Y=1 | Z)
    groups: tuple[str, ...] = ()  # columns that split the rows into segments
    time: str | None = None  # times and weights
    weight: str | None = None  # times and weights
    pos_label: str | None = None  # the label that scores of one column speak of
    cluster: str | None = None  # what rows have in common that are not independent


#: Roles of one column each, in which no value may be missing.
_SINGLE = ("target", "reference", "latent", "time", "weight", "cluster")


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
            refuse_column(name, self.all, role)
        if name in self.twice:
            refuse("a column that is used must have a name of its own", f"{shown(name)} twice", "Rename one of them.")
        return self._place[name]

    def of(self, positions: Iterable[int]) -> list[str]:
        """Names of columns."""
        return [self.all[i] for i in positions]

    def require_distinct(self) -> None:
        """Refuse names that occur twice, where every column is kept."""
        if self.twice:
            rule = "columns that are written again must have names of their own"
            refuse(rule, f"{several(self.twice)} twice", "Rename one of them.")


@dataclass(frozen=True)
class Found:
    """Columns in their roles."""

    roles: Roles  # what was named, or taken for named
    names: Names  # the columns of the file
    scores: list[Score]  # the models
    features: list[int]  # positions of the features
    notes: list[str]  # what a user should know

    @property
    def required(self) -> dict[int, str]:
        """Columns in which no value may be missing, and their roles."""
        found = {i: "score" for score in self.scores for i in score.columns}
        for role in _SINGLE:
            name = getattr(self.roles, role)
            if name is not None:
                found[self.names[name]] = role
        return found

    @property
    def used(self) -> list[int]:
        """Positions of all columns that have a role."""
        groups = {self.names[name] for name in self.roles.groups}
        return sorted({*self.required, *self.features, *groups})

    def described(self) -> dict[str, Any]:
        """Names in their roles, as plain values."""
        roles = self.roles
        told: dict[str, Any] = {role: getattr(roles, role) for role in _SINGLE if getattr(roles, role) is not None}
        told["scores"] = {score.name: self.names.of(score.columns) for score in self.scores}
        if self.features:
            told["features"] = self.names.of(self.features)
        if roles.groups:
            told["groups"] = list(roles.groups)
        return told


def find_roles(roles: Roles, names: Sequence[str], *, whole: bool) -> Found:
    """Find every column that was named."""
    columns, notes = Names(names), list[str]()
    roles = _assumed(roles, columns, notes, whole)
    scores = find_scores(roles.scores, columns.all)
    scores += find_models(roles.models, columns.all, _other_roles(roles, columns, scores))
    taken = [columns.find(columns.all[i], "--score") for score in scores for i in score.columns]
    judged = set(taken)
    for role in _SINGLE:
        name = getattr(roles, role)
        if name is not None:
            taken.append(columns.find(name, f"--{role}"))
    alone = list(taken)  # clusters may also be looked at one by one
    taken += [columns.find(name, "--group") for name in roles.groups]
    _require_apart(roles, columns, judged, {"cluster": alone}, taken)
    return Found(roles, columns, scores, _features(roles, columns, set(taken), scores, notes), notes)


def _other_roles(roles: Roles, columns: Names, scores: list[Score]) -> set[int]:
    """Columns that a pattern of --models does not mean."""
    named = [getattr(roles, role) for role in _SINGLE] + [*roles.groups, *(roles.features or ())]
    return {i for score in scores for i in score.columns} | {columns[name] for name in named if name in columns}


def _require_apart(
    roles: Roles, columns: Names, judged: set[int], limited: dict[str, list[int]], taken: list[int]
) -> None:
    """Refuse columns in two roles that cannot be one thing."""
    for role in ("target", "time", "weight", "cluster"):
        name = getattr(roles, role)
        if name is not None and limited.get(role, taken).count(columns[name]) > 1:
            refuse(f"the {role} must have no other role", shown(name), "Name another column.")
    for role in ("reference", "latent"):
        name = getattr(roles, role)
        if name is not None and columns[name] in judged:
            refuse(f"--{role} must not be a score that is judged by it", shown(name), "Name another column.")


def _assumed(roles: Roles, columns: Names, notes: list[str], whole: bool) -> Roles:
    """What was named; where nothing was, the columns that language models are judged by."""
    if whole or ((roles.scores or roles.models) and roles.target is not None):
        return roles
    # without a word, or with one of the two that everybody uses
    judged = roles.scores in ((), ("confidence",)) and not roles.models and roles.target in (None, "correct")
    if not (judged and "confidence" in columns and "correct" in columns):
        _refuse_unnamed(roles, columns, judged)
    notes.append("Columns 'confidence' and 'correct' are taken for score and target.")
    return replace(roles, target="correct", scores=("confidence",))


def _refuse_unnamed(roles: Roles, columns: Names, judged: bool) -> NoReturn:
    given = {"--target": roles.target, "--score": roles.scores or roles.models}
    missing = " and ".join(f"no {option}" for option, there in given.items() if not there)
    folded = {name.strip().casefold(): name for name in columns.all}
    hint = ""
    if judged and {"confidence", "correct"} <= folded.keys():
        hint = f"Did you mean --target {shown(folded['correct'])} --score {shown(folded['confidence'])}? "
    refuse("a target and a score must be named", missing, f"{hint}The columns are {several(columns.all)}.")


def _features(roles: Roles, columns: Names, taken: set[int], scores: list[Score], notes: list[str]) -> list[int]:
    features = [columns.find(name, "--features") for name in dict.fromkeys(roles.features or ())]
    if roles.target in (roles.features or ()):
        refuse("the target must not be a feature", shown(roles.target), "Take it out of --features.")
    if roles.all_features:
        known = taken | set(features)
        rest = [name for i, name in enumerate(columns.all) if i not in known]
        features += [columns.find(name, "--all-features") for name in rest]
        if not features:
            refuse("--all-features must find some", "no column without another role", "Leave it out.")
    judged = {i for score in scores for i in score.columns} & set(features)
    if judged:
        which = several(columns.of(sorted(judged)))
        if judged == set(features):
            refuse("features must not all be scores", which, "Name other columns in --features, or leave it out.")
        notes.append(f"{which} {'is a score, and no feature' if len(judged) == 1 else 'are scores, and no features'}.")
    return [i for i in features if i not in judged]
