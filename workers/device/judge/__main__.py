"""`python -P -m workers.device.judge --fd N`: one judge, exec'd fresh, used for one evaluation.

Reads the job and its files from the supervisor, writes the verdict back. It imports torch and our own
code only, before the job is known, so that a waiting judge is a warm one.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket

import torch

from workers.device.judge import memory
from workers.device.judge.alone import ProblemCourse
from workers.device.judge.course import Course
from workers.device.judge.job import JudgeFiles, JudgeJob
from workers.device.judge.link import RunnerLink
from workers.protocol.codec import from_json, to_json
from workers.protocol.problem import Target
from workers.protocol.wire import MAX_FILE, Channel, Kind, PeerGone, split_file


def main() -> None:
    parser = argparse.ArgumentParser(prog="judge")
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args()
    channel = Channel(socket.socket(fileno=options.fd))
    channel.set_timeout(None)
    files = JudgeFiles()
    try:
        frame = channel.receive(MAX_FILE)
        while frame.kind is Kind.FILE:
            files.add(*split_file(frame.body))
            frame = channel.receive(MAX_FILE)
    except PeerGone:
        return
    job = from_json(JudgeJob, frame.body)
    if job.request.target is Target.CPU:
        bound_memory()
    channel.send(Kind.RESULT, 0, to_json(judge(job, files).run()))


def judge(job: JudgeJob, files: JudgeFiles) -> Course:
    """The course for a job."""
    stay_off(set(job.timing_cores))
    torch.set_num_threads(1)
    memory.keep_freed_memory()
    links = {
        role: RunnerLink(role, Channel(socket.socket(fileno=fd))) for role, fd in job.roles.items()
    }
    kind = Course if job.request.snapshot else ProblemCourse
    return kind(job, files, links)


def bound_memory() -> None:
    """Half of the machine's memory, at least 4 GiB, is enough for comparing.

    Without a bound the outputs of one large problem, in double precision and several times over, have
    made the kernel kill whatever process it found. On cuda address space is no measure of memory.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = max(4 << 30, total // 2)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def stay_off(timing_cores: set[int]) -> None:
    """Leave the timing cores to the runners where there are others."""
    others = os.sched_getaffinity(0) - timing_cores
    if others:
        os.sched_setaffinity(0, others)


if __name__ == "__main__":
    main()
