"""What is typed wrongly is answered with what to type."""

from __future__ import annotations

import pytest

from launch.commands import main


@pytest.mark.parametrize("port", ["80000", "65536", "-1", "abc", "", "8000.5"])
def test_what_is_no_port_is_refused_with_one_to_try(port: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        main(["up", f"--port={port}"], {})
    assert end.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{port} is no port; ports go up to 65535, so try: make up PORT=8001" in last
