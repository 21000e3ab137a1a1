"""Scores of several classes in arrays of other libraries, in low precision, and in blocks: the numbers of numpy."""

import importlib.util
import warnings
from functools import cache

import numpy as np
import pytest

from scoreprism import Chain, Level, Logits, Sample, compare, decompose, decompose_by, evaluate, make_report
from scoreprism.calibrators import CALIBRATORS, get_calibrator
from scoreprism.exceptions import InfiniteLossWarning, InputError, LabelError
from scoreprism.losses import LOSSES

xs = pytest.importorskip("array_api_strict")
HAS_TORCH = importlib.util.find_spec("torch") is not None
LIBRARIES = ["array-api-strict", *(["torch"] if HAS_TORCH else [])]
#: Losses that have a form for several classes, and calibrators that read scores by blocks.
SEVERAL = [name for name, loss in LOSSES.items() if not loss().binary_only]
BY_BLOCK = [name for name in CALIBRATORS if get_calibrator(name).reads_blocks]
#: What double precision and single precision must agree with numpy to, over the loss (issue "Many classes").
DOUBLE, SINGLE = 1e-9, 1e-5


def put(library, values, dtype="float64"):
    """An array of a library."""
    if library == "array-api-strict":
        return xs.asarray(np.ascontiguousarray(values), dtype=getattr(xs, dtype))
    import torch

    return torch.asarray(np.ascontiguousarray(values), dtype=getattr(torch, dtype))


def draw(n, k, seed=0):
    """Logits that are too bold, and outcomes in which every class occurs."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    y[:k] = np.arange(k)
    return 1.3 * z, y


def gap_of(a, b):
    """The largest difference of terms and of the ends of the interval of the reliability, over the loss."""
    own, other = a.interval("reliability"), b.interval("reliability")
    gaps = [abs(a.terms[term] - b.terms[term]) for term in a.terms]
    return max(*gaps, abs(own.low - other.low), abs(own.high - other.high)) / a.risk


SIZES = {"few": (300, 4), "many": (450, 25)}


@pytest.fixture(scope="module")
def few():
    return draw(*SIZES["few"])


@cache
def with_numpy(size):
    """The decomposition that those of other libraries are compared with."""
    z, y = draw(*SIZES[size])
    return decompose(y, Logits(z))


@cache
def terms_with_numpy(size, loss, form="debiased"):
    return with_numpy(size).chain.decompose(loss, form)


@cache
def with_library(library, size, dtype="float64"):
    z, y = draw(*SIZES[size])
    return decompose(y, Logits(put(library, z, dtype)))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", ["few", "many"])
def test_decompositions_of_other_arrays_are_those_of_numpy(library, size):
    other = with_library(library, size)
    for loss in SEVERAL:
        for form in ("debiased", "difference", "plugin"):
            assert gap_of(terms_with_numpy(size, loss, form), other.chain.decompose(loss, form)) < DOUBLE, (loss, form)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", ["few", "many"])
def test_single_precision_keeps_five_digits_of_the_loss(library, size):
    other = with_library(library, size, "float32")
    for loss in SEVERAL:
        assert gap_of(terms_with_numpy(size, loss), other.chain.decompose(loss)) < SINGLE, loss


@cache
def with_options(name, library=None):
    z, y = draw(*SIZES["few" if name == "clip" else "many"])  # few classes in numpy are not read by blocks
    n, rng = y.size, np.random.default_rng(1)
    split = Logits(z[::-1].copy()), y[::-1].copy()
    # a calibration split of the same rows is double use, which is not what is tried here
    chosen = {
        "weights": {"sample_weight": rng.integers(0, 3, n), "cv": 2},
        "groups": {"groups": np.arange(n) // 2, "calibrator": "temperature"},
        "split": {"calibration": split},
        "features": {"X": rng.normal(size=(n, 2)), "reference": "calibrated", "calibrator": "temperature"},
        "clip": {"clip": 1e-3, "calibrator": "temperature"},
    }[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return decompose(y, Logits(z if library is None else put(library, z)), **chosen)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("options", ["weights", "groups", "split", "features", "clip"])
def test_options_hold_for_other_arrays(library, options):
    assert gap_of(with_options(options), with_options(options, library)) < DOUBLE


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["logit", "probability"])
@pytest.mark.parametrize("name", BY_BLOCK)
def test_calibrators_fit_and_calibrate_where_the_array_is(name, kind, library, few):
    z, y = few
    scores = z if kind == "logit" else np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    expected = get_calibrator(name, kind=kind).fit(scores, y)
    found = get_calibrator(name, kind=kind).fit(put(library, scores), y)
    law = found.calibrate(put(library, scores))
    assert type(law) is type(put(library, scores))
    np.testing.assert_allclose(np.asarray(law), expected.calibrate(scores), atol=1e-9)
    np.testing.assert_array_equal(found.predict(put(library, scores)), expected.predict(scores))
    np.testing.assert_allclose(found.calibrate(scores), expected.calibrate(scores), atol=1e-9)
    np.testing.assert_allclose(found.provenance_.ranges, expected.provenance_.ranges)


@pytest.mark.parametrize("library", LIBRARIES)
def test_losses_of_other_arrays(library):
    rng = np.random.default_rng(2)
    p, q, y = rng.dirichlet(np.ones(5), 50), rng.dirichlet(np.ones(5), 50), rng.integers(5, size=50)
    p[:2], q[:1] = [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]
    for name in SEVERAL:
        loss, a, b = LOSSES[name](), put(library, p), put(library, q)
        np.testing.assert_allclose(loss.loss(a, y), loss.loss(p, y), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(loss.entropy(b), loss.entropy(q), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(loss.divergence(a, b), loss.divergence(p, q), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", SEVERAL)
def test_losses_of_all_outcomes_are_those_of_each(name):
    loss, p = LOSSES[name](), np.random.default_rng(3).dirichlet(np.ones(6), 40)
    each = np.stack([loss.evaluate(p, np.full(40, outcome)) for outcome in range(6)], axis=1)
    np.testing.assert_allclose(loss.evaluate_each(p), each, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_result_says_where_it_was_computed(library):
    text = str(with_library(library, "few", "float32"))
    assert f"Computed with {library} on" in text
    assert "from scores in float32" in text
    assert "Computed with" not in str(with_numpy("few"))


@cache
def others_with_numpy():
    """Metrics, the headline of a report, and the reliability in segments."""
    z, y = draw(*SIZES["few"])
    scores = Logits(z)
    return (
        evaluate(y, scores, n_resamples=5, random_state=0),
        make_report(y, scores, sections=["verdict"], cv=2).headline,
        decompose_by(y, scores, segments=y % 2, calibrator="temperature").to_frame(),
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_everything_else_sees_an_array(library, few):
    z, y = few
    scores = Logits(put(library, z))
    metrics, headline, expected = others_with_numpy()
    found = evaluate(y, scores, n_resamples=5, random_state=0)  # intervals of few replicates are intervals too
    assert found.to_frame().shape == metrics.to_frame().shape
    for name, estimate in metrics.estimates.items():
        assert float(found.estimates[name]) == pytest.approx(float(estimate), abs=1e-9), name
    assert make_report(y, scores, sections=["verdict"], cv=2).headline == headline
    sample = Sample.of(y, scores)
    np.testing.assert_allclose(sample.top_label().prediction, Sample.of(y, Logits(z)).top_label().prediction)
    np.testing.assert_allclose(sample.one_vs_rest(2).prediction, Sample.of(y, Logits(z)).one_vs_rest(2).prediction)
    segments = decompose_by(y, scores, segments=y % 2, calibrator="temperature").to_frame()
    np.testing.assert_allclose(segments["reliability"], expected["reliability"], atol=1e-9)
    law = np.asarray(with_library(library, "few").chain.levels[1].law)
    np.testing.assert_allclose(law, with_numpy("few").chain.levels[1].law, atol=1e-9)
    chain = Chain(y, [Level("S", scores), Level("C", law)])
    assert chain.decompose("brier").terms == pytest.approx(
        terms_with_numpy("few", "brier", "difference").terms, abs=0.02
    )


@cache
def compared_with_numpy():
    z, y = draw(*SIZES["many"])
    return compare(y, {"a": Logits(z), "b": Logits(0.7 * z)}, calibrator="temperature").to_frame()


@pytest.mark.parametrize("library", LIBRARIES)
def test_scores_of_two_libraries_are_compared(library):
    z, y = draw(*SIZES["many"])
    mixed = compare(y, {"a": Logits(z), "b": Logits(put(library, 0.7 * z))}, calibrator="temperature").to_frame()
    plain = compared_with_numpy()
    numbers = [name for name in plain.columns if plain[name].dtype.is_numeric()]
    np.testing.assert_allclose(mixed.select(numbers).to_numpy(), plain.select(numbers).to_numpy(), atol=1e-9)


def test_large_arrays_of_low_precision_are_read_by_blocks(monkeypatch):
    """From four million numbers on; here, where a test can wait for them, from half a million: three blocks."""
    monkeypatch.setattr("scoreprism._core.checks._MANY_NUMBERS", 1 << 19)
    z, y = draw(6_000, 100)
    narrow = z.astype(np.float32)
    assert [isinstance(Sample.of(y, Logits(s)).scores, np.ndarray) for s in (narrow, z)] == [False, True]
    found = decompose(y, Logits(narrow), calibrator="temperature")
    base = decompose(y, Logits(narrow.astype(np.float64)), calibrator="temperature")
    assert gap_of(base, found) < SINGLE
    law = np.exp(narrow - narrow.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    same = decompose(y, law.astype(np.float64), calibrator="temperature")  # the same numbers: near ties stay in order
    assert gap_of(same, decompose(y, law, calibrator="temperature")) < SINGLE


# ── odd inputs ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not HAS_TORCH, reason="half precision is torch's")
def test_half_precision_with_impossible_classes(few):
    import torch

    z, y = few
    z = z.copy()
    z[:40, 0] = -np.inf
    y = np.where((np.arange(y.size) < 40) & (y == 0), 1, y)
    half = torch.asarray(z, dtype=torch.float16)
    exact = decompose(y, Logits(half.double().numpy()), cv=2)
    assert gap_of(exact, decompose(y, Logits(half), cv=2)) < SINGLE
    y[0] = 0  # what had probability 0 came true
    with pytest.warns(InfiniteLossWarning):
        assert decompose(y, Logits(half), cv=2).risk == np.inf
    assert np.isfinite(decompose(y, Logits(half), loss="brier", cv=2).risk)


@pytest.mark.skipif(not HAS_TORCH, reason="gradients are torch's")
def test_tensors_with_gradients_and_labels_in_tensors(few):
    import torch

    z, y = few
    found = decompose(torch.asarray(y), Logits(torch.asarray(z).requires_grad_()))
    assert found.terms == pytest.approx(with_numpy("few").terms, abs=1e-12)


@pytest.mark.skipif(not HAS_TORCH, reason="gradients, bfloat16 and sparse tensors are torch's")
def test_features_in_tensors(few):
    import torch

    z, y = few
    laws = {"calibrator": "temperature"}
    for columns, reference in ((3, "logistic"), (128, "auto")):  # features, and an embedding
        X = torch.asarray(np.random.default_rng(0).normal(size=(y.size, columns)))
        found = decompose(y, Logits(z), X.bfloat16().requires_grad_(), reference=reference, **laws)
        same = decompose(y, Logits(z), X.bfloat16().float().numpy(), reference=reference, **laws)
        assert found.terms == same.terms
    for call in (
        lambda: decompose(y, Logits(z), X.to_sparse()),
        lambda: decompose(y, Logits(torch.asarray(z).to_sparse())),
    ):
        with pytest.raises(InputError, match=r"tensors must be dense; got the layout torch.sparse_coo. Pass .to_dense"):
            call()


@pytest.mark.parametrize("library", LIBRARIES)
def test_calibrators_have_their_own_word_for_logits_of_other_arrays(library, few):
    z, y = few
    with pytest.raises(InputError, match=r'If these are logits, declare them with kind="logit"\.$'):
        get_calibrator("temperature").fit(put(library, z), y)
    with pytest.raises(InputError, match=r'Pass kind="logit" to the calibrator'):
        get_calibrator("temperature").fit(Logits(put(library, z)), y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_classes_and_vectors_in_other_arrays(library, few):
    z, y = few
    y = (y == 1).astype(int)
    two = decompose(y, Logits(put(library, z[:, :2]))).terms
    assert two == pytest.approx(decompose(y, Logits(z[:, :2])).terms, abs=1e-12)
    one = decompose(y, Logits(put(library, z[:, 1]))).terms
    assert one == pytest.approx(decompose(y, Logits(z[:, 1])).terms, abs=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_classes_that_are_rare_or_absent(library, few):
    z, y = few
    y = np.where(y == 3, 0, y)
    absent = decompose(y, Logits(put(library, z)), classes=[0, 1, 2, 3], cv=2)
    assert gap_of(decompose(y, Logits(z), classes=[0, 1, 2, 3], cv=2), absent) < DOUBLE
    y[0] = 3  # missing from the training part of one fold
    assert gap_of(decompose(y, Logits(z), cv=2), decompose(y, Logits(put(library, z)), cv=2)) < DOUBLE


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_refused(library, few):
    z, y = few
    with pytest.raises(LabelError, match="at most as many labels as the probabilities have classes"):
        decompose(np.where(np.arange(y.size) == 3, 7, y), Logits(put(library, z)))
    with pytest.raises(InputError, match=r"If these are logits, declare them with scoreprism\.Logits\.$"):
        decompose(y, put(library, z))
    with pytest.raises(InputError, match="the same number of rows"):
        decompose(y[1:], Logits(put(library, z)))
    for wrong in (np.nan, np.inf):
        z_wrong = z.copy()
        z_wrong[5, 2] = wrong
        with pytest.raises(InputError, match=r"must be numbers or −∞.* in row 5 \(1 of 300 rows\)"):
            decompose(y, Logits(put(library, z_wrong)))
    with pytest.raises(ValueError, match="expecting 4 features"):
        get_calibrator("temperature", kind="logit").fit(put(library, z), y).calibrate(put(library, z[:, :3]))
