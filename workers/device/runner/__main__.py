"""`python -P -m workers.device.runner --fd N`: one runner, used for one evaluation.

Usually it is no program of its own but a fork of the zygote (`workers/device/zygote`), which calls `serve`.

Loads the problem's or the candidate's module, calls it once per go token and tells the judge where
its outputs lie. The judge believes none of it but the bytes and the time. torch is imported before
the judge says anything, so that a waiting runner is a warm one.
"""

from __future__ import annotations

import argparse
import socket

import torch

from workers.device.runner.service import Service
from workers.protocol.wire import Channel, Kind, PeerGone


def main() -> None:
    parser = argparse.ArgumentParser(prog="runner")
    parser.add_argument("--fd", type=int, required=True)
    serve(parser.parse_args().fd)


def serve(link: int) -> None:
    """Do what the judge at the other end of the socket says, until it is gone."""
    channel = Channel(socket.socket(fileno=link))
    channel.set_timeout(None)
    channel.send_json(Kind.HELLO, {"torch": torch.__version__})
    try:
        Service(channel).run()
    except PeerGone:
        return


if __name__ == "__main__":
    main()
