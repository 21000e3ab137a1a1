"""Fitted maps as functions of torch tensors; torch is not among the packages that tests need."""

import numpy as np
import pytest
from scipy.special import softmax

from scoreprism.calibrators import (
    DirichletCalibrator,
    IsotonicCalibrator,
    MatrixScalingCalibrator,
    SelectedCalibrator,
    StructuredMatrixCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
)
from scoreprism.exceptions import InputError

MAPS = (
    TemperatureCalibrator,
    VectorScalingCalibrator,
    MatrixScalingCalibrator,
    StructuredMatrixCalibrator,
    DirichletCalibrator,
)


def draw(k=4, n=800):
    """Logits that are too bold, and outcomes."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(n, k))
    return 1.5 * z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.mark.parametrize("kind", ["logit", "probability"])
@pytest.mark.parametrize("map_", MAPS, ids=lambda one: one.__name__)
def test_tensors_give_what_arrays_give(map_, kind):
    torch = pytest.importorskip("torch")
    z, y = draw()
    scores = z if kind == "logit" else softmax(z, axis=1)
    fitted = map_(kind=kind).fit(scores, y)
    tail = scores.copy()
    tail[:50] = np.eye(4)[y[:50]] * (90 if kind == "logit" else 1)  # where the floor of a map shows
    function = fitted.to_torch()
    for given in (scores, tail):
        double = function(torch.tensor(given))
        assert double.dtype == torch.float64
        assert double.numpy() == pytest.approx(fitted.calibrate(given), abs=1e-9)
        assert function(torch.tensor(given).float()).numpy() == pytest.approx(fitted.calibrate(given), abs=2e-6)
        assert function(torch.tensor(given).half()).dtype == torch.float32
        if torch.cuda.is_available():
            there = function(torch.tensor(given, device="cuda"))
            assert there.device.type == "cuda"
            assert there.cpu().numpy() == pytest.approx(fitted.calibrate(given), abs=1e-9)


def test_gradients_flow():
    torch = pytest.importorskip("torch")
    z, y = draw()
    x = torch.tensor(z, requires_grad=True)
    VectorScalingCalibrator(kind="logit").fit(z, y).to_torch()(x)[:, 0].sum().backward()
    assert torch.isfinite(x.grad).all()
    assert x.grad.abs().sum() > 0


def test_the_map_that_was_selected_is_taken():
    z, y = draw()
    fitted = SelectedCalibrator(candidates=["temperature", "vector-scaling"], order="any", kind="logit").fit(z, y)
    assert callable(fitted.to_torch())
    torch = pytest.importorskip("torch")
    assert fitted.to_torch()(torch.tensor(z)).numpy() == pytest.approx(fitted.calibrate(z), abs=1e-9)


def test_a_table_of_another_width_is_refused():
    torch = pytest.importorskip("torch")
    z, y = draw()
    with pytest.raises(ValueError, match=r"one column for each of 4 classes; got shape \(800, 3\)"):
        TemperatureCalibrator(kind="logit").fit(z, y).to_torch()(torch.tensor(z[:, :3]))


def test_maps_that_are_no_softmax_are_refused():
    z, y = draw(2)
    with pytest.raises(InputError, match="to_torch is for temperature, vector, matrix and Dirichlet maps"):
        IsotonicCalibrator().fit(softmax(z, axis=1)[:, 1], y).to_torch()
