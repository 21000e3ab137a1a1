"""decompose() for several classes: scaling fitted to all rows by sums of gradients, or a sample of stated size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import listed, parse_choice, parse_clip, parse_count, parse_random_state, plain, refuse
from scoreprism._fitting.chain_fit import parse_losses
from scoreprism._spelling import mark
from scoreprism.decomposition._intervals import FORMS
from scoreprism.losses import ProperLoss
from scoreprism.scale._class_fit import by_gradients
from scoreprism.scale._class_result import ClassRequest
from scoreprism.scale._class_sample import by_sample
from scoreprism.scale._classes import MOST_CLASSES, ClassColumns, find_facts, read_rows
from scoreprism.scale._engines import scan
from scoreprism.scale._gradients import Scaling
from scoreprism.scale._laws import CLASS_FORMULAS
from scoreprism.scale._result import ScaledDecomposition
from scoreprism.scale._roles import Roles, parse_by, parse_folds, require_law_below
from scoreprism.scale._sample import SAMPLE

#: Vector scaling of more classes than this has too many second derivatives for one pass.
_MOST_VECTOR = 20


def decompose_classes(
    data: Any,
    *,
    score: Sequence[str],
    binary: Callable[..., Any],
    classes: object = None,
    sample: int | None = None,
    **options: Any,
) -> ScaledDecomposition | dict[str, ScaledDecomposition]:
    """`scale.decompose` where `score` names one column per class."""
    names = _names(score, "score")
    frame = scan(data, engine=options.pop("engine"))
    if len(names) == 2:
        two: ScaledDecomposition = _two_classes(frame, names, classes, sample, binary, options)
        return two
    request = _parse(names, classes, sample, options)
    rows = read_rows(frame, request.columns)
    request = replace(request, columns=rows.columns)
    found = by_gradients(rows, request) if request.scaling is not None else by_sample(frame, rows, request)
    return next(iter(found.values())) if request.single else dict(found)


# ── what was asked for ──────────────────────────────────────────────────────────────────────────────


def _names(value: object, role: str) -> tuple[str, ...]:
    rule = f"{mark(role)} must name one column, or one for each class"
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(name, str) for name in value):
        refuse(rule, plain(value)[:80], "For example ['p_a', 'p_b', 'p_c'].")
    if len(value) < 2:
        refuse(rule, f"{len(value)} in a list", "Pass the name itself, or a column for each class.")
    if len(set(value)) < len(value):
        refuse(f"{mark(role)} must name each column once", listed(value), "Leave the repeated one out.")
    return tuple(value)


def _two_classes(
    frame: Any, names: tuple[str, ...], classes: object, sample: object, binary: Callable[..., Any], options: Any
) -> Any:
    """Two columns that sum to 1: the second says it all."""
    if sample is not None:
        refuse("`sample` must come with three or more classes", "two columns", "Two classes need none: leave it out.")
    given = _classes(classes, 2)
    positive = options.pop("pos_label")
    if given and positive is not None and positive != given[1]:
        refuse(
            "`pos_label` must be the last of `classes`",
            f"{plain(positive)} and {listed(map(plain, given))}",
            "Mend it.",
        )
    roles = Roles(target=options["target"], score=names[0])
    rows = read_rows(frame, ClassColumns(roles, {"S": names}, given))
    find_facts(rows)
    second = rows.columns.classes[1]
    usual = rows.columns.classes in ((0, 1), (-1, 1), (False, True))
    last = {role: _last(options.get(role), role) for role in ("q", "latent")}
    return binary(frame, score=names[1], pos_label=None if usual else second, **{**options, **last})


def _last(value: object, role: str) -> Any:
    return value if value is None or isinstance(value, str) else _names(value, role)[-1]


def _classes(classes: object, k: int) -> tuple[Any, ...]:
    if classes is None:
        return ()
    labels = list(np.asarray(classes, dtype=object).ravel()) if isinstance(classes, np.ndarray) else classes
    rule = f"`classes` must be the {k} labels in the order of the columns"
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        refuse(rule, plain(classes)[:80], "For example ['a', 'b', 'c'].")
    if len(labels) != k or len(set(labels)) < k:
        refuse(rule, listed(map(plain, labels), 10), "Write each label once.")
    return tuple(label.item() if isinstance(label, np.generic) else label for label in labels)


def _parse(names: tuple[str, ...], classes: object, sample: object, options: Mapping[str, Any]) -> ClassRequest:
    k, loss = len(names), options["loss"]
    if k > MOST_CLASSES:
        refuse(f"`score` must name at most {MOST_CLASSES} columns", f"{k}", "Group the rare classes.")
    if options["pos_label"] is not None:
        refuse("`pos_label` must be left out with several classes", plain(options["pos_label"]), "Pass `classes`=.")
    single = isinstance(loss, (str, ProperLoss))
    losses = parse_losses([loss] if single else list(loss))
    scaling = Scaling.of(options["calibrator"]) if sample is None else None
    columns = ClassColumns(_roles(names, options), _laws(names, options), _classes(classes, k))
    size = SAMPLE if sample is None else parse_count(sample, "sample", 100)
    form = parse_choice(options["form"], FORMS, "form")
    if scaling is not None:
        _require_fit(scaling, columns, losses, form)
    seed = int(parse_random_state(options["random_state"]).integers(2**31))
    return ClassRequest(
        columns=columns,
        losses=losses,
        calibrator=options["calibrator"],
        scaling=scaling,
        cv=options["cv"],
        form=form,
        clip=parse_clip(options["clip"], k),
        seed=seed,
        random_state=options["random_state"],
        sample=size,
        single=single,
    )


def _require_fit(scaling: Scaling, columns: ClassColumns, losses: dict[str, ProperLoss], form: str) -> None:
    """What a fit to all rows cannot do, and what can."""
    remedy = "Pass `calibrator`='auto', which fits to a sample."
    if columns.roles.fold is None:
        refuse(
            f"`calibrator`={scaling.name!r} must have folds, for laws to be judged on rows they were not fitted on",
            "neither cv_column nor key",
            "Pass `key`=, a column of whole numbers that is hashed to folds, or `cv_column`=; or `calibrator`='auto', "
            "which fits to a sample.",
        )
    other = [name for name, loss in losses.items() if type(loss) not in CLASS_FORMULAS]
    if other:
        known = ", ".join(cls.name for cls in CLASS_FORMULAS)
        refuse(f"`loss` must be one that engines evaluate ({known})", listed(other), remedy)
    if form == "plugin":
        refuse("`form` must be 'debiased' or 'difference' without rows", "'plugin'", remedy)
    if scaling.vector and columns.k > _MOST_VECTOR:
        what = f"`calibrator`='vector' must have at most {_MOST_VECTOR} classes"
        refuse(what, f"{columns.k}", "Use `calibrator`='temperature', or 'auto', which fits to a sample.")


def _roles(names: tuple[str, ...], options: Mapping[str, Any]) -> Roles:
    fold, fold_hash = parse_folds(options["cv"], options["cv_column"], options["key"])
    given = {name: options[name] for name in ("target", "sample_weight", "time", "cv_column", "key")}
    for role, name in given.items():
        if not isinstance(name, str) and (name is not None or role == "target"):
            refuse(f"{mark(role)} must be the name of a column", plain(name)[:80], "For example 'label'.")
    return Roles(
        target=options["target"],
        score=names[0],
        weight=options["sample_weight"],
        by=parse_by(options["by"]),
        time=options["time"],
        every=options["every"],
        fold=fold,
        fold_hash=fold_hash,
    )


def _laws(names: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    laws = {"S": names}
    require_law_below(options["q"], options["latent"])
    for level, role in (("Q", "q"), ("Π", "latent")):
        if options[role] is not None:
            laws[level] = _names(options[role], role)
            if len(laws[level]) != len(names):
                refuse(
                    f"{mark(role)} must have as many columns as `score`",
                    f"{len(laws[level])} and {len(names)}",
                    "Add them.",
                )
    return laws
