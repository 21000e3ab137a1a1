"""What a cluster costs: one bootstrap of a pipeline here, in joblib's processes, and on local Dask and Ray clusters.

python -m benchmarks.clusters [here loky dask ray]; 60 replicates, 10⁴ rows of 20 features in each split
"""

from __future__ import annotations

import resource
import sys
import time
from contextlib import contextmanager, nullcontext

import numpy as np
from joblib import parallel_config
from sklearn.linear_model import LogisticRegression

from scoreprism.pipelines import pipeline_bootstrap


@contextmanager
def dask():
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster), parallel_config(backend="dask"):
        yield


@contextmanager
def ray():
    import ray
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    register_ray()
    try:
        with parallel_config(backend="ray", n_jobs=-1):
            yield
    finally:
        ray.shutdown()


@contextmanager
def loky():
    from joblib.externals.loky import get_reusable_executor

    with parallel_config(n_jobs=2):
        yield
    get_reusable_executor().shutdown(wait=True)  # its processor time counts when it has ended


PLACES = {"here": nullcontext, "loky": loky, "dask": dask, "ray": ray}


def spent() -> float:
    """Processor time of this process and of children that have ended; Ray's are not children."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main(names: list[str], n: int = 10_000, count: int = 60) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3 * n, 20))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.logistic(size=3 * n) > 0).astype(int)
    parts = [(X[i : i + n], y[i : i + n]) for i in (0, n, 2 * n)]
    options = {"refit": "all", "n_resamples": count, "random_state": 0}
    known = pipeline_bootstrap(LogisticRegression(), *parts, calibrator="platt", **options)._values
    for name in names or PLACES:
        begin, before = time.perf_counter(), spent()
        with PLACES[name]():
            ready = time.perf_counter()
            found = pipeline_bootstrap(LogisticRegression(), *parts, calibrator="platt", **options)._values
            done = time.perf_counter()
        same = "the same bits" if np.array_equal(found, known) else "OTHER BITS"
        print(
            f"{name:6} start {ready - begin:5.1f} s   run {done - ready:5.1f} s   processor {spent() - before:5.1f} s   {same}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
