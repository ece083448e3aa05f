"""The first program of a shell's sandbox: opens the doors, then keeps one bash. Started, never imported:

    python -I -S shell_driver.py CONTROL_FD

Standard library only. The outside sends one JSON message with the set-up over CONTROL_FD, a socket that keeps message
boundaries, and gets two descriptors back: the listening socket of the judge's counter, bound in here so that
clients in here can reach it by its path, and the workspace's folder, which stays readable when all in here is
dead. Then, unless a person sits in front of it, one message `{"command": ...}` after the other is run by a
bash that keeps its folder, variables and background jobs; each is answered by
`{"code", "folder", "ended"}`, where `ended` says how bash itself went, if it did. The next command gets a new one.

Everything in here runs as the author's user. Whoever kills this program, forges an answer or removes the socket
harms the own shell only: the outside believes nothing of it but the files that it finds in the folder.
"""

# /tmp is the sandbox's own; this is a program, so it may be started by anybody in any way.
# ruff: noqa: S603
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

WORKSPACE = "/workspace"
DOOR = Path("/judge")
BASH = "/bin/bash"
MOST_BYTES = 256 << 10
PROMPT = r"\[\e[1m\]\w\[\e[0m\]$ "


def open_doors(control: socket.socket, setup: dict[str, Any]) -> None:
    """Make the counter's socket, the token and the few programs of our own; hand both doors out."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(DOOR / "socket"))
    listener.listen(64)
    (DOOR / "token").write_text(str(setup["token"]))
    programs = DOOR / "bin"
    programs.mkdir()
    # A link would hide the virtual environment from the interpreter.
    python = f'#!/bin/sh\nexec {setup["python"]} "$@"\n'
    # Instructions for other workshops say sudo before the commands; here nobody is more than himself.
    texts = {"python": python, "python3": python, "sudo": '#!/bin/sh\nexec "$@"\n'}
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    folder = os.open(WORKSPACE, os.O_RDONLY | os.O_DIRECTORY)
    socket.send_fds(control, [b"ready"], [listener.fileno(), folder])
    os.close(folder)
    listener.close()


def attend_person(terminal: bool, command: str, term: str) -> int:
    """Run one bash on our own standard streams until it ends; its exit code."""
    words = ["/usr/bin/env", f"PS1={PROMPT}", f"TERM={term}", BASH, "--noprofile", "--norc"]
    words += ["-c", command] if command else []

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    bash = subprocess.Popen(
        words,
        cwd=WORKSPACE,
        start_new_session=True,
        preexec_fn=take_terminal if terminal else None,
    )
    code = bash.wait()
    return code if code >= 0 else 128 - code


class Shell:
    """A bash that reads commands from us and says after each how it went."""

    def __init__(self, folder: str) -> None:
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.numbers = (commands, answers)
        self.process = subprocess.Popen(
            [BASH, "--noprofile", "--norc", "-s"],
            stdin=subprocess.PIPE,
            pass_fds=self.numbers,
            cwd=folder if Path(folder).is_dir() else WORKSPACE,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self.watch = os.pidfd_open(self.process.pid)
        self.count = 0
        self.text = b""

    def run(self, command: str, control: socket.socket) -> dict[str, Any]:
        """One command. Ends this program where the outside is gone."""
        self.count += 1
        commands, answers = self.numbers
        # One line per command, not a loop, so that `break` finds none. Neither pipe gets to what is started.
        line = (
            f"IFS= read -r -d '' -u {commands} COMMAND_GIVEN;"
            f' eval "$COMMAND_GIVEN" </dev/null {commands}<&- {answers}>&-;'
            f' printf \'%s %s %s\\0\' {self.count} "$?" "$PWD" >&{answers}\n'
        )
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
            self.send(command.encode(errors="replace").replace(b"\0", b"") + b"\0", control)
        except BrokenPipeError:
            return self.ended()
        return self.answer(control)

    def send(self, content: bytes, control: socket.socket) -> None:
        """Hand the command over; bash may be stopped, and then it must still be possible to end us."""
        os.set_blocking(self.commands, False)
        while content:
            with contextlib.suppress(BlockingIOError):
                content = content[os.write(self.commands, content) :]
            if content:
                self.wait_for([], [self.commands], control)

    def answer(self, control: socket.socket) -> dict[str, Any]:
        reading = [self.answers]
        while True:
            ready = self.wait_for(reading, [], control)
            if self.answers in ready:
                part = os.read(self.answers, 1 << 16)
                if (
                    not part
                ):  # `exec` has put another program in bash's place: that is the command now
                    reading = []
                self.text += part
            *said, self.text = self.text.split(b"\0")
            for said_now in said:
                number, code, folder = _words(said_now)
                if number == str(self.count):
                    told = int(code) if code.isdigit() else None
                    return {"code": told, "folder": folder, "ended": ""}
            if self.watch in ready and self.answers not in ready:
                return self.ended()

    def wait_for(self, reading: list[int], writing: list[int], control: socket.socket) -> list[int]:
        """Wait for one of these, the end of bash, or the end of the outside."""
        watched: list[Any] = [*reading, self.watch, control]
        ready, able, _ = select.select(watched, writing, [])
        if control in ready and not control.recv(1, socket.MSG_PEEK):
            os._exit(0)
        if writing and self.watch in ready and not able:
            raise BrokenPipeError
        return [item for item in ready if isinstance(item, int)]

    def ended(self) -> dict[str, Any]:
        code = self.process.wait()
        how = f"with exit code {code}"
        if code < 0:
            how = f"by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
        return {"code": None, "folder": "", "ended": how}

    def close(self) -> None:
        """Give the descriptors of a dead bash back."""
        for handle in (self.commands, self.answers, self.watch):
            os.close(handle)
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()


def _words(said: bytes) -> list[str]:
    """Number, exit code and folder of an answer; anybody inside may have written it."""
    return [*said.decode(errors="replace").split(" ", 2), "", ""][:3]


def obey(control: socket.socket) -> None:
    """Run command after command until the outside is gone."""
    shell: Shell | None = None
    folder = WORKSPACE
    while message := control.recv(MOST_BYTES):
        if shell is None:
            shell = Shell(folder)
        answer = shell.run(json.loads(message)["command"], control)
        if answer["ended"]:
            shell.close()
            shell = None
        folder = answer["folder"] or folder
        control.send(json.dumps(answer).encode())


def main() -> int:
    """Open the doors, then serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    setup = json.loads(control.recv(MOST_BYTES))
    open_doors(control, setup)
    # Judges work on the same machine, and what is timed goes first.
    os.nice(10)
    if setup["person"]:
        control.recv(1)  # the files are in place
        return attend_person(bool(setup["terminal"]), setup["command"], setup["term"])
    obey(control)
    return 0


if __name__ == "__main__":
    sys.exit(main())
