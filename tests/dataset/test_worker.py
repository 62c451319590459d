"""A worker process: who it says it is, and what it keeps between shards."""

import json
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
from dataset_fakes import Hosted

from groundbox.dataset.executor import Shard
from groundbox.dataset.worker import greet, identity, serve


@pytest.fixture
def worker():
    """Calls a function in one other process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda *call: pool.submit(*call).result()


def served(worker, work, expected=None, payload=None):
    data = work if isinstance(work, bytes) else pickle.dumps(work)
    return worker(serve, expected or identity(), data, Shard(stage="run", number=0, payload=payload))


def test_several_works_that_take_turns_are_kept_and_the_one_that_rested_longest_is_not(worker):
    works = [Hosted("which", hosts=hosts) for hosts in range(5)]

    def copy_of(work):
        return json.loads(served(worker, work).part["jsonl"])[1]

    first = [copy_of(work) for work in works[:4]]
    again = [copy_of(work) for work in works[:4]]
    copy_of(works[4])
    later = [copy_of(work) for work in works[3:0:-1]]

    assert again == first
    assert later == first[3:0:-1]


def test_a_worker_does_nothing_for_a_driver_that_is_another(worker):
    other = identity()._replace(version="9.9")

    found = served(worker, Hosted("die"), expected=other)

    assert found.part is None
    assert other.differences(found.error) == f"version: 9.9 here, {identity().version} there"


def test_a_worker_tells_of_the_environment_that_it_is_asked_about(worker):
    told = worker(greet, "nowhere")

    assert told.identity == identity("nowhere")
    assert told.identity.differences(worker(greet, "default").identity).startswith("environment: ")
    assert "nowhere" in told.identity.environment


def test_work_that_cannot_be_read_is_said_with_what_mends_it(worker):
    found = served(worker, b"cno_such_package\nWork\n.")

    assert str(found.error) == (
        "what is to be done cannot be read on this machine: ModuleNotFoundError: No module named 'no_such_package'. "
        "All machines need the same packages"
    )
