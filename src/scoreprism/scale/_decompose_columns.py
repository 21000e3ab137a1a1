"""aggregate() and decompose(), for one column of scores or one for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scoreprism._core.checks import (
    abbreviate,
    parse_choice,
    parse_clip,
    parse_count,
    parse_random_state,
    refuse,
    write_plain,
)
from scoreprism._core.progress import track
from scoreprism._core.source_files import verify_files
from scoreprism._fitting.chain_fit import parse_loss, parse_losses
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._spelling import mark
from scoreprism.exceptions import InputError
from scoreprism.losses import ProperLoss
from scoreprism.scale._class_rows import find_facts, read_rows
from scoreprism.scale._class_sample import SAMPLE, decompose_sample
from scoreprism.scale._class_scaling import ClassRequest, Scaling
from scoreprism.scale._class_terms import decompose_all_rows
from scoreprism.scale._column_settings import Agreement, ColumnRoles, Settings, check_columns, has_name, parse_roles
from scoreprism.scale._engine_pass import Scan, refuse_empty, require_few_groups, sum_rows
from scoreprism.scale._engines import (
    EngineError,
    SourcePart,
    list_parts,
    read_schema,
    rename_columns,
    scan,
    to_arrow,
    wrap,
)
from scoreprism.scale._expressions import CELLS, CLASS_FORMULAS, FORMULAS, has_formula, parse_cells
from scoreprism.scale._scaled_result import ScaledDecomposition
from scoreprism.scale._sums import Sums

#: Most classes, and most for vector scaling: second derivatives need a column for each pair of parameters.
MOST_CLASSES, _MOST_VECTOR = 100, 20


def aggregate(
    data: Any,
    *,
    target: str,
    score: str,
    loss: str | ProperLoss | Sequence[str | ProperLoss] = ("log", "brier"),
    q: str | None = None,
    latent: str | None = None,
    cv: int = 5,
    fold_column: str | None = None,
    fold_key: str | None = None,
    sample_weight: str | None = None,
    segments: str | Sequence[str] | None = None,
    time: str | None = None,
    period: str | None = None,
    pos_label: Any = None,
    clip: float | None = None,
    cells: int = CELLS,
    engine: str | None = None,
    verify_checksums: bool = False,
) -> Sums:
    """
    Sum what a decomposition needs, in one pass in the engine that holds the data.

    Parameters
    ----------
    data : path, glob, list of paths, or frame
        Anything that `scan` takes.
    target : str
        Column of outcomes: 0 and 1, −1 and 1, booleans; other labels with `pos_label`.
    score : str
        Column of predicted probabilities of rows the model was not trained on.
    loss : str, ProperLoss or sequence of these, default=("log", "brier")
        Losses whose moments are summed. ``sums.decompose("brier")`` then decomposes one of them.
    q, latent : str, optional
        Columns of given probabilities P(Y = 1 | X) and P(Y = 1 | Z), out of sample.
    cv : int, default=5
        Number of folds that `fold_key` is hashed to.
    fold_column : str, optional
        Column of folds.
    fold_key : str, optional
        Column of whole numbers that is hashed to folds: rows of the same key stay together.
    sample_weight : str, optional
        Column of weights.
    segments : str or sequence of str, optional
        Columns of segments.
    time : str, optional
        Column of periods, or of dates.
    period : {"day", "week", "month", "quarter", "year"}, optional
        Length of a period, for dates; a month if not given.
    pos_label : label, optional
        Positive class: `score` is P(Y = pos_label).
    clip : float, optional
        Keep probabilities at least this far from 0 and 1 in the losses.
    cells : int, default=1024
        Cells of the score, where there are more distinct scores than that.
    engine : str, optional
        What opens files; see `scan`.
    verify_checksums : bool, default=False
        Whether to compare the columns that are used with the checksums of Parquet pages first; see `scan`.

    Returns
    -------
    Sums
        They can be added to those of other rows.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rows = pl.DataFrame({"y": [0, 1, 0, 1], "p": [0.1, 0.8, 0.3, 0.6]})
    >>> scale.aggregate(rows, target="y", score="p")
    Sums(4 rows, 4 distinct scores)
    """
    losses = tuple(parse_losses([loss] if isinstance(loss, (str, ProperLoss)) else list(loss)).values())
    for one in losses:
        if not has_name(one):
            refuse("`loss` must have a name, for sums to be kept", str(one), "Pass it to Sums.decompose instead.")
        if q is not None and not has_formula(one):
            known = ", ".join(sorted(kind.name for kind in FORMULAS))
            refuse("with `q` or `latent`, a loss must be one that engines evaluate", str(one), f"Use {known}.")
    laws = {"S": (score,), **{level: (name,) for level, name in (("Q", q), ("Π", latent)) if name is not None}}
    roles = parse_roles(
        laws, target=target, cv=cv, fold_column=fold_column, fold_key=fold_key, sample_weight=sample_weight,
        segments=segments, time=time, period=period, pos_label=pos_label,
    )  # fmt: skip
    settings = Settings(**vars(roles), losses=losses, cells=parse_cells(cells), clip=parse_clip(clip, 2))
    if verify_checksums:
        verify_files(data, roles.columns.values())
    total: Sums | None = None
    agreement = Agreement()
    frames, many = list_parts(data, engine)
    for part in track(frames, many, "sums of files" if many > 1 else "sums"):
        sums = _sum_part(part, settings, agreement)
        total = sums if total is None else total + sums
        require_few_groups(total)
    assert total is not None  # noqa: S101 - there is at least one part
    if not total.table["n"].size:
        refuse_empty(total.absent)
    return total


def decompose(
    data: Any,
    *,
    target: str,
    score: str | Sequence[str],
    loss: str | ProperLoss = "log",
    calibrator: object = "auto",
    q: str | Sequence[str] | None = None,
    latent: str | Sequence[str] | None = None,
    cv: int = 5,
    fold_column: str | None = None,
    fold_key: str | None = None,
    form: str = "debiased",
    sample_weight: str | None = None,
    segments: str | Sequence[str] | None = None,
    time: str | None = None,
    period: str | None = None,
    pos_label: Any = None,
    classes: Sequence[Any] | None = None,
    clip: float | None = None,
    cells: int = CELLS,
    sample: int | None = None,
    random_state: object = 0,
    engine: str | None = None,
    verify_checksums: bool = False,
) -> ScaledDecomposition:
    """
    Decompose the loss of predicted probabilities from sums, in the engine that holds the data.

    The terms, intervals, bounds and advice of `scoreprism.decompose`, without the rows: one pass over the data sums
    them by score (or by cell of the score), outcome, fold, segment and period; C is fitted to the sums.

    Parameters
    ----------
    data : path, glob, list of paths, or frame
        Parquet or CSV files; or a frame of polars, DuckDB, Dask, Spark, ibis, pandas or pyarrow.
    target : str
        Column of outcomes; see `aggregate`.
    score : str or sequence of str
        Column of predicted probabilities; or one for each class (`docs/scale_multiclass.md`).
    loss : str or ProperLoss, default="log"
        The loss. For several, `aggregate` the rows once with all of them and decompose the sums by each.
    calibrator : str or Calibrator, default="auto"
        How C is fitted.
    q, latent : str or sequence of str, optional
        Columns of given probabilities P(Y | X) and P(Y | Z), as many as those of the score.
    cv : int, default=5
        Number of folds that are drawn, or that `fold_key` is hashed to.
    fold_column, fold_key : str, optional
        Column of folds; or column of whole numbers whose hash gives folds. By default folds are drawn within cells.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How terms are made; see `Chain.decompose`.
    sample_weight : str, optional
        Column of weights.
    segments : str or sequence of str, optional
        Columns of segments; each segment is decomposed with its own C.
    time, period : str, optional
        Column of periods or dates, and the length of a period.
    pos_label : label, optional
        Positive class: `score` is P(Y = pos_label).
    classes : sequence, optional
        Labels in the order of the columns of `score`, where these are one per class and not named after the labels.
    clip : float, optional
        Keep probabilities at least this far from 0 and 1.
    cells : int, default=1024
        Cells of the score, where there are more distinct scores than that.
    sample : int, optional
        With three or more classes, number of rows to which maps are fitted in memory; 200 000 by default. With
        ``calibrator="temperature"`` or ``"vector"`` and no `sample`, they are fitted to all rows, in several passes.
    random_state : int, Generator or None, default=0
        Seed of drawn folds and samples.
    engine : str, optional
        What opens files; see `scan`.
    verify_checksums : bool, default=False
        Whether to compare the columns that are used with the checksums of Parquet pages first; see `scan`.

    Returns
    -------
    ScaledDecomposition
        With ``segments``, ``periods``, ``quantisation_error`` and the ``sums``.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(20_000)
    >>> y = (rng.random(20_000) < p).astype(int)
    >>> rows = pl.LazyFrame({"default": y, "score": 1 / (1 + (1 / p - 1) ** 2)})
    >>> d = scale.decompose(rows, target="default", score="score", loss="brier")
    >>> bool(d.interval("reliability").low > 0), bool(d.quantisation_error < 1e-6)
    (True, True)
    """
    columns: dict[str, Any] = {
        "target": target, "q": q, "latent": latent, "cv": cv, "fold_column": fold_column, "fold_key": fold_key,
        "sample_weight": sample_weight, "segments": segments, "time": time, "period": period, "pos_label": pos_label,
        "clip": clip,
    }  # fmt: skip
    fit: dict[str, Any] = {"calibrator": calibrator, "cv": cv, "form": form, "random_state": random_state}
    chosen = parse_loss(loss)
    if not isinstance(score, str):
        if verify_checksums:
            verify_files(
                data, _list_names(target, score, q, latent, segments, time, sample_weight, fold_column, fold_key)
            )
        frame, names = scan(data, engine=engine), _parse_names(score, "score")
        if len(names) > 2:
            return _decompose_classes(frame, names, chosen, classes, sample, columns | fit)
        if sample is not None:
            refuse("`sample` must come with three or more classes", "two columns", "Leave it out: two need none.")
        columns |= _read_two(frame, names, classes, columns)
        return decompose(frame, score=names[1], loss=chosen, **columns | fit, cells=cells)
    if classes is not None or sample is not None:
        refuse(
            "`classes` and `sample` must come with one score per class", f"score={score!r}", "Pass a list of columns."
        )
    summed = chosen if has_name(chosen) else "log"  # others are evaluated at the scores of lines
    sums = aggregate(
        data, score=score, loss=summed, **columns, cells=cells, engine=engine, verify_checksums=verify_checksums
    )
    return sums.decompose(chosen, **fit)


def _list_names(*columns: str | Sequence[str] | None) -> list[str]:
    """List columns that are named one by one or in lists."""
    return [name for one in columns if one is not None for name in ([one] if isinstance(one, str) else one)]


# ── one column of scores: sums, file by file ────────────────────────────────────────────────────────


def _sum_part(part: SourcePart, settings: Settings, agreement: Agreement) -> Sums:
    """Sum one frame; a text file is read again with types inferred from all rows if the first ones misled."""
    before = agreement.copy()
    try:
        return _sum_frame(part.frame, settings, agreement)
    except InputError as error:
        if part.again is None or not isinstance(error, EngineError):
            raise _name_file(error, part) from None
    agreement.kinds, agreement.others = before.kinds, before.others
    return _sum_part(SourcePart(part.again(), part.path), settings, agreement)


def _name_file(error: InputError, part: SourcePart) -> InputError:
    """Add the file that an error is about, if there are several."""
    return type(error)(f"{error} This is about the file {part.path!r}.") if part.path else error


def _sum_frame(frame: Any, settings: Settings, agreement: Agreement) -> Sums:
    frame = to_arrow(frame, settings.columns.values())
    schema = read_schema(wrap(frame))
    settings = check_columns(schema, settings)
    agreement.require_alike(schema, settings)
    lazy, names = rename_columns(frame)
    return sum_rows(Scan(lazy, lazy.collect_schema(), settings.rename(names), settings), agreement)


# ── one column of scores for each class ─────────────────────────────────────────────────────────────


def _decompose_classes(
    frame: Any, names: tuple[str, ...], loss: ProperLoss, classes: object, sample: object, options: dict[str, Any]
) -> ScaledDecomposition:
    """Fit a scaling to all rows, or any map to a sample."""
    request = _parse_request(names, loss, classes, sample, options)
    rows = read_rows(frame, request.roles)
    return decompose_sample(frame, rows, request) if request.scaling is None else decompose_all_rows(rows, request)


def _read_two(frame: Any, names: tuple[str, ...], classes: object, columns: dict[str, Any]) -> dict[str, Any]:
    """Check two columns that sum to 1; return the arguments that change when only the second is used."""
    labels, positive = _parse_classes(classes, 2), columns["pos_label"]
    if labels and positive is not None and positive != labels[1]:
        got = f"{write_plain(positive)} and {abbreviate(map(write_plain, labels))}"
        refuse("`pos_label` must be the last of `classes`", got, "Swap the columns, or leave one of them out.")
    rows = read_rows(frame, ColumnRoles(target=columns["target"], laws={"S": names}, classes=labels))
    find_facts(rows)
    labels = rows.roles.classes
    changed = {"pos_label": None if labels in ((0, 1), (-1, 1), (False, True)) else labels[1]}
    levels = {role: columns[role] for role in ("q", "latent")}
    lists = {role: name for role, name in levels.items() if name is not None and not isinstance(name, str)}
    return changed | {role: _parse_names(name, role)[-1] for role, name in lists.items()}


def _parse_names(value: object, role: str) -> tuple[str, ...]:
    rule = f"{mark(role)} must name one column, or one for each class"
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(name, str) for name in value):
        refuse(rule, write_plain(value)[:80], "For example ['p_a', 'p_b', 'p_c'].")
    if len(value) < 2:
        refuse(rule, f"{len(value)} in a list", "Pass the name itself, or a column for each class.")
    if len(set(value)) < len(value):
        refuse(f"{mark(role)} must name each column once", abbreviate(value), "Leave the repeated one out.")
    return tuple(value)


def _parse_classes(classes: object, k: int) -> tuple[Any, ...]:
    if classes is None:
        return ()
    labels = list(np.asarray(classes, dtype=object).ravel()) if isinstance(classes, np.ndarray) else classes
    rule = f"`classes` must be the {k} labels in the order of the columns"
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        refuse(rule, write_plain(classes)[:80], "For example ['a', 'b', 'c'].")
    if len(labels) != k or len(set(labels)) < k:
        refuse(rule, abbreviate(map(write_plain, labels), 10), "Write each label once.")
    return tuple(label.item() if isinstance(label, np.generic) else label for label in labels)


def _parse_request(
    names: tuple[str, ...], loss: ProperLoss, classes: object, sample: object, options: dict[str, Any]
) -> ClassRequest:
    k = len(names)
    if k > MOST_CLASSES:
        refuse(f"`score` must name at most {MOST_CLASSES} columns", f"{k}", "Group the rare classes.")
    if options["pos_label"] is not None:
        refuse(
            "`pos_label` must be left out with several classes", write_plain(options["pos_label"]), "Pass `classes`=."
        )
    scaling = Scaling.of(options["calibrator"]) if sample is None else None
    roles = parse_roles(_parse_laws(names, options), **{**options, "classes": _parse_classes(classes, k)})
    size = SAMPLE if sample is None else parse_count(sample, "sample", 100)
    form = parse_choice(options["form"], FORMS, "form")
    if scaling is not None:
        _require_fit(scaling, roles, loss, form)
    return ClassRequest(
        roles=roles,
        loss=loss,
        calibrator=options["calibrator"],
        scaling=scaling,
        cv=options["cv"],
        form=form,
        clip=parse_clip(options["clip"], k),
        seed=int(parse_random_state(options["random_state"]).integers(2**31)),
        random_state=options["random_state"],
        sample=size,
    )


def _parse_laws(names: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    laws = {"S": names}
    for level, role in (("Q", "q"), ("Π", "latent")):
        if options[role] is not None:
            laws[level] = _parse_names(options[role], role)
            if len(laws[level]) != len(names):
                got = f"{len(laws[level])} and {len(names)}"
                refuse(f"{mark(role)} must have as many columns as `score`", got, "Add them.")
    return laws


def _require_fit(scaling: Scaling, roles: ColumnRoles, loss: ProperLoss, form: str) -> None:
    """Refuse options that a fit to all rows does not support."""
    remedy = "Pass `calibrator`='auto', which fits to a sample."
    if roles.fold is None:
        refuse(
            f"`calibrator`={scaling.name!r} must have folds, for maps to be judged on rows they were not fitted on",
            "neither fold_column nor fold_key",
            "Pass `fold_key`=, a column of whole numbers that is hashed to folds, or `fold_column`=; or "
            "`calibrator`='auto', which fits to a sample.",
        )
    if type(loss) not in CLASS_FORMULAS:
        known = ", ".join(cls.name for cls in CLASS_FORMULAS)
        refuse(f"`loss` must be one that engines evaluate ({known})", str(loss), remedy)
    if form == "plugin":
        refuse("`form` must be 'debiased' or 'difference' without rows", "'plugin'", remedy)
    if scaling.is_vector and len(roles.laws["S"]) > _MOST_VECTOR:
        what = f"`calibrator`='vector' must have at most {_MOST_VECTOR} classes"
        refuse(what, f"{len(roles.laws['S'])}", "Use `calibrator`='temperature', or 'auto', which fits to a sample.")
