"""summarize() and decompose(): the public doors of scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_clip, refuse
from scoreprism._core.progress import tracked
from scoreprism._core.source_files import verify_files
from scoreprism._fitting.chain_fit import parse_losses
from scoreprism.exceptions import InputError
from scoreprism.losses import ProperLoss
from scoreprism.scale._engines import EngineError, Part, in_arrow, parts, plainly_named, typed, wrap
from scoreprism.scale._grid import CELLS, parse_cells
from scoreprism.scale._losses import FORMULAS, by_row
from scoreprism.scale._partial import Partial
from scoreprism.scale._pass import summed
from scoreprism.scale._reading import Reading, require_few_groups, require_rows
from scoreprism.scale._result import ScaledDecomposition
from scoreprism.scale._roles import Roles, Seen, check_columns, parse_by, parse_folds, require_law_below
from scoreprism.scale._settings import Settings, known_loss

Loss = str | ProperLoss | Sequence[str | ProperLoss]


def summarize(
    data: Any,
    *,
    target: str,
    score: str,
    q: str | None = None,
    latent: str | None = None,
    loss: Loss = ("log", "brier"),
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    every: str | None = None,
    sample_weight: str | None = None,
    cells: int = CELLS,
    cv: int = 5,
    cv_column: str | None = None,
    key: str | None = None,
    clip: float | None = None,
    pos_label: Any = None,
    engine: str | None = None,
    verify_checksums: bool = False,
) -> Partial:
    """
    The sums that a decomposition needs, in one pass where the data lives.

    Parameters
    ----------
    data : path, glob, list of paths, or frame
        What `scan` takes.
    target : str
        Column of outcomes: 0 and 1, −1 and 1, booleans; other labels with `pos_label`.
    score : str
        Column of predicted probabilities of rows the model was not trained on.
    q, latent : str, optional
        Columns of given laws P(Y = 1 | X) and P(Y = 1 | Z), out of sample.
    loss : str, ProperLoss or sequence of these, default=("log", "brier")
        Losses whose moments are summed.
    by : str or sequence of str, optional
        Columns of segments.
    time : str, optional
        Column of periods, or of dates.
    every : {"day", "week", "month", "quarter", "year"}, optional
        Length of a period, for dates; a month if not given.
    sample_weight : str, optional
        Column of weights.
    cells : int, default=1024
        Cells of the score, where there are more distinct scores than that.
    cv : int, default=5
        Number of folds that `key` is hashed to.
    cv_column : str, optional
        Column of folds.
    key : str, optional
        Column of whole numbers that is hashed to folds: rows of the same key stay together.
    clip : float, optional
        Keep laws at least this far from 0 and 1 in the losses.
    pos_label : label, optional
        The label that the score speaks of.
    engine : str, optional
        What opens files; see `scan`.
    verify_checksums : bool, default=False
        Whether the columns that are used are compared with the checksums of Parquet pages before; see `scan`.

    Returns
    -------
    Partial
        Sums that can be added to those of other rows.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rows = pl.DataFrame({"y": [0, 1, 0, 1], "p": [0.1, 0.8, 0.3, 0.6]})
    >>> scale.summarize(rows, target="y", score="p")
    Partial(4 rows, 4 distinct scores)
    """
    losses = tuple(parse_losses(list(loss) if _several(loss) else [loss]).values())  # type: ignore[arg-type, list-item]
    for one in losses:
        if not known_loss(one):
            refuse("`loss` must have a name, for sums to be kept", str(one), "Pass it to Partial.decompose instead.")
        if q is not None and not by_row(one):
            known = ", ".join(sorted(kind.name for kind in FORMULAS))
            refuse("with `q` or `latent`, a loss must be one that engines evaluate", str(one), f"Use {known}.")
    roles = _roles(target, score, q, latent, sample_weight, by, time, every, cv, cv_column, key, pos_label)
    count, distance = parse_cells(cells), parse_clip(clip, 2)
    if verify_checksums:
        verify_files(data, roles.columns.values())
    total: Partial | None = None
    seen = Seen()
    frames, many = parts(data, engine)
    for part in tracked(frames, many, "sums of files" if many > 1 else "sums"):
        partial = _summed_part(part, roles, losses, count, distance, seen)
        total = partial if total is None else total + partial
        require_few_groups(total)
    assert total is not None  # noqa: S101 - there is at least one part
    return require_rows(total)


def decompose(
    data: Any,
    *,
    target: str,
    score: str | Sequence[str],
    q: str | Sequence[str] | None = None,
    latent: str | Sequence[str] | None = None,
    loss: Loss = ("log", "brier"),
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    every: str | None = None,
    sample_weight: str | None = None,
    cells: int = CELLS,
    calibrator: object = "auto",
    cv: int = 5,
    cv_column: str | None = None,
    key: str | None = None,
    form: str = "debiased",
    clip: float | None = None,
    pos_label: Any = None,
    classes: Sequence[Any] | None = None,
    sample: int | None = None,
    random_state: object = 0,
    engine: str | None = None,
    verify_checksums: bool = False,
) -> ScaledDecomposition | dict[str, ScaledDecomposition]:
    """
    Split the loss of predicted probabilities where the data lives, from sums.

    The terms, intervals, bounds and advice of `scoreprism.decompose`, without the rows: one pass over the data sums
    them by score (or by cell of the score), outcome, fold, segment and period; laws are fitted to the sums.

    Parameters
    ----------
    data : path, glob, list of paths, or frame
        Parquet or CSV files; or a frame of polars, DuckDB, Dask, Spark, ibis, pandas or pyarrow.
    target : str
        Column of outcomes; see `summarize`.
    score : str or sequence of str
        Column of predicted probabilities; or one for each class (`docs/scale_multiclass.md`).
    q, latent : str or sequence of str, optional
        Columns of given laws, as those of the score.
    loss : str, ProperLoss or sequence of these, default=("log", "brier")
        Losses. Several give a mapping.
    by : str or sequence of str, optional
        Columns of segments, each decomposed by laws of its own.
    time, every : str, optional
        Column of periods or dates, and the length of a period.
    sample_weight : str, optional
        Column of weights.
    cells : int, default=1024
        Cells of the score, where there are more distinct scores than that.
    calibrator : str or Calibrator, default="auto"
        How C is fitted.
    cv : int, default=5
        Number of folds that are drawn, or that `key` is hashed to.
    cv_column, key : str, optional
        Column of folds; or column of whole numbers whose hash gives folds. By default folds are drawn within cells.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How terms are made; see `Chain.decompose`.
    clip : float, optional
        Keep laws at least this far from 0 and 1.
    pos_label : label, optional
        The label that the score speaks of.
    classes : sequence, optional
        Labels in the order of the columns of `score`, where these are one per class and not named after the labels.
    sample : int, optional
        With three or more classes, rows that laws are fitted to in memory; 200 000 unless said otherwise. With
        ``calibrator="temperature"`` or ``"vector"`` and no `sample`, they are fitted to all rows, in several passes.
    random_state : int, Generator or None, default=0
        Seed of drawn folds and samples.
    engine : str, optional
        What opens files; see `scan`.
    verify_checksums : bool, default=False
        Whether the columns that are used are compared with the checksums of Parquet pages before; see `scan`.

    Returns
    -------
    ScaledDecomposition, or dict of str to ScaledDecomposition
        With ``segments``, ``periods`` and ``quantisation_error``. A mapping unless `loss` is one loss.

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
    if not isinstance(score, str):
        from scoreprism.scale._multiclass import decompose_classes

        if verify_checksums:
            verify_files(data, _names(target, score, q, latent, by, time, sample_weight, cv_column, key))
        return decompose_classes(
            data, target=target, score=score, q=q, latent=latent, loss=loss, by=by, time=time, every=every,
            sample_weight=sample_weight, cells=cells, calibrator=calibrator, cv=cv, cv_column=cv_column, key=key,
            form=form, clip=clip, pos_label=pos_label, classes=classes, sample=sample, random_state=random_state,
            engine=engine, binary=decompose,
        )  # fmt: skip
    if classes is not None or sample is not None:
        refuse(
            "`classes` and `sample` must come with one score per class", f"score={score!r}", "Pass a list of columns."
        )
    partial = summarize(
        data,
        target=target,
        score=score,
        q=q,  # type: ignore[arg-type]
        latent=latent,  # type: ignore[arg-type]
        loss=_summable(loss),
        by=by,
        time=time,
        every=every,
        sample_weight=sample_weight,
        cells=cells,
        cv=cv,
        cv_column=cv_column,
        key=key,
        clip=clip,
        pos_label=pos_label,
        engine=engine,
        verify_checksums=verify_checksums,
    )
    return partial.decompose(loss=loss, calibrator=calibrator, cv=cv, form=form, random_state=random_state)


def _names(*given: str | Sequence[str] | None) -> list[str]:
    """Columns, named one by one or in lists."""
    return [name for one in given if one is not None for name in ([one] if isinstance(one, str) else one)]


def _several(loss: object) -> bool:
    return isinstance(loss, Sequence) and not isinstance(loss, str)


def _summable(loss: Loss) -> list[str | ProperLoss]:
    """Losses in the table; others are evaluated on the cells."""
    several: Any = loss if _several(loss) else [loss]
    return [one for one in several if not isinstance(one, ProperLoss) or known_loss(one)] or ["log"]


def _roles(
    target: str,
    score: str,
    q: str | None,
    latent: str | None,
    sample_weight: str | None,
    by: object,
    time: str | None,
    every: str | None,
    cv: object,
    cv_column: str | None,
    key: str | None,
    pos_label: Any,
) -> Roles:
    fold, fold_hash = parse_folds(cv, cv_column, key)
    require_law_below(q, latent)
    return Roles(
        target=target,
        score=score,
        q=q,
        latent=latent,
        weight=sample_weight,
        by=parse_by(by),
        time=time,
        every=every,
        fold=fold,
        fold_hash=fold_hash,
        pos_label=pos_label.item() if isinstance(pos_label, np.generic) else pos_label,
    )


def _summed_part(
    part: Part, roles: Roles, losses: tuple[ProperLoss, ...], cells: int, clip: float | None, seen: Seen
) -> Partial:
    """The sums of one frame; of a file of text by types guessed from all rows, where the first ones misled."""
    before = seen.copy()
    try:
        return _summed(part.frame, roles, losses, cells, clip, seen)
    except InputError as error:
        if part.again is None or not isinstance(error, EngineError):
            raise _placed(error, part) from None
    seen.kinds, seen.others = before.kinds, before.others
    return _summed_part(Part(part.again(), part.path), roles, losses, cells, clip, seen)


def _placed(error: InputError, part: Part) -> InputError:
    """The error with the file it is about, where there are several."""
    return type(error)(f"{error} This is about the file {part.path!r}.") if part.path else error


def _summed(
    frame: Any, roles: Roles, losses: tuple[ProperLoss, ...], cells: int, clip: float | None, seen: Seen
) -> Partial:
    held = in_arrow(frame, roles.columns.values())
    schema = typed(wrap(held))
    checked = seen.alike(schema, check_columns(schema, roles))
    settings = Settings(
        target=checked.target,
        score=checked.score,
        levels=tuple(checked.laws),
        laws=tuple(checked.laws.values()),
        losses=losses,
        cells=cells,
        clip=clip,
        sample_weight=checked.weight,
        by=checked.by,
        time=checked.time,
        every=checked.every,
        fold=checked.fold,
        fold_hash=checked.fold_hash,
        pos_label=checked.pos_label,
    )
    lazy, names = plainly_named(held)
    return summed(Reading(lazy, dict(lazy.collect_schema()), checked.renamed(names), checked, settings), seen)
