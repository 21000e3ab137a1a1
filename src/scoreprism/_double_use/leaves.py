"""Trees remember how many rows each leaf held in training; scikit-learn's also of which classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.frames import backend_of
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._double_use.chance import SEEN, log_bounded, log_equal, log_too_close
from scoreprism._double_use.model_parts import MEMBERS, ModelPart


@dataclass(frozen=True)
class Leaves:
    """The leaves of a tree: rows that fall into each, rows it held in training, and what else is known of those."""

    place: IntArray  # the leaf of each row
    kept: FloatArray  # rows of training, by leaf
    shares: FloatArray | None = None  # of classes in training, by leaf
    weighted: bool = False  # whether shares are of weights, and not of rows
    value: FloatArray | None = None  # of the first tree of boosting, which starts from a constant
    column: int = 1  # the class that this first tree is of
    outcomes: bool = True  # whether the classes of rows that were drawn are those of training

    def count_rows(self, y: IntArray | None, k: int, weight: NDArray[Any] | None = None) -> FloatArray:
        """Rows by leaf and class; by leaf alone where outcomes are not known."""
        codes, k = (np.zeros_like(self.place), 1) if y is None else (y, k)
        counts = np.bincount(self.place * k + codes, weights=weight, minlength=self.kept.size * k)
        return counts.reshape(-1, k).astype(np.float64)


@dataclass(frozen=True)
class LeafAgreement:
    """How rows and leaves agree: equal, more or fewer rows than in training, pure, or too close for chance."""

    kind: str
    chance: float  # its logarithm
    share: float = 1.0  # of the rows, that can be training rows
    outcomes: bool = True  # whether outcomes agree as well


def find_agreement(part: ModelPart) -> LeafAgreement | None:
    """How the rows fill the leaves of a model's first trees, by the kind of agreement that chance explains least."""
    grown = [leaves for leaves in find_trees(part) if leaves.kept.size > 1]
    if not grown:
        return None
    agreement = _combine_trees([_compare(leaves, part) for leaves in grown])
    if part.draws is not None or (agreement is not None and (agreement.kind == "equal" or agreement.chance <= SEEN)):
        return agreement
    # The geometric mean of p-values, times e, is a p-value whatever their dependence (Vovk and Wang, 2020).
    apart = [log_too_close(leaves.count_rows(None, 1)[:, 0], leaves.kept) for leaves in grown]
    close = LeafAgreement("close", float(np.mean(apart)) + 1.0)
    return close if agreement is None or close.chance < agreement.chance else agreement


def _combine_trees(compared: list[LeafAgreement | None]) -> LeafAgreement | None:
    """What holds for all trees; the least chance, since no other rows do better in all trees than in one."""
    agreements = [one for one in compared if one is not None]
    kinds = {one.kind for one in agreements} - {"equal"}
    if len(agreements) < len(compared) or len(kinds) > 1:
        return None
    kind = kinds.pop() if kinds else "equal"
    least = min(one.chance for one in agreements if one.kind == kind)
    return LeafAgreement(kind, least, min(one.share for one in agreements), all(one.outcomes for one in agreements))


def _compare(leaves: Leaves, part: ModelPart) -> LeafAgreement | None:
    """How the rows fill the leaves of one tree."""
    kept, y = leaves.kept, part.y if leaves.shares is not None else None
    counts = leaves.count_rows(y, part.k)
    low, high = (kept[:, None], kept[:, None]) if y is None or leaves.shares is None else _bound_classes(leaves)
    total, rows = counts.sum(axis=1), part.rows
    share = min(1.0, float(kept.sum()) / rows)
    if np.array_equal(total, kept):
        exact = np.array_equal(low, high)
        outcomes = (
            leaves.outcomes and bool((counts >= low).all() and (counts <= high).all()) and _explains(leaves, part)
        )
        return LeafAgreement("equal", log_equal(low if exact and outcomes else kept), share, outcomes)
    if (total >= kept).all() and (counts >= low).all():
        chance = min(log_bounded(low, rows, least=True), log_bounded(kept, rows, least=True))
        return LeafAgreement("more", chance, share)
    if (total <= kept).all() and (counts <= high).all():
        chance = min(log_bounded(high, rows, least=False), log_bounded(kept, rows, least=False))
        pure = _estimate_purity(leaves, rows) if y is not None else 0.0
        return LeafAgreement("fewer", chance) if chance <= max(pure, SEEN) else LeafAgreement("pure", pure)
    return None


def _estimate_purity(leaves: Leaves, rows: int) -> float:
    """
    Log of the chance that other rows make no error in pure leaves.

    A leaf of one row shows noise: without this row the tree would have got it wrong. So the share of such rows is
    about the share of other rows that the tree gets wrong, or less.
    """
    if leaves.shares is None or not (leaves.shares.max(axis=1) >= 1.0 - 1e-12).all():
        return 0.0
    return rows * float(np.log1p(-min(0.5, float((leaves.kept == 1.0).sum() / leaves.kept.sum()))))


def _bound_classes(leaves: Leaves) -> tuple[FloatArray, FloatArray]:
    """How many rows of each class a leaf held in training, at least and at most."""
    kept, shares = leaves.kept[:, None], np.asarray(leaves.shares)
    if not leaves.weighted:
        counts = np.round(shares * kept)
        return counts, counts
    pure = shares.max(axis=1, keepdims=True) >= 1.0 - 1e-12
    present = shares > 1e-12
    return np.where(pure, present * kept, present), present * kept


def _explains(leaves: Leaves, part: ModelPart) -> bool:
    """
    Whether outcomes explain the values of the first tree of boosting.

    A leaf's value is b (c − a N) / (N + λ), with c events among N rows, so c is linear in N, N v and v. It is a whole
    number: outcomes that other rows drew miss it by more than a tenth in some leaf.
    """
    if leaves.value is None or part.y is None or leaves.kept.size < 6:
        return True
    events = np.bincount(leaves.place, weights=part.y == leaves.column, minlength=leaves.kept.size)
    N, v = leaves.kept, leaves.value
    design = np.column_stack([N, N * v, v])
    fitted = design @ np.linalg.lstsq(design, events, rcond=None)[0]
    return bool(np.abs(events - fitted).max() < 0.1)


def find_trees(part: ModelPart) -> Iterator[Leaves]:
    """The first trees of a model of any maker; nothing for a model without trees."""
    model = part.model
    if hasattr(model, "tree_") and hasattr(model, "apply"):
        yield _scikit(model, part)
    elif isinstance(getattr(model, "estimators_", None), np.ndarray):
        yield from _gradient_boosting(model, part)
    elif hasattr(model, "_predictors") and hasattr(model, "_bin_mapper"):
        yield from _histogram(model, part)
    else:
        booster = getattr(model, "booster_", model)
        maker = type(booster).__module__.partition(".")[0]
        if maker in _MAKERS:
            yield from _MAKERS[maker](model, part)


def _prepare_rows(model: Any, X: Any) -> Any:
    """Rows as a tree wants them: by name, if it knows names."""
    return X if hasattr(model, "feature_names_in_") or hasattr(X, "nnz") else np.asarray(X)


def _find_leaf(place: NDArray[Any], leaves: NDArray[Any], nodes: int) -> IntArray:
    """Nodes as numbers of leaves."""
    number = np.zeros(nodes, dtype=np.intp)
    number[leaves] = np.arange(leaves.size)
    leaf: IntArray = number[place]
    return leaf


def _scikit(model: Any, part: ModelPart) -> Leaves:
    tree = model.tree_
    leaves = np.flatnonzero(tree.children_left < 0)
    trained = tree.n_node_samples[leaves].astype(np.float64)
    place = _find_leaf(model.apply(_prepare_rows(model, part.X)), leaves, tree.node_count)
    if not hasattr(model, "classes_") or tree.value.shape[1:] != (1, part.k):
        return Leaves(place, trained)
    shares, weight = tree.value[leaves, 0, :], tree.weighted_n_node_samples[leaves]
    filled = Leaves(place, trained, shares, weighted=not np.array_equal(weight, trained))
    if part.draws is None or part.y is None or weight.sum() != part.draws.sum():
        return filled
    drawn_counts = filled.count_rows(part.y, part.k, part.draws)
    return replace(filled, outcomes=np.allclose(drawn_counts, shares * weight[:, None], rtol=0.0, atol=1e-6))


def _gradient_boosting(model: Any, part: ModelPart) -> Iterator[Leaves]:
    for number, tree in enumerate(model.estimators_[:MEMBERS, 0]):
        filled = _scikit(tree, part)
        if number > 0 or type(getattr(model, "init_", None)).__name__ != "DummyClassifier":
            yield filled
            continue
        value = tree.tree_.value[tree.tree_.children_left < 0].ravel()
        yield Leaves(filled.place, filled.kept, value=value, column=int(part.k == 2))


def _histogram(model: Any, part: ModelPart) -> Iterator[Leaves]:
    X = model._preprocess_X(part.X, reset=False)
    known, places = model._bin_mapper.make_known_categories_bitsets()
    for number, (predictor, *_) in enumerate(model._predictors[:MEMBERS]):
        nodes = predictor.nodes.copy()
        leaves = np.flatnonzero(nodes["is_leaf"])
        value = nodes["value"][leaves]
        nodes["value"][leaves] = np.arange(leaves.size)  # a copy that predicts the number of the leaf
        numbered = type(predictor)(nodes, predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets)
        place = numbered.predict(X, known, places, 1).astype(np.intp)
        trained = nodes["count"][leaves].astype(np.float64)
        yield Leaves(place, trained, value=None if number else value, column=int(part.k == 2))


def _lightgbm(model: Any, part: ModelPart) -> Iterator[Leaves]:
    booster = getattr(model, "booster_", model)
    X = part.X.to_numpy() if backend_of(part.X) == "polars" else part.X
    info = booster.dump_model(num_iteration=MEMBERS)["tree_info"]
    places = np.asarray(booster.predict(X, num_iteration=MEMBERS, pred_leaf=True)).reshape(part.rows, -1)
    for number in range(0, len(info), max(1, len(info) // MEMBERS)):
        kept, value, below = {}, {}, [info[number]["tree_structure"]]
        while below:
            node = below.pop()
            if "leaf_index" in node:
                kept[node["leaf_index"]], value[node["leaf_index"]] = node["leaf_count"], node["leaf_value"]
            below += [node[side] for side in ("left_child", "right_child") if side in node]
        order = sorted(kept)
        yield Leaves(
            places[:, number].astype(np.intp), np.array([kept[i] for i in order], dtype=np.float64),
            value=np.array([value[i] for i in order]) if number == 0 else None, column=int(part.k == 2),
        )  # fmt: skip


def _xgboost(model: Any, part: ModelPart) -> Iterator[Leaves]:
    """The first tree only: later ones keep sums of p(1 − p), which at the start is the same for all rows."""
    import xgboost

    booster = model.get_booster() if hasattr(model, "get_booster") else model
    first = booster[0:1]
    below, cover, value = [json.loads(first.get_dump(dump_format="json", with_stats=True)[0])], {}, {}
    while below:
        node = below.pop()
        if "leaf" in node:
            cover[node["nodeid"]], value[node["nodeid"]] = node["cover"], node["leaf"]
        below += node.get("children", [])
    leaves = np.array(sorted(cover))
    if booster is model:
        table = part.X if isinstance(part.X, xgboost.DMatrix) else xgboost.DMatrix(part.X, enable_categorical=True)
        nodes = first.predict(table, pred_leaf=True)
    else:
        nodes = model.apply(part.X, iteration_range=(0, 1))
    place = _find_leaf(np.asarray(nodes).reshape(part.rows, -1)[:, 0].astype(np.intp), leaves, int(leaves.max()) + 1)
    covers = np.array([cover[i] for i in leaves.tolist()])
    trained = covers * (part.rows / covers.sum())  # as many rows, if these are they; then whole numbers
    near = np.abs(trained - np.round(trained)) <= 1e-4 * np.maximum(trained, 1.0) + 1e-3
    trained = np.where(near, np.round(trained), trained)
    yield Leaves(place, trained, value=np.array([value[i] for i in leaves.tolist()]), column=int(part.k == 2))


def _catboost(model: Any, part: ModelPart) -> Iterator[Leaves]:
    sizes = np.asarray(model.get_tree_leaf_counts())[:MEMBERS]
    kept = np.split(np.asarray(model.get_leaf_weights())[: sizes.sum()], np.cumsum(sizes)[:-1])
    places = np.asarray(model.calc_leaf_indexes(part.X, 0, len(sizes)))
    for number, one in enumerate(kept):
        yield Leaves(places[:, number].astype(np.intp), one)


#: Boosters are recognised by the package of their class, so that none has to be imported.
_MAKERS = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}
