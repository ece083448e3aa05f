"""`model_new.py` moves into a package: its workspace imports change, and not a byte more."""

from __future__ import annotations

import pytest

from webapp.exports.rewriting import NotExportable, as_package_module


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import kernel_ops\n", "from . import kernel_ops\n"),
        ("import kernel_ops as k\n", "from . import kernel_ops as k\n"),
        ("import cuda_extension\n", "from . import kernel_ops as cuda_extension\n"),
        (
            "from kernel_ops import gelu, add as plus\n",
            "from .kernel_ops import gelu, add as plus\n",
        ),
        ("from model import Model\n", "from .reference import Model\n"),
        ("import torch, kernel_ops\n", "import torch; from . import kernel_ops\n"),
        ("import torch\nfrom torch import nn\n", "import torch\nfrom torch import nn\n"),
        ("import kernel_ops.gelu\n", "import kernel_ops.gelu\n"),
        (
            "s = 'ä'; import kernel_ops; t = 'ü'  # kernel_ops\n",
            "s = 'ä'; from . import kernel_ops; t = 'ü'  # kernel_ops\n",
        ),
        (
            "def f():\r\n    from kernel_ops import (\r\n        gelu,\r\n    )\r\n    return gelu\r\n",
            "def f():\r\n    from .kernel_ops import gelu\r\n    return gelu\r\n",
        ),
    ],
)
def test_only_the_imports_of_workspace_modules_change(before: str, after: str):
    assert as_package_module(before) == after


def test_code_that_does_not_parse_is_named_with_its_line():
    with pytest.raises(NotExportable, match=r"model_new.py, line 2:"):
        as_package_module("import torch\ndef (\n")
