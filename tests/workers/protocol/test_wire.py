"""Frames over a socket: every wait for a peer ends."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from workers.protocol.wire import HEADER, BadFrame, Channel, Kind, PeerGone, PeerSilent


def pair(limit_s: float) -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    channel.set_timeout(limit_s)
    return channel, theirs


def test_a_frame_comes_back_as_it_was_sent() -> None:
    channel, theirs = pair(5.0)
    Channel(theirs).send(Kind.DONE, 7, b"body")
    frame = channel.receive()
    assert (frame.kind, frame.index, frame.body) == (Kind.DONE, 7, b"body")


def test_a_body_that_comes_in_pieces_is_put_together() -> None:
    channel, theirs = pair(5.0)
    body = bytes(range(256)) * 20_000
    thread = threading.Thread(target=Channel(theirs).send, args=(Kind.DONE, 0, body))
    thread.start()
    assert channel.receive().body == body
    thread.join()


def test_a_peer_that_trickles_is_given_up_like_a_silent_one() -> None:
    channel, theirs = pair(0.3)
    over = threading.Event()

    def trickle() -> None:
        theirs.send(HEADER.pack(Kind.DONE, 0, 1000))
        while not over.wait(0.05):
            theirs.send(b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    started = time.monotonic()
    with pytest.raises(PeerSilent, match="did not end in time"):
        channel.receive()
    assert time.monotonic() - started < 5
    over.set()
    thread.join()


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    channel, theirs = pair(5.0)
    theirs.send(HEADER.pack(Kind.DONE, 0, 1 << 40))
    with pytest.raises(BadFrame, match="too long"):
        channel.receive()


def test_a_closed_peer_is_gone() -> None:
    channel, theirs = pair(5.0)
    theirs.close()
    with pytest.raises(PeerGone):
        channel.receive()
