"""`python -P -s -m workers.device.zygote --fd N`: has torch imported and forks runners on demand.

A fork is ready in a fraction of a second, where a new interpreter spends seconds on importing torch. Nothing
else happens in this process: no user code, no tensor work, no thread (threads and OpenMP regions do not
survive a fork). Each request is one datagram, a marshalled plan of `workers/sandbox/keeper.py` with three
descriptors: where news of the sandbox go, where the runner's output goes, the runner's end of its socket to
the judge. The answer is the keeper's process number with a descriptor of it.

When nobody has asked for a while and no fork is at work, it goes on importing: what torch loads at the first
look at a graph takes seconds as well.

The fork enters its sandbox before it reads anything from the judge, so what it shares with its siblings is the
state of a process that has only imported; that its addresses are the same in all siblings is known and gives
nothing, because none can reach another's memory.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import marshal
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from workers.device.runner.__main__ import serve
from workers.sandbox import keeper

MOST_PLAN_BYTES = 256 << 10
IDLE_S = 1.0
LATER = (
    "torch._dynamo",
    "torch.export._trace",
    "torch._export.non_strict_utils",
    "torch._functorch.aot_autograd",
    "torch.fx.experimental.symbolic_shapes",
)
"""What `torch.export` imports when it is first called. The names are torch's own business and may go."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="zygote")
    parser.add_argument("--fd", type=int, required=True)
    keeper.die_with(0)
    requests = socket.socket(fileno=parser.parse_args().fd)
    requests.set_inheritable(False)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    # A child's end only wakes the loop up; it is reaped there, never between its fork and its descriptor.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    settle()
    requests.send(b"ready")
    later = list(LATER)
    forks = 0
    while True:
        idle_s = IDLE_S if later and not forks else None
        ready, _, _ = select.select([requests.fileno(), wake_read], [], [], idle_s)
        if not ready and later:
            with contextlib.suppress(ImportError):
                importlib.import_module(later.pop(0))
            settle()
            continue
        if wake_read in ready:
            os.read(wake_read, 4096)
            forks -= reap()
        if requests.fileno() in ready:
            if not answer(requests):
                return
            forks += 1


def settle() -> None:
    """Leave all objects of now out of later collections, so that their pages stay shared with forks."""
    gc.collect()
    gc.freeze()


def reap() -> int:
    """Take leave of every child that has ended; returns how many."""
    count = 0
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            count += 1
    return count


def answer(requests: socket.socket) -> bool:
    """Fork one runner; False when the supervisor is gone."""
    body, handles, _, _ = socket.recv_fds(requests, MOST_PLAN_BYTES, 3)
    if not body:
        return False
    plan = marshal.loads(body)  # noqa: S302  (written by our own supervisor)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        become_keeper(plan, parent, *handles)
    watch = os.pidfd_open(child)
    for handle in handles:
        os.close(handle)
    try:
        socket.send_fds(requests, [str(child).encode()], [watch])
    except OSError:
        return False
    finally:
        os.close(watch)
    return True


def become_keeper(
    plan: dict[str, Any], parent: int, status: int, output: int, link: int
) -> NoReturn:
    """The fork: standard streams of its own, then the keeper's way in."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for handle, stream in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(handle, stream)
        plan["parent"] = parent
        plan["link"] = link
        keeper.keep(plan, status, become_runner)
    finally:
        os._exit(keeper.SETUP_FAILED)


def become_runner(plan: dict[str, Any]) -> NoReturn:
    """Inside: forget everything of outside, then serve the judge."""
    code = 1
    try:
        # As after an exec: the judge, and nobody in the sandbox, may look at this process.
        keeper.prctl(keeper.PR_SET_DUMPABLE, 1, "dumpable")
        link = plan["link"]
        keeper.close_others(link)
        os.environ.clear()
        os.environ.update(plan["environment"])
        plan.clear()  # user code can walk up to this frame
        serve(link)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001  (the process ends here; nobody above may catch anything)
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
