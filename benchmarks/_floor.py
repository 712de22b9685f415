"""The floors: the epochs that a sweep trained, without a sweep. One of several plain processes.

`python -m benchmarks._floor FOLDER WORKER plain|lightning`
"""

from __future__ import annotations

import sys

from benchmarks._job import Job


def main(folder: str, worker: int, kind: str) -> None:
    job = Job.read(folder)
    train = _lightning if kind == "lightning" else _plain
    numbers = job.share(worker)
    for number in numbers:
        train(job, number)
    job.tell({number: job.epochs[number] for number in numbers}, worker)


def _lightning(job: Job, number: int) -> None:
    from benchmarks import _lean

    _lean.fit(job, job.trials[number], job.epochs[number])


def _plain(job: Job, number: int) -> None:
    import torch

    from benchmarks import _plain as loop

    torch.set_num_threads(1)
    loop.train(job.model, job.trials[number], job.seed, lambda epoch, accuracy: epoch < job.epochs[number])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
