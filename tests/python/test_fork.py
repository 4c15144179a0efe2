"""Forks of a process that has used the library: children run models with their own threads."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch

import tessera
from networks import Function, onnx_of

MAX_SECONDS = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    weights = torch.randn(8, 3, 3, 3)
    network = Function(lambda x: torch.nn.functional.conv2d(x, weights, padding=1).relu())
    path = tmp_path_factory.mktemp("fork") / "net.onnx"
    path.write_bytes(onnx_of(network, torch.randn(1, 3, 64, 64)))
    return str(path)


def picture(size=64):
    return np.random.default_rng(size).standard_normal((1, 3, size, size), dtype=np.float32)


def total(model):
    return float(model(picture()).sum())


def put_total(queue, path, model=None):
    queue.put(total(model if model is not None else tessera.load(path, threads=2)))


def total_of_child(method, path, model=None):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=put_total, args=(queue, path, model))
    child.start()
    try:
        return queue.get(timeout=MAX_SECONDS)
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_loads_and_runs(path, method):
    wanted = total(tessera.load(path, threads=2))
    assert total_of_child(method, path) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_forked_child_runs_its_parents_model(path, threads):
    model = tessera.load(path, threads=threads)
    first = total_of_child("fork", path, model)  # the parent has not run it
    wanted = total(model)
    assert first == pytest.approx(wanted, rel=1e-6)
    assert total_of_child("fork", path, model) == wanted
    assert total(model) == wanted


def test_children_of_a_server_run_side_by_side(path):
    """A server loads a model and forks workers, which have children themselves."""
    model = tessera.load(path, threads=2)
    wanted = total(model)
    workers = []
    for _ in range(4):
        worker = os.fork()
        if worker == 0:
            signal.alarm(MAX_SECONDS)
            child = os.fork()
            is_right = all(total(model) == wanted for _ in range(20))
            if child != 0:
                is_right = is_right and os.waitpid(child, 0)[1] == 0
            os._exit(0 if is_right else 1)
        workers.append(worker)
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0] * len(workers)


class Features(torch.utils.data.Dataset):
    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.from_numpy(self.model(picture(64))) + index


def test_workers_of_a_data_loader_run_a_model(path):
    model = tessera.load(path, threads=2)
    features = Features(model)
    wanted = torch.stack([features[i] for i in range(8)])
    loader = torch.utils.data.DataLoader(
        features, batch_size=8, num_workers=2, timeout=MAX_SECONDS, multiprocessing_context="fork"
    )
    assert torch.equal(next(iter(loader)), wanted)
