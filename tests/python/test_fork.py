"""Forks of a process that has used the library: children run models with their own threads."""

import concurrent.futures
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap

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


def put_total(queue, path, model, threads):
    queue.put(total(model if model is not None else tessera.load(path, threads=threads)))


def total_of_child(method, path, model=None, threads=2):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=put_total, args=(queue, path, model, threads))
    child.start()
    try:
        return queue.get(timeout=MAX_SECONDS)
    finally:
        child.kill()
        child.join()


# Ways to use a model around a fork, each in a fresh Python. `fork` runs a function in a child, which
# must return within MAX_SECONDS, and returns its result.
BEGINNING = """
import json, os, signal, sys, threading
import numpy as np
import tessera

path, threads = sys.argv[1], int(sys.argv[2])
x = np.random.default_rng(64).standard_normal((1, 3, 64, 64), dtype=np.float32)
load = lambda: tessera.load(path, threads=threads)
run = lambda model: float(model(x).sum())

def fork(function):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(%d)
        os.write(write, json.dumps(function()).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(os.read(read, 100000))

def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]
""" % MAX_SECONDS
WAYS = {
    "before_load": "results = [fork(lambda: run(load())), run(load())]",
    "after_load": "model = load(); results = [fork(lambda: run(model)), run(model)]",
    "after_run": "model = load(); results = [run(model), fork(lambda: run(model)), run(model)]",
    "child_loads": "results = [run(load()), fork(lambda: run(load()))]",
    "nested": "model = load(); results = [run(model), fork(lambda: fork(lambda: fork(lambda: run(model))))]",
    "by_a_thread": "model = load(); results = [run(model), in_thread(lambda: fork(lambda: run(model))), run(model)]",
    "runs_in_a_thread": "model = load(); results = [run(model), fork(lambda: in_thread(lambda: run(model)))]",
    "after_a_thread_ran": "model = load(); results = [in_thread(lambda: run(model)), fork(lambda: run(model))]",
    "several_children": "model = load(); results = [run(model)] + [fork(lambda: run(model)) for _ in range(5)]",
    "two_models": "a, b = load(), load(); results = [run(a), run(b)] + fork(lambda: [run(b), run(a)])",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_parent_and_child_have_the_same_results(path, way, threads):
    program = textwrap.dedent(BEGINNING) + WAYS[way] + "\nprint(json.dumps(results))"
    ran = subprocess.run(
        [sys.executable, "-c", program, path, str(threads)], capture_output=True, text=True, timeout=3 * MAX_SECONDS
    )
    assert ran.returncode == 0, ran.stderr
    results = json.loads(ran.stdout)
    assert len(results) >= 2 and results == [results[0]] * len(results)
    assert results[0] == pytest.approx(total(tessera.load(path, threads=threads)), rel=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_loads_and_runs(path, method, threads):
    wanted = total(tessera.load(path, threads=threads))
    assert total_of_child(method, path, threads=threads) == pytest.approx(wanted, rel=1e-6)


def total_of_file(path):
    return total(tessera.load(path, threads=2))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_an_executor_load_and_run(path, method):
    wanted = total_of_file(path)
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        totals = list(executor.map(total_of_file, [path] * 4, timeout=MAX_SECONDS))
    assert totals == pytest.approx([wanted] * 4, rel=1e-6)


def serve(server, model):
    signal.alarm(MAX_SECONDS)
    for _ in range(3):
        connection = server.accept()[0]
        size = int(connection.recv(100))
        connection.sendall(repr(float(model(picture(size)).sum())).encode())
        connection.close()
    os._exit(0)


def ask(address, size):
    with socket.create_connection(address, timeout=MAX_SECONDS) as connection:
        connection.sendall(str(size).encode())
        return float(connection.recv(100))


def test_workers_of_a_server_answer_requests(path):
    """As pre-fork servers do, the parent opens the socket and the model, and its workers answer."""
    model = tessera.load(path, threads=2)
    wanted = total(model)
    with socket.create_server(("127.0.0.1", 0)) as server:
        workers = []
        for _ in range(2):
            workers.append(os.fork())
            if workers[-1] == 0:
                serve(server, model)
        assert [ask(server.getsockname(), 64) for _ in range(6)] == [wanted] * 6
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0] * len(workers)


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


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_of_a_data_loader_run_a_model(path, threads):
    model = tessera.load(path, threads=threads)
    features = Features(model)
    wanted = torch.stack([features[i] for i in range(8)])
    loader = torch.utils.data.DataLoader(
        features, batch_size=8, num_workers=2, timeout=MAX_SECONDS, multiprocessing_context="fork"
    )
    assert torch.equal(next(iter(loader)), wanted)


class FeaturesOfFile(Features):
    """Loads the model in each worker."""

    def __init__(self, path):
        super().__init__(None)
        self.path = path

    def __getitem__(self, index):
        if self.model is None:
            self.model = tessera.load(self.path, threads=2)
        return super().__getitem__(index)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_data_loader_load_a_model(path, method):
    wanted = torch.stack([FeaturesOfFile(path)[i] for i in range(8)])
    loader = torch.utils.data.DataLoader(
        FeaturesOfFile(path), batch_size=8, num_workers=2, timeout=MAX_SECONDS, multiprocessing_context=method
    )
    torch.testing.assert_close(next(iter(loader)), wanted)
