"""Many classes on a GPU, or wherever torch, CuPy or JAX put an array: times, and whether the numbers are those of numpy."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.classes import draw
from scoreprism import Logits, decompose
from scoreprism.calibrators import CALIBRATORS, MatrixScalingCalibrator, VectorScalingCalibrator, get_calibrator
from scoreprism.losses import LOSSES

#: Rows, classes, calibrator, and the bar in seconds on an H200.
TIMED = (
    (50_000, 1000, "auto", 1.0),
    (50_000, 1000, "temperature", 0.15),
    (10_000, 100, "auto", None),
    (50_000, 10, "auto", None),
)


def find_torch_device() -> str:
    """The GPU, where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def wait(device: str) -> None:
    """Until everything that was asked of the device is done."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def measure(function: Callable[[], Any], device: str, times: int = 3) -> float:
    """The median of some runs, after one that is not counted."""
    seconds = []
    for _ in range(times + 1):
        wait(device)
        start = time.perf_counter()
        function()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))


def time_decompositions(device: str, largest: int) -> None:
    """Print how long `decompose` takes for logits in single precision."""
    import torch

    print("\n| rows × classes | calibrator | s | bar, s |\n|---|---|---:|---:|")
    for n, k, calibrator, bar in TIMED:
        if n * k > largest:
            continue
        z, y = draw(n, k)
        logits, codes = torch.asarray(z, dtype=torch.float32, device=device), torch.asarray(y, device=device)
        seconds = measure(lambda x=logits, t=codes, c=calibrator: decompose(t, Logits(x), calibrator=c), device)
        print(f"| {n:,} × {k} | {calibrator} | {seconds:.3f} | {'' if bar is None else bar} |", flush=True)


def fit_by_torch(z: Any, y: Any, *, diagonal: bool, ridge: float, tolerance: float) -> tuple[float, float]:
    """Seconds and penalised loss of torch's L-BFGS, in the parameters of our calibrators."""
    import torch

    k = z.shape[1]
    x = z - z.mean(1, keepdim=True)
    slope = torch.ones(k, dtype=z.dtype, device=z.device) if diagonal else torch.eye(k, dtype=z.dtype, device=z.device)
    start = slope.clone()
    slope.requires_grad_()
    shift = torch.zeros(k, dtype=z.dtype, device=z.device, requires_grad=True)
    options = {"max_iter": 2000, "tolerance_grad": tolerance, "tolerance_change": 0.0, "history_size": 20}
    solver = torch.optim.LBFGS([slope, shift], line_search_fn="strong_wolfe", **options)

    def find_loss() -> Any:
        eta = x * slope + shift if diagonal else x @ slope + shift
        penalty = 0.5 * ridge * (((slope - start) ** 2).sum() + (shift**2).sum()) / y.shape[0]
        return torch.nn.functional.cross_entropy(eta, y) + penalty

    def step() -> Any:
        solver.zero_grad()
        loss = find_loss()
        loss.backward()
        return loss

    wait(z.device.type)
    begin = time.perf_counter()
    solver.step(step)
    wait(z.device.type)
    return time.perf_counter() - begin, float(find_loss().detach())


def time_maps(device: str, n: int, k: int = 100) -> None:
    """Print how long vector and matrix scaling take, beside torch's L-BFGS on the same device."""
    import torch

    z, y = draw(n, k)
    logits, codes = torch.asarray(z, device=device), torch.asarray(y, device=device)
    print(f"\n{n:,} × {k}, double precision\n\n| map | ours, s | torch's L-BFGS, s | ratio | our loss − theirs |")
    print("|---|---:|---:|---:|---:|")
    for name, calibrator, diagonal in (
        ("vector", VectorScalingCalibrator(kind="logit"), True),
        ("matrix", MatrixScalingCalibrator(kind="logit"), False),
    ):
        fit = lambda c=calibrator: c.fit(logits, y)  # noqa: E731 - timed as it is
        seconds = measure(fit, device)
        slope, shift = fit().weights_, calibrator.intercepts_
        x = logits - logits.mean(1, keepdim=True)
        weights = torch.asarray(slope, device=device)
        law = torch.log_softmax(x @ weights + torch.asarray(shift, device=device), 1)
        away = (slope.diagonal() - 1.0 if diagonal else slope - np.eye(k)) ** 2
        ours = float(-law[torch.arange(n, device=device), codes].mean())
        ours += 0.5 * calibrator.ridge * (float(away.sum()) + float((shift**2).sum())) / n
        options = {"diagonal": diagonal, "ridge": calibrator.ridge, "tolerance": 1e-9}
        fit_by_torch(logits, codes, **options)
        theirs, loss = fit_by_torch(logits, codes, **options)
        print(f"| {name} | {seconds:.3f} | {theirs:.3f} | {theirs / seconds:.1f} | {ours - loss:.1e} |", flush=True)


def list_libraries(device: str) -> dict[str, Callable[[np.ndarray], Any]]:
    """How to put an array on the device, for each library that is here."""
    import torch

    makers: dict[str, Callable[[np.ndarray], Any]] = {
        "torch, float64": lambda v: torch.asarray(v, device=device),
        "torch, float32": lambda v: torch.asarray(v, dtype=torch.float32, device=device),
    }
    if "cupy" in sys.modules or device == "cuda":
        try:
            import cupy

            makers |= {"cupy, float64": cupy.asarray, "cupy, float32": lambda v: cupy.asarray(v, dtype=cupy.float32)}
        except ImportError:
            pass
    if "jax" in sys.modules:
        import jax

        makers |= {
            "jax, float64": jax.numpy.asarray,
            "jax, float32": lambda v: jax.numpy.asarray(v, dtype=jax.numpy.float32),
        }
    return makers


def compare_numbers(device: str) -> None:
    """Print the largest difference from numpy, over losses and forms, and over calibrators."""
    z, y = draw(3000, 6)
    base = decompose(y, Logits(z))
    names = [name for name, loss in LOSSES.items() if not loss().binary_only]
    maps = [name for name in CALIBRATORS if get_calibrator(name).reads_blocks]
    print("\n| array | terms and ends of intervals, over the loss | calibrated probabilities |\n|---|---:|---:|")
    for library, put in list_libraries(device).items():
        theirs, gap = decompose(y, Logits(put(z))), 0.0
        for name in names:
            for form in ("debiased", "difference", "plugin"):
                a, b = base.chain.decompose(name, form), theirs.chain.decompose(name, form)
                own, other = a.interval("reliability"), b.interval("reliability")
                ends = abs(own.low - other.low), abs(own.high - other.high)
                gap = max(gap, *(one / a.risk for one in (*ends, *(abs(a.terms[t] - b.terms[t]) for t in a.terms))))
        law = 0.0
        for name in maps:
            expected = get_calibrator(name, kind="logit").fit(z, y).calibrate(z)
            found = get_calibrator(name, kind="logit").fit(put(z), y).calibrate(put(z))
            found = found.cpu() if library.startswith("torch") else found.get() if library.startswith("cupy") else found
            law = max(law, float(np.abs(np.asarray(found) - expected).max()))
        print(f"| {library} | {gap:.1e} | {law:.1e} |", flush=True)


def main() -> None:
    """Print all tables, with the name of the card."""
    import torch

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only, for a machine without a GPU")
    parser.add_argument("--jax", action="store_true", help="JAX too, which compiles every shape of a block: minutes")
    options = parser.parse_args()
    quick = options.quick
    if options.jax:
        import jax

        jax.config.update("jax_enable_x64", val=True)
    device = find_torch_device()
    card = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    print(f"{card}, torch {torch.__version__}, numpy {np.__version__}")
    time_decompositions(device, 10**6 if quick else 10**9)
    time_maps(device, 5_000 if quick else 50_000)
    compare_numbers(device)


if __name__ == "__main__":
    main()
