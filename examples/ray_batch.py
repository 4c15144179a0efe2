"""Batch inference on a folder of .npy arrays with Ray Data; all actors map the same .tessera file.

usage: ray_batch.py MODEL.tessera FOLDER [--actors 1,2] [--rows 1] [--output FOLDER]

Each array is one input without the batch dimension: f32[3,224,224] for a network that takes
f32[N,3,224,224]. For each number of actors, the script prints arrays per second, and for each actor
the resident bytes of the file and its share of them (the proportional set size: a page mapped by two
processes counts half for each). If memory is shared, the shares add up to about one file, for any
number of actors.

Requires Ray with its data library: pip install "ray[data]".
"""

import argparse
import logging
import os
import pathlib
import re
import sys
import time

import numpy

import tessera

try:
    import ray
    import ray.data
except ImportError as error:
    sys.exit(f'ray_batch.py: {error}; install it by: pip install "ray[data]"')


def mapped(pid, path):
    """Returns the resident bytes of a file in a process, and the process's proportional share."""
    resident = share = 0
    inside = False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as smaps:
        for line in smaps:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = line.rstrip("\n").endswith(path)
            elif inside and line.startswith("Rss:"):
                resident += int(line.split()[1]) << 10
            elif inside and line.startswith("Pss:"):
                share += int(line.split()[1]) << 10
    return resident, share


@ray.remote(num_cpus=0)
class Ledger:
    """Records the actors' process ids, and their mapped bytes when the total was largest."""

    def __init__(self):
        self.pids = []
        self.fullest = []

    def enter(self, pid):
        self.pids.append(pid)

    def all_pids(self):
        return self.pids

    def tell(self, readings):
        if sum(one for one, _ in readings) > sum(one for one, _ in self.fullest):
            self.fullest = readings

    def told(self):
        return self.fullest


class Predictor:
    """One actor: maps the file once and runs each batch on one thread."""

    def __init__(self, path, ledger, n_actors):
        self.path = path
        self.model = tessera.load(path, threads=1)
        self.ledger = ledger
        self.n_actors = n_actors
        ray.get(ledger.enter.remote(os.getpid()))

    def __call__(self, batch):
        scores = self.model(numpy.stack(list(batch["data"])))
        pids = ray.get(self.ledger.all_pids.remote())
        if len(pids) == self.n_actors:  # all at once: shares depend on which processes map the file
            self.ledger.tell.remote([mapped(pid, self.path) for pid in pids])
        return {"path": batch["path"], "scores": scores}


def run(options, files, n_actors):
    ledger = Ledger.remote()
    rows = ray.data.from_items(
        [{"path": str(file)} for file in files], override_num_blocks=min(len(files), n_actors * 4)
    )
    arrays = rows.map(lambda row: {"path": row["path"], "data": numpy.load(row["path"])})
    begin = time.perf_counter()
    scores = arrays.map_batches(
        Predictor,
        fn_constructor_args=(options.model, ledger, n_actors),
        batch_size=options.rows,
        compute=ray.data.ActorPoolStrategy(size=n_actors),
        num_cpus=0.5,
    )
    n = 0
    for row in scores.iter_rows():
        n += 1
        if options.output:
            name = pathlib.Path(row["path"]).name
            numpy.save(os.path.join(options.output, name), row["scores"])
    seconds = time.perf_counter() - begin
    return n / seconds, ray.get(ledger.told.remote())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--actors", default="1,2", help="numbers of actors, by commas")
    parser.add_argument("--rows", type=int, default=1, help="arrays in a batch")
    parser.add_argument("--output", help="folder for the results, under the arrays' names")
    options = parser.parse_args()
    options.model = os.path.realpath(options.model)
    files = sorted(pathlib.Path(options.folder).resolve().glob("*.npy"))
    if not files:
        sys.exit(f"ray_batch.py: no .npy in {options.folder}")
    if options.output:
        os.makedirs(options.output, exist_ok=True)

    ray.init(num_cpus=max(map(int, options.actors.split(","))) + 1, include_dashboard=False,
             logging_level="ERROR", log_to_driver=False)  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    size = os.path.getsize(options.model)
    print(f"{options.model}: {size / 1e6:.1f} MB, {len(files)} arrays")
    print("actors  arrays/s  resident MB  shares MB  sum of shares MB")
    for n_actors in map(int, options.actors.split(",")):
        rate, told = run(options, files, n_actors)
        resident = "+".join(f"{one / 1e6:.1f}" for one, _ in told)
        shares = "+".join(f"{one / 1e6:.1f}" for _, one in told)
        total = sum(share for _, share in told) / 1e6
        print(f"{n_actors:6}  {rate:8.1f}  {resident}  {shares}  {total:.1f}", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
