"""Bootstraps, splits and decompositions on clusters of real processes: the same bits as here, and no hang."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from scoreprism import decompose
from scoreprism._core import workers
from scoreprism.exceptions import InputError, LostWorkerError
from scoreprism.inference import calibration_test, corp_bootstrap, grouping_test
from scoreprism.pipelines import pipeline_bootstrap, repeated_splits

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.engines
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows ends a process at once by either


@pytest.fixture(scope="module")
def client():
    """Two processes with one thread each. Work that killed two of them is given up: to start one takes seconds."""
    from dask import config

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture
def dask(client):
    """A configuration under which n_jobs=None means the cluster."""
    client.wait_for_workers(2)
    with parallel_config(backend="dask"):
        yield client


@pytest.fixture
def spread(monkeypatch):
    """What was given to workers, and not done here."""
    seen, original = [], workers._compute

    def noted(function, items, *rest):
        seen.append(len(items))
        return original(function, items, *rest)

    monkeypatch.setattr(workers, "_compute", noted)
    return seen


def rows(seed=0, n=360):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))[:, ::2]  # strided: pickling makes it contiguous, and must not change a bit
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.logistic(size=n) > 0).astype(int)


def boot(estimator=None, **changes):
    X, y = rows()
    parts = [(X[i : i + 120], y[i : i + 120]) for i in (0, 120, 240)]
    options = {"refit": "all", "n_resamples": 8, "loss": "brier", "random_state": 0} | changes
    return pipeline_bootstrap(estimator or GaussianNB(), *parts, calibrator="platt", **options)._values


def split(**jobs):
    models = {"logistic": LogisticRegression(), "forest": RandomForestClassifier(5)}
    table = repeated_splits(models, *rows(), n_splits=4, calibrator="platt", clip=1e-6, random_state=0, **jobs)
    return table.to_frame().drop("method", "loss").to_numpy()


def scored():
    X, y = rows()
    return y, 1 / (1 + np.exp(-X[:, 0])), X


def grouping(**jobs):
    y, s, X = scored()
    found = grouping_test(y, s, X, method="bootstrap", n_resamples=19, random_state=0, **jobs)
    return np.array([found.statistic, found.pvalue])


TASKS = {
    "pipeline_bootstrap": lambda **jobs: boot(LogisticRegression(), **jobs),
    "repeated_splits": split,
    "decompose": lambda **jobs: decompose(*scored(), loss="log", random_state=0, **jobs).level_losses,
    "grouping_test": grouping,
    "corp_bootstrap": lambda **jobs: corp_bootstrap(*scored()[:2], n_resamples=40, random_state=0, **jobs).replicates,
    "calibration_test": lambda **jobs: np.array(
        [calibration_test(*scored()[:2], n_resamples=200, random_state=0, **jobs).pvalue]
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_cluster_gives_the_same_bits_as_this_process_and_its_children(task, client, spread):
    run = TASKS[task]
    here = run()
    assert not spread  # no configuration: nothing is sent anywhere
    assert np.array_equal(run(n_jobs=2), here)
    assert spread
    spread.clear()
    with parallel_config(backend="dask"):
        assert np.array_equal(run(), here)
    assert spread


@pytest.mark.parametrize("kind", ["array", "pandas"])
def test_views_with_gaps_give_the_same_bits(kind):
    """Pickling closes the gaps, and a product of matrices then sums in another order."""
    X, y = rows(n=720)
    X, y = X[::2], y[::2]
    table = pytest.importorskip("pandas").DataFrame(X, copy=False).iloc if kind == "pandas" else X
    parts = [(table[i : i + 120], y[i : i + 120]) for i in (0, 120, 240)]
    options = {"refit": "all", "n_resamples": 6, "random_state": 0}
    here, there = (
        pipeline_bootstrap(LogisticRegression(), *parts, calibrator="platt", **options, n_jobs=n_jobs)._values
        for n_jobs in (1, 2)
    )
    assert np.array_equal(here, there)


# ── who works ───────────────────────────────────────────────────────────────────────────────────────


def whereabouts(_):
    return os.getpid(), workers.count_workers(None)


def test_n_jobs_none_takes_the_configuration_and_one_stays_here(dask):
    cluster = set(dask.run(os.getpid).values())
    assert workers.count_workers(None) == 2
    assert {pid for pid, _ in workers.run_all(whereabouts, range(8), None, "")} <= cluster
    assert {pid for pid, _ in workers.run_all(whereabouts, range(2), 1, "")} == {os.getpid()}


def test_what_a_worker_starts_stays_with_it(dask):
    assert {inner for _, inner in workers.run_all(whereabouts, range(4), None, "")} == {1}


def test_without_a_configuration_none_is_one():
    assert workers.count_workers(None) == workers.count_workers(1) == 1
    with parallel_config(n_jobs=3):
        assert workers.count_workers(None) == 3


class Heavy:
    """Counts in its process how often it arrives."""

    def __init__(self):
        self.data = np.zeros(10**5)

    def __setstate__(self, state):
        self.__dict__ |= state
        os.environ["ARRIVALS"] = str(1 + int(os.environ.get("ARRIVALS", "0")))

    def __call__(self, _):
        time.sleep(0.05)  # else joblib sends them in batches
        return os.getpid(), int(os.environ["ARRIVALS"])


def test_data_travel_once_to_each_worker(dask):
    last = dict(workers.run_all(Heavy(), range(16), None, ""))
    assert max(last.values()) == 1


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────


def complain(item):
    if item == 3:
        raise InputError("no threes; got 3. Use another.")
    return item


def test_an_error_on_a_worker_is_the_error_here(dask):
    with pytest.raises(InputError, match="no threes"):
        list(workers.run_all(complain, range(6), None, ""))
    assert list(workers.run_all(abs, range(4), None, "")) == [0, 1, 2, 3]  # and the cluster still works


def test_what_cannot_be_pickled_is_told_at_once(dask):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="pickle"):
        list(workers.run_all(lambda item: (lock, item), range(4), None, ""))


def slow(item):
    time.sleep(0.1)
    return item


def test_a_run_that_is_given_up_leaves_the_cluster_usable(dask):
    results = workers.run_all(slow, range(20), None, "")
    assert next(results) == 0
    results.close()  # as an interruption does; joblib's warning would be an error here
    assert list(workers.run_all(abs, range(4), None, "")) == [0, 1, 2, 3]


class Killer(ClassifierMixin, BaseEstimator):
    """Fits slowly; once, or always, it kills the process of the cluster that fits it."""

    def __init__(self, flag, home, always=False):
        self.flag, self.home, self.always = flag, home, always

    def fit(self, X, y):
        if os.getpid() != self.home and os.path.exists(self.flag):  # noqa: PTH110
            if not self.always:
                os.unlink(self.flag)  # noqa: PTH108
            os.kill(os.getpid(), KILL)
        time.sleep(0.05)
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def test_a_cluster_repeats_what_a_killed_worker_was_doing(dask, tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    assert np.array_equal(boot(Killer(str(flag), os.getpid())), boot())
    assert not flag.exists()


def test_work_that_kills_every_worker_is_an_error_and_the_checkpoint_goes_on(dask, tmp_path):
    flag, path = tmp_path / "flag", tmp_path / "checkpoint"
    killer = Killer(str(flag), os.getpid(), always=True)
    first = boot(killer, n_resamples=3, checkpoint=path)
    flag.touch()
    with pytest.raises(LostWorkerError, match="3 of 8 replicates were finished and are kept in the checkpoint"):
        boot(killer, checkpoint=path)
    flag.unlink()
    dask.wait_for_workers(2)
    whole = boot(killer, n_jobs=1, checkpoint=path)
    assert np.array_equal(whole[:3], first)
    assert np.array_equal(whole, boot())


def test_rows_that_die_with_their_workers_are_an_error(dask):
    pids = list(dask.run(os.getpid).values())
    results = workers.run_all(Heavy(), range(40), None, "")
    next(results)
    for pid in pids:
        os.kill(pid, KILL)
    with pytest.raises(LostWorkerError, match="nothing of what was finished is kept"):
        list(results)


# ── threads of linear algebra ───────────────────────────────────────────────────────────────────────


def threads(_=None):
    time.sleep(0.01)
    return {library["num_threads"] for library in workers._controller().info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("options", [{"n_jobs": 1}, {"backend": "threading", "n_jobs": 2}], ids=["here", "threads"])
def test_linear_algebra_has_one_thread_and_gets_its_own_back(options):
    with workers._controller().limit(limits=2, user_api="blas"), parallel_config(**options):
        before = threads()
        assert list(workers.run_all(threads, range(6), None, "")) == [{1}] * 6
        assert threads() == before
        results = workers.run_all(threads, range(6), None, "")
        next(results)
        results.close()
        assert threads() == before


# ── Ray ─────────────────────────────────────────────────────────────────────────────────────────────


def dying(item):
    if item == 3:
        os.kill(os.getpid(), KILL)
    return item


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, of many kinds
def test_ray_gives_the_same_bits():
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    here = boot(), split()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        register_ray()
        with parallel_config(backend="ray", n_jobs=-1):
            assert workers.count_workers(None) == 2
            assert np.array_equal(boot(), here[0])
            assert np.array_equal(split(), here[1])
            with pytest.raises(LostWorkerError, match="a worker process died"):
                list(workers.run_all(dying, range(6), None, ""))
    finally:
        ray.shutdown()
