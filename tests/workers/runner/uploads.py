"""Uploads that get past the form, each with the verdict and a part of the sentence that are due.

Everything here is asked of a real judge with real sandboxes. What the form refuses by itself stands in
tests/webapp/problems/uploads.py, the kinds of inputs one by one in test_values.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.protocol.verdict import Status

_TEMPLATE = """{top}
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
        {init}

    def forward(self, {arguments}):
        {forward}


def get_inputs():
    {inputs}


def get_init_inputs():
    return {init_inputs}
"""


def model(
    top: str = "",
    *,
    init: str = "pass",
    forward: str = "return x * 2",
    inputs: str = "return [torch.randn(64, 128)]",
    arguments: str = "x",
    parameters: str = "",
    init_inputs: str = "[]",
) -> str:
    """A model that doubles its input, but for what is given."""
    parts = {name: value for name, value in locals().items() if name != "top"}
    return _TEMPLATE.format(top=top, **parts)


@dataclass(frozen=True)
class Upload:
    """A problem's source and what the judge has to say about it."""

    source: str | bytes
    status: Status = Status.PASSED
    says: str = "Runs, is deterministic and depends on its inputs"
    slow: bool = False
    """Whether it holds the device for more than some seconds."""

    @property
    def content(self) -> bytes:
        return self.source.encode() if isinstance(self.source, str) else self.source


_LOAD, _RUN = Status.LOAD_ERROR, Status.RUNTIME_ERROR
_MEMORY, _REFUSED = Status.OUT_OF_MEMORY, Status.REJECTED
_CRASH = "import ctypes; ctypes.string_at(0)"
_MEGABYTE = "print('x ' * (1 << 19), flush=True)"
_BUSY = "import threading\ndef spin():\n    while True: pass\n"

UPLOADS = {
    # What it is.
    "not Python": Upload("<html>", _LOAD, "SyntaxError: invalid syntax (model.py:1)"),
    "no Model": Upload("x = 1\n", _LOAD, "model.py could not be loaded: it has no class Model"),
    "no module": Upload(
        model().replace("nn.Module", "object"), _LOAD, "must derive from torch.nn.Module"
    ),
    "NUL": Upload(model() + "\0", _LOAD, "null bytes"),
    "an unknown encoding": Upload("# coding: klingon\n" + model(), _LOAD, "unknown encoding"),
    "carriage returns": Upload(model().replace("\n", "\r\n")),
    "byte order mark": Upload(b"\xef\xbb\xbf" + model().encode()),
    "all scripts": Upload(model("# 日本語 😀\nδλ = 2", forward="größe = x * δλ; return größe")),
    # How it ends.
    "crash at import": Upload(model(_CRASH), _LOAD, "signal 11 (Segmentation fault)"),
    "crash at construction": Upload(model(init=_CRASH), _LOAD, "signal 11"),
    "crash in forward": Upload(
        model(forward=_CRASH), _RUN, "failed when called: its process ended"
    ),
    "crash in get_inputs": Upload(model(inputs=_CRASH), _LOAD, "signal 11"),
    "exit at import": Upload(model("exit()"), _LOAD, "it ends the process; take that out"),
    "exit in forward": Upload(model(forward="raise SystemExit(0)"), _RUN, "it ends the process"),
    "exit without a word": Upload(model("import os; os._exit(0)"), _LOAD, "exit code 0"),
    "error in forward": Upload(model(forward="return x @ x"), _RUN, "cannot be multiplied"),
    "error that cannot be read": Upload(
        model(
            "class Odd(Exception):\n    def __str__(self): raise SystemExit", forward="raise Odd"
        ),
        _RUN,
        "Odd: its text cannot be read (model.py:",
    ),
    "error of ten megabytes": Upload(
        model(forward="raise ValueError('x ' * 5_000_000)"), _RUN, "x x"
    ),
    "endless recursion": Upload(
        model(forward="return self.forward(x)"), _RUN, "maximum recursion depth"
    ),
    "loop at import": Upload(
        model("while True: pass"), Status.TIMEOUT, "no answer in time", slow=True
    ),
    "loop in forward": Upload(
        model(forward="while True: pass"), Status.TIMEOUT, "no answer in time", slow=True
    ),
    "stops itself": Upload(
        model("import os; os.kill(os.getpid(), 19)"), Status.TIMEOUT, "no answer in time", slow=True
    ),
    # What it uses up.
    "100 GB of parameters": Upload(
        model(init="self.w = nn.Parameter(torch.zeros(25_000_000_000))"), _MEMORY, "out of memory"
    ),
    "100 GB in forward": Upload(
        model(forward="return x + torch.zeros(25_000_000_000)[:1]"), _MEMORY, "out of memory"
    ),
    "100 GB of bytes": Upload(model("big = bytearray(100 << 30)"), _MEMORY, "out of memory"),
    "100 GB of outputs": Upload(
        model(forward="return x[:1, :1].expand(160_000, 160_000)"), _MEMORY, "out of memory"
    ),
    "a list that grows": Upload(
        model("a = []\nwhile True: a.append(bytearray(1 << 26))"), _MEMORY, "memory", slow=True
    ),
    "outputs of 3 GB": Upload(
        model(forward="return x.repeat(1, 90_000)"), _MEMORY, "needs more memory", slow=True
    ),
    "a full disk": Upload(
        model("f = open('/tmp/f', 'wb')\nwhile True: f.write(bytes(1 << 20))"),
        _LOAD,
        "the sandbox has a small disk in memory",
    ),
    "a megabyte of text": Upload(model(_MEGABYTE, forward="print('y' * 9999); return x * 2")),
    "a megabyte and a crash": Upload(model(f"{_MEGABYTE}; {_CRASH}"), _LOAD, "it last wrote: x x"),
    "forks without end": Upload(
        model("import os\nwhile True: os.fork()"), _LOAD, "allows few processes and threads"
    ),
    "a child that goes on as the parent": Upload(model("import os; os.fork()")),
    "a child in each call": Upload(model(forward="import os; os.fork(); return x * 2")),
    "a child that stays": Upload(model("import os, time\nif os.fork() == 0: time.sleep(1e6)")),
    "threads without end": Upload(
        model(
            "import threading, time\n"
            "while True: threading.Thread(target=time.sleep, args=(1e6,)).start()"
        ),
        _LOAD,
        "allows few processes and threads",
    ),
    "a thread that sleeps": Upload(
        model("import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,)).start()")
    ),
    "a thread that never rests": Upload(
        model(f"{_BUSY}threading.Thread(target=spin, daemon=True).start()")
    ),
    # What it reaches for.
    "the network": Upload(
        model("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)"),
        _LOAD,
        "the sandbox has no network",
    ),
    "a name of the network": Upload(
        model("import urllib.request\nurllib.request.urlopen('http://example.org/', timeout=5)"),
        _LOAD,
        "the sandbox has no network",
    ),
    "the host's users": Upload(
        model("text = open('/etc/shadow').read()"), _LOAD, "there are no other files in the sandbox"
    ),
    "weights beside it": Upload(
        model("import torch\nstate = torch.load('weights.pt')"), _LOAD, "there are no other files"
    ),
    "a package that is not there": Upload(
        model("import a_package_of_nobody"), _LOAD, "and what is installed beside it"
    ),
    "a module beside it": Upload(model("from . import layers"), _LOAD, "the file stands alone"),
    "a GPU": Upload(
        model(inputs="return [torch.randn(8, device='cuda')]"), _LOAD, "judged on the CPU"
    ),
    "the keyboard": Upload(model("name = input()"), _LOAD, "EOF"),
    # What it leaves changed.
    "files": Upload(model("open('out.txt', 'w').write('x')")),
    "threads of torch": Upload(model("import torch\ntorch.set_num_threads(64)")),
    "gradients": Upload(
        model(
            "import torch\ntorch.set_grad_enabled(True)",
            init="self.w = nn.Parameter(torch.ones(128))",
            forward="return x * self.w",
        )
    ),
    "the default type": Upload(model("import torch\ntorch.set_default_dtype(torch.float64)")),
    "the default device": Upload(
        model("import torch\ntorch.set_default_device('meta')"), _LOAD, "on the device meta"
    ),
    "signals": Upload(
        model(
            "import signal\n"
            "for s in set(signal.valid_signals()) - {9, 19}: signal.signal(s, signal.SIG_IGN)"
        )
    ),
    "open files": Upload(
        model("import os\nos.closerange(3, 256)"), _LOAD, "its process ended without an answer"
    ),
    "what others read": Upload(
        model(
            "import os\nfor fd in range(64):\n"
            "    try: os.write(fd, b'garbage' * 9)\n    except OSError: pass"
        ),
        _RUN,
        "its answer was malformed",
    ),
    # What it computes.
    "random": Upload(
        model(forward="return torch.nn.functional.dropout(x)"), _REFUSED, "not deterministic"
    ),
    "counts its calls": Upload(
        model(init="self.n = 0", forward="self.n += 1; return x * self.n"),
        _REFUSED,
        "not deterministic",
    ),
    "constant": Upload(model(forward="return torch.ones(3)"), _REFUSED, "does not depend"),
    "not a number": Upload(model(forward="return x / 0 * 0"), _REFUSED, "NaN or infinity"),
    "works in place": Upload(
        model(forward="return x.mul_(2)"), _REFUSED, "forward changes its inputs; let it compute"
    ),
    "goes by contents": Upload(
        model(forward="return x * 2 if x.sum() > 0 else x * 3"), _REFUSED, "has no fixed graph"
    ),
    "picks by contents": Upload(
        model(forward="return x[x > 0]"), _REFUSED, "shapes and numbers alone"
    ),
    "nothing": Upload(model(forward="x * 2"), _RUN, "forward returned a NoneType; return plain"),
    "a number": Upload(model(forward="return x.sum().item()"), _RUN, "forward returned a float"),
    "complex": Upload(model(forward="return torch.fft.fft(x)"), _RUN, "complex64"),
    "nested outputs": Upload(
        model(forward="return {'a': [x * 2, (x + 1,)]}"), _REFUSED, "return a flat one"
    ),
    # What it is given.
    "seeds its inputs": Upload(model(inputs="torch.manual_seed(0); return [torch.randn(64, 128)]")),
    "seeds few inputs": Upload(
        model(inputs="torch.manual_seed(0); return [torch.randn(8)]"), _REFUSED, "set no seed in it"
    ),
    "nested lists": Upload(
        model(
            inputs="return [[torch.randn(8, 64), (torch.randn(8, 64),)]]",
            forward="return x[0] + x[1][0]",
        )
    ),
    "a dict": Upload(
        model(inputs="return [{'a': torch.randn(8, 64), 2: 3}]", forward="return x['a'] * x[2]")
    ),
    "numbers, text and None": Upload(
        model(
            arguments="x, n, f, nothing, text, yes",
            inputs="return [torch.randn(8, 64), 3, float('inf'), None, 'sum', True]",
            forward="return torch.clamp(x * n, max=f) if nothing is None and text and yes else x",
        )
    ),
    "no inputs": Upload(
        model(arguments="*x", inputs="return []", forward="return torch.ones(3)"),
        _REFUSED,
        "at least one input tensor",
    ),
    "a forgotten return": Upload(model(inputs="torch.randn(8)"), _LOAD, "returns nothing"),
    "a tensor": Upload(model(inputs="return torch.randn(8, 64)")),
    "a generator": Upload(model(inputs="yield torch.randn(8, 64)")),
    "an endless generator": Upload(
        model(inputs="while True: yield torch.ones(1)"), _LOAD, "more than 1,000 values"
    ),
    "truth values": Upload(
        model(inputs="return [torch.rand(8, 64) > 0.5]", forward="return x.float() * 2")
    ),
    "no dimension": Upload(
        model(
            arguments="x, s",
            inputs="return [torch.randn(8, 64), torch.rand(())]",
            forward="return x * s",
        )
    ),
    "no element": Upload(
        model(
            arguments="x, y",
            inputs="return [torch.randn(8, 64), torch.randn(0, 3)]",
            forward="return x * (2 + y.numel())",
        )
    ),
    "only no element": Upload(
        model(inputs="return [torch.randn(0, 64)]"), _REFUSED, "the same contents whatever the seed"
    ),
    "sparse": Upload(
        model(inputs="return [torch.eye(8).to_sparse()]"), _LOAD, "call .to_dense() on it"
    ),
    "on no device": Upload(
        model(inputs="return [torch.ones(8, device='meta')]"), _LOAD, "on the device meta"
    ),
    "an argument too few": Upload(
        model(arguments="x, y"), _RUN, "get_inputs() must return forward's arguments in a list"
    ),
    "a constructor's argument too few": Upload(
        model(parameters=", n"), _LOAD, "get_init_inputs() must return Model's arguments in a list"
    ),
    "a constructor's argument that is a tensor": Upload(
        model(parameters=", w", init_inputs="[torch.ones(3)]"),
        _LOAD,
        "get_init_inputs() holds a value of type Tensor",
    ),
}
