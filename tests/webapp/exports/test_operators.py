"""`kernel_ops.py`: shapes of the manifest in Python."""

from __future__ import annotations

import ast

from webapp.exports.operators import kernel_ops_module
from workers.protocol.ops import parse_manifest

MANIFEST = parse_manifest(
    """{"version": 1, "ops": [
    {"name": "pool", "launcher": "ws_pool",
     "inputs": [{"name": "x", "kind": "tensor", "dtype": "float32", "ndim": 2},
                {"name": "n", "kind": "int"}],
     "outputs": [{"name": "y", "dtype": "float16", "shape": ["x.0", "(x.1 + n) / n"]},
                 {"name": "z", "dtype": "int64", "shape": []}],
     "arguments": ["x", "y", "z", "x.numel", "n"]}]}"""
)


def test_it_says_the_shapes_as_the_manifest_does():
    module = kernel_ops_module(MANIFEST, "_pool_cpu_1234567", "pool_cpu")
    ast.parse(module)
    assert "x.new_empty((x.shape[0], ( x.shape[1] + n ) // n, ), dtype=torch.float16)" in module
    assert "x.new_empty((), dtype=torch.int64)" in module
    assert 'register_fake("_pool_cpu_1234567::pool")' in module
    assert "pool = _ops.pool" in module
