"""Names of exports are safe in Python, C++, pip and file systems, whatever the title is."""

from __future__ import annotations

import re

import pytest

from webapp.exports.naming import names_for
from workers.protocol.problem import Target


@pytest.mark.parametrize(
    ("title", "package"),
    [
        ("Bias and GELU", "bias_and_gelu_cpu"),
        ("Größe/3: läuft!", "groe_3_lauft_cpu"),
        ("3 x softmax", "model_3_x_softmax_cpu"),
        ("class", "model_class_cpu"),
        ("", "model_cpu"),
        ("…", "model_cpu"),
        ("x" * 200, "x" * 40 + "_cpu"),
    ],
)
def test_a_title_becomes_a_package_name(title: str, package: str):
    names = names_for(title, Target.CPU, "0123456789abcdef")
    assert names.package == package
    assert names.package.isidentifier()
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", names.namespace)


def test_two_builds_of_one_model_share_the_package_and_not_the_operators():
    one, two = (names_for("GELU", Target.CPU, digest * 64) for digest in "12")
    assert one.package == two.package
    assert one.namespace != two.namespace
    assert one.filename == "gelu-cpu-1.0+g1111111-src.zip"
