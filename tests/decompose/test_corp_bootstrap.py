"""The bootstrap of CORP against resample-and-refit with scikit-learn, and the compiled kernel against the definition."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoreprism import corp_decomposition
from scoreprism._core import resampling
from scoreprism._kernels import ranked as _ranked
from scoreprism.exceptions import InfiniteLossWarning, InputError
from scoreprism.inference import CorpBootstrap, corp_bootstrap

NAMES = ("reliability", "resolution", "uncertainty")


def sample(n, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    s = np.clip(rng.beta(1.5, 2, n), 0.01, 0.99)
    s = s if decimals is None else np.clip(s.round(decimals), 0.01, 0.99)
    return (rng.random(n) < s**1.3).astype(int), s


def counts(seed, replicate, n):
    """How often each row, in order of score and events first, is in a replicate."""
    return resampling.count_rows(resampling.Streams.of(seed)(replicate), n)


def refitted(y, s, weight, loss):
    """CORP as one would write it with IsotonicRegression(y_min=0, y_max=1).fit(s, y, sample_weight), scikit-learn 1.6 to 1.9."""
    from sklearn.isotonic import IsotonicRegression

    held = weight > 0
    y, s, weight = y[held], s[held], weight[held]
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(s, y, sample_weight=weight).predict(s)
    laws = s, fitted, np.full(y.size, np.average(y, weights=weight))
    rows = {"brier": lambda p: (p - y) ** 2, "log": lambda p: -np.log(np.where(y == 1, p, 1 - p))}[loss]
    risk, isotonic, constant = (np.average(rows(law), weights=weight) for law in laws)
    return [risk - isotonic, constant - isotonic, constant]


@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 2, 1])
def test_replicates_equal_refits_with_scikit_learn(loss, weighted, decimals):
    y, s = sample(300, seed=1, decimals=decimals)
    w = np.random.default_rng(2).random(300) + 0.1 if weighted else None
    result = corp_bootstrap(y, s, loss=loss, n_resamples=20, sample_weight=w, random_state=3)
    order = np.lexsort((1 - y, s))
    for b, terms in enumerate(result.replicates):
        weight = counts(3, b, 300) * (1.0 if w is None else w[order])
        assert terms.tolist() == pytest.approx(refitted(y[order], s[order], weight, loss), abs=1e-10)
    assert result.terms == corp_decomposition(y, s, loss=loss, sample_weight=w).terms


@given(
    rows=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1), st.sampled_from([0.0, 0.5, 1.0, 3.0])), max_size=14)
    .map(lambda rows: [(3, 1, 1.0), *rows]),
    seed=st.integers(0, 5),
)  # fmt: skip
def test_few_rows_with_ties_and_weights(rows, seed):
    """scikit-learn as above, where ties, single outcomes, absent rows and runs without a draw are the rule."""
    score, y, w = (np.array(column) for column in zip(*rows, strict=True))
    s = score / 8
    result = corp_bootstrap(y, s, loss="brier", n_resamples=4, sample_weight=w, random_state=seed)
    s, y, w = s[w > 0], y[w > 0], w[w > 0]
    order = np.lexsort((1 - y, s))
    for b, terms in enumerate(result.replicates):
        weight = counts(seed, b, w.size) * w[order]
        assert terms.tolist() == pytest.approx(refitted(y[order], s[order], weight, "brier"), abs=1e-12)


def test_every_loss_is_resampled():
    """Isotonic regression is optimal for every proper loss at once: no replicate has a negative term."""
    from tests.conftest import EVERY_LOSS

    y, s = sample(200, seed=4)
    for loss in EVERY_LOSS:
        result = corp_bootstrap(y, s, loss=loss, n_resamples=10, random_state=0)
        assert result.replicates.min() >= -1e-12


def test_a_replicate_depends_on_its_number_only():
    y, s = sample(500, seed=5)
    whole = corp_bootstrap(y, s, n_resamples=40, random_state=7)
    assert np.array_equal(corp_bootstrap(y, s, n_resamples=25, random_state=7).replicates, whole.replicates[:25])
    for n_jobs in (1, 2, 3):
        again = corp_bootstrap(y, s, n_resamples=40, random_state=7, n_jobs=n_jobs)
        assert np.array_equal(again.replicates, whole.replicates)
    assert not np.array_equal(corp_bootstrap(y, s, n_resamples=40, random_state=8).replicates, whole.replicates)
    generator = np.random.default_rng(7)
    assert np.array_equal(corp_bootstrap(y, s, n_resamples=40, random_state=generator).replicates, whole.replicates)
    assert not np.array_equal(corp_bootstrap(y, s, n_resamples=40, random_state=generator).replicates, whole.replicates)


@pytest.fixture
def compiled(monkeypatch):
    pytest.importorskip("numba", reason='python -m pip install -e ".[fast]"')
    monkeypatch.setattr(_ranked, "WORTH_LOADING", 0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 2, 0])
@pytest.mark.parametrize("n", [1, 2, 37, 4000])
def test_the_compiled_kernel_equals_the_definition(compiled, monkeypatch, n, decimals, weighted):
    y, s = sample(n, seed=n, decimals=decimals)
    w = np.random.default_rng(2).random(n) ** 8 if weighted else None
    options = {"n_resamples": 12, "sample_weight": w, "random_state": 3}
    fast = corp_bootstrap(y, s, **options)
    assert np.array_equal(corp_bootstrap(y, s, **options, n_jobs=2).replicates, fast.replicates)
    monkeypatch.setattr(_ranked, "has_numba", lambda: False)
    np.testing.assert_allclose(fast.replicates, corp_bootstrap(y, s, **options).replicates, rtol=0, atol=1e-13)


def test_the_compiled_kernel_finds_the_same_fit(compiled):
    """Value by value: whether neighbours with equal means are one block or two is a matter of rounding."""
    y, s = sample(20000, seed=9)
    ranked = _ranked.Ranked.of(s, y, np.ones(20000))
    kernel = _ranked.compiled_sums(ranked)
    for seed in range(20):
        (_, weight, events), (_, held, happened) = (
            _ranked.sums_of_draws(ranked, np.random.default_rng(seed)),
            kernel(np.random.default_rng(seed)),
        )
        expected, found = (np.repeat(e / w, w.astype(int)) for e, w in ((events, weight), (happened, held)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_the_kernels_are_the_same_before_they_are_compiled(monkeypatch):
    """What numba compiles is Python: it is held to the definition where numba is not installed, too."""
    functions = (
        _ranked._tally,
        _ranked._loss,
        _ranked._sum_segments,
        _ranked._pool,
        _ranked._sum_groups,
        _ranked._merge_groups,
    )
    monkeypatch.setattr(_ranked, "_compiled", lambda: {function.__name__: function for function in functions})
    y, s = sample(300, seed=6, decimals=2)
    for weight in (None, np.random.default_rng(0).random(300)):
        ranked = _ranked.Ranked.of(s, y, np.arange(300.0), weight)
        expected, found = (
            _ranked.sums_of_draws(ranked, np.random.default_rng(1)),
            _ranked.compiled_sums(ranked)(np.random.default_rng(1)),
        )
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


def test_numba_is_loaded_only_for_large_problems():
    code = (
        "import sys; from scoreprism.inference import corp_bootstrap\n"
        "corp_bootstrap([0, 1, 1, 0], [.1, .4, .6, .8], n_resamples=5)\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_standard_error_is_that_of_the_delta_method():
    """Uncertainty of the Brier loss is ȳ(1−ȳ), with standard error |1−2q|·√(q(1−q)/n) (delta method); 1000 resamples know it to 2.2 %."""
    y = np.repeat([0, 1], [1600, 400])
    result = corp_bootstrap(y, np.linspace(0.1, 0.3, 2000), loss="brier", random_state=0)
    assert result.std_error["uncertainty"] == pytest.approx(0.6 * np.sqrt(0.16 / 2000), rel=0.1)


def test_replicates_carry_the_bias_twice():
    """What the note says: the fit to a resample is closer than that to the rows, which is closer than the truth, 0."""
    rng = np.random.default_rng(11)
    s = rng.random(1000)
    result = corp_bootstrap(rng.random(1000) < s, s, loss="brier", n_resamples=200, random_state=0)
    assert 0 < result.terms["reliability"] < result.replicates[:, 0].mean()
    assert result.interval("reliability").low > 0
    of_rows, found = result.document().findings
    assert (of_rows.kind, of_rows.facts) == ("in_sample_bias", {})
    assert (found.kind, found.facts) == ("in_sample_bias", {"bootstrap": True})
    assert "so replicates of reliability and resolution lie above their estimates" in found.text
    assert found.text in " ".join(repr(result).split())


@pytest.mark.parametrize("numba", [False, True])
def test_weights_as_everywhere(monkeypatch, numba):
    """Rows of weight zero are absent; the scale of weights does not matter."""
    if numba:
        pytest.importorskip("numba", reason='python -m pip install -e ".[fast]"')
    monkeypatch.setattr(_ranked, "WORTH_LOADING", 0 if numba else 1 << 60)
    y, s = sample(200, seed=12, decimals=1)
    w = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    base = corp_bootstrap(y, s, n_resamples=10, sample_weight=w, random_state=0).replicates
    held = w > 0
    dropped = corp_bootstrap(y[held], s[held], n_resamples=10, sample_weight=w[held], random_state=0).replicates
    assert np.array_equal(base, dropped)
    scaled = corp_bootstrap(y, s, n_resamples=10, sample_weight=1e-200 * w, random_state=0).replicates
    np.testing.assert_allclose(scaled, base, atol=1e-13)


def test_labels_columns_and_clip():
    y, s = sample(100, seed=13)
    base = corp_bootstrap(y, s, n_resamples=5, random_state=0, clip=0.2)
    words = np.where(y == 1, "yes", "no")
    named = corp_bootstrap(words, s, n_resamples=5, random_state=0, clip=0.2, pos_label="yes")
    wide = corp_bootstrap(y, np.column_stack([1 - s, s]), n_resamples=5, random_state=0, clip=0.2)
    assert np.array_equal(base.replicates, named.replicates)
    np.testing.assert_allclose(wide.replicates, base.replicates, atol=1e-14)
    assert [one.value for one in base.document().findings if one.kind == "clipped"] == [0.2]
    assert "Probabilities are clipped to at least 0.2." in repr(base)


@pytest.mark.parametrize("numba", [False, True])
def test_infinite_losses_stay_infinite(monkeypatch, numba):
    if numba:
        pytest.importorskip("numba", reason='python -m pip install -e ".[fast]"')
    monkeypatch.setattr(_ranked, "WORTH_LOADING", 0 if numba else 1 << 60)
    with pytest.warns(InfiniteLossWarning, match=r"^The log loss is infinite: in 1 of 4 rows \(row 0\)"):
        result = corp_bootstrap([1, 0, 1, 0], [0.0, 0.3, 0.8, 0.9], n_resamples=50, random_state=0)
    reliability, resolution, uncertainty = result.replicates.T
    assert 0 < np.isinf(reliability).sum() < 50
    assert np.isfinite(resolution).all()
    assert np.isfinite(uncertainty).all()
    assert np.isnan([result.interval("reliability").low, result.std_error["reliability"]]).all()
    assert "∞" in repr(result)


def test_interval_table_and_dictionary():
    y, s = sample(100, seed=14)
    result = corp_bootstrap(y, s, loss="brier", n_resamples=30, random_state=0)
    assert isinstance(result, CorpBootstrap)
    assert result.names == NAMES
    interval = result.interval("resolution", confidence_level=0.8)
    expected = np.quantile(result.replicates[:, 1], [0.1, 0.9]).tolist()
    assert [interval.low, interval.high] == pytest.approx(expected, rel=1e-15)
    assert (interval.confidence_level, interval.method) == (0.8, "bootstrap, percentile")
    frame = result.to_frame("pandas")
    assert frame.columns.tolist() == ["term", "estimate", "std_error", "low", "high"]
    assert frame["estimate"].tolist() == list(result.terms.values())
    data = result.to_dict()
    assert (data["loss"], data["n"], data["n_resamples"], data["clip"]) == ("brier", 100, 30, None)
    assert data["terms"]["uncertainty"]["low"] == result.interval("uncertainty").low
    assert not result.replicates.flags.writeable
    assert repr(result).startswith("CORP of the brier loss, bootstrap\nterm ")
    assert "\n[30 resamples of 100 rows;" in repr(result)
    assert "<table" in result._repr_html_()


def test_refusals():
    y, s = [0, 1], [0.2, 0.7]
    for call, text in (
        (lambda: corp_bootstrap(y, s, n_resamples=1), "n_resamples must be a whole number of at least 2; got 1. Pass an integer."),
        (lambda: corp_bootstrap([0, 1, 2], np.eye(3)), "CORP must have two classes, because isotonic regression needs an order; got 3. Use resolution_decomposition with a multiclass calibrator."),
        (lambda: corp_bootstrap(y, s, random_state="x"), "random_state must be a nonnegative integer, a numpy Generator or None; got 'x'. For example 0."),
        (lambda: corp_bootstrap(y, s).interval("risk"), "term must be one of reliability, resolution, uncertainty; got 'risk'. Choose one of these."),
        (lambda: corp_bootstrap(y, s, n_jobs=0), "n_jobs must be a number of processes, −1 for all cores, or None; got 0. For example 2."),
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value) == text
