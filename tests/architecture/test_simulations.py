"""The simulations of benchmarks/statistics: their truths, their verdicts, and that an interrupted run continues."""

import numpy as np
import pytest
from benchmarks.statistics import bars, tables
from benchmarks.statistics.cells import Cell, Checkpoint, run
from benchmarks.statistics.scenarios import LOSSES, SCENARIOS, check_truths

from scoreprism.losses import get_loss


def test_truths_are_those_specified():
    check_truths()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "3-class null"])
def test_quadrature_agrees_with_a_large_sample(name, loss):
    """Risk and irreducible term of 100 000 draws, within four standard errors (cluster sums where rows are clustered)."""
    draw = SCENARIOS[name].sample(100_000, np.random.default_rng(0))
    terms, chosen = SCENARIOS[name].truth(loss), get_loss(loss)
    weight = np.ones(len(draw.y)) if draw.weight is None else draw.weight
    for rows, truth in (
        (chosen.loss(draw.s, draw.y), sum(terms)),
        (chosen.entropy(draw.q), terms.irreducible),
        (chosen.loss(draw.q, draw.y), terms.irreducible),
    ):
        deviation = weight * (rows - truth)
        if draw.groups is not None:
            deviation = np.bincount(draw.groups, deviation)
        assert abs(deviation.sum()) < 4 * np.sqrt((deviation**2).sum())


def drawn(rng, shift):
    if rng.random() < 0.2:
        raise ValueError("a failure that is counted")
    return {"x": rng.normal() + shift}


def test_an_interrupted_run_continues(tmp_path, capsys):
    cell = Cell("a/cell", drawn, 50, 10, {"shift": 1.0})
    checkpoint = Checkpoint(tmp_path)
    whole = run(cell, Checkpoint(None), cell.full, jobs=1)
    run(cell, checkpoint, cell.quick, jobs=1)
    assert len(checkpoint.load(cell)["x"]) == 10
    resumed = run(cell, checkpoint, cell.full, jobs=1)
    np.testing.assert_array_equal(resumed["x"], whole["x"])
    assert whole["failed"].sum() == np.isnan(whole["x"]).sum() > 0
    assert "a failure that is counted" in capsys.readouterr().err


def test_a_checkpoint_of_other_code_is_not_used(tmp_path, capsys):
    cell, checkpoint = Cell("a/cell", drawn, 50, 10, {"shift": 1.0}), Checkpoint(tmp_path)
    run(cell, checkpoint, cell.quick, jobs=1)
    checkpoint.mark = "another"
    assert checkpoint.load(cell) == {}
    assert "the code has changed" in capsys.readouterr().err
    assert len(Checkpoint(tmp_path, stale=True).load(cell)["x"]) == 10


@pytest.mark.parametrize(
    ("bar", "value", "error", "verdict"),
    [
        (tables.Bar(low=0.9), 0.91, 0.01, "met"),
        (tables.Bar(low=0.9), 0.89, 0.01, "within error"),
        (tables.Bar(low=0.9, high=0.95), 0.98, 0.01, "**missed**"),
        (tables.Bar(high=3.0, size=True), -3.5, 0.1, "**missed**"),
        (tables.Bar(high=3.0), float("nan"), 0.1, "no number"),
    ],
)
def test_verdicts(bar, value, error, verdict):
    assert bar.judge(tables.Value(value, error)) == verdict


def test_monte_carlo_errors_are_those_seen_in_repetitions():
    """Standard deviations over 2000 repetitions of 200 simulations each."""
    rng = np.random.default_rng(0)
    a = rng.normal(0.3, 1.0, (2000, 200))
    b = 0.5 * a + rng.normal(0.0, 1.0, a.shape)
    for function, samples in (
        (tables.mean, [(x,) for x in a]),
        (tables.root_mean_square, [(x,) for x in a]),
        (tables.root_ratio, list(zip(a, b, strict=True))),
    ):
        found = [function(*one) for one in samples]
        assert np.mean([one.error for one in found]) == pytest.approx(np.std([one.value for one in found]), rel=0.1)


def test_names_of_cells_are_different():
    names = [cell.name for cell in bars.cells()]
    assert len(set(names)) == len(names)
