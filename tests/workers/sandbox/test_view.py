"""What a sandboxed process can see and touch."""

from __future__ import annotations

import dataclasses
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from workers.sandbox import Profile, SandboxError, spawn
from workers.sandbox.interpreters import python_profile_paths

PROJECT = Path(__file__).resolve().parents[3]


def test_secrets_of_the_host_do_not_exist_inside(shell, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    places = [
        "/etc/shadow",
        "/etc/passwd",
        "/root",
        "/home",
        "/var",
        "/run",
        str(PROJECT),
        str(secret),
    ]
    answer = shell(
        "for p in " + " ".join(places) + '; do [ -e "$p" ] && echo "sees $p"; done; ls -A /'
    )
    assert "sees" not in answer.text
    known = {
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "sbin",
        "sys",
        "tmp",
        "usr",
    }
    assert set(answer.text.split()) <= known


def test_nothing_but_memory_folders_can_be_written(shell):
    script = "for p in / /usr /etc /dev /proc/sys/kernel /sys /tmp; do touch $p/x 2>/dev/null && echo $p; done"
    assert shell(script).text.split() == ["/tmp"]


def test_devices_are_the_harmless_five(shell):
    answer = shell("for f in /dev/*; do [ -c $f ] && [ ! -L $f ] && echo ${f#/dev/}; done; true")
    assert set(answer.text.split()) == {"null", "zero", "full", "random", "urandom"}


def test_the_network_is_only_its_own_loopback(shell):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        answer = shell(
            f"tail -n +3 /proc/net/dev | cut -d: -f1; (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&1 && echo reached"
        )
    assert answer.text.split()[0] == "lo"
    assert "reached" not in answer.text
    assert "refused" in answer.text, "lo is up, and nobody listens on it"


def test_no_privileges_are_left(shell):
    text = shell("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status").text
    fields = dict(line.split(":\t") for line in text.strip().splitlines())
    assert {int(fields[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"


def test_no_new_namespace_can_be_made_inside(shell):
    assert "not permitted" in shell("unshare --user --map-root-user true").text


def test_no_process_of_the_host_is_visible(shell):
    answer = shell("ls /proc | grep -c '^[0-9]'")
    assert int(answer.text) <= 6


def test_the_environment_is_not_inherited(shell, monkeypatch):
    monkeypatch.setenv("WARPSMITH_TOKEN", "secret")
    text = shell("env").text
    assert "secret" not in text
    assert "USER=candidate" in text


def test_descriptors_do_not_leak_and_passed_ones_arrive(shell):
    read_end, write_end = os.pipe()
    leak = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        answer = shell(f"ls /proc/$$/fd; echo hello >&{write_end}", pass_fds=[write_end])
        assert os.read(read_end, 100) == b"hello\n"
    finally:
        for handle in (read_end, write_end, leak):
            os.close(handle)
    # Bash opens one for itself at 255.
    assert set(answer.text.split()) <= {"0", "1", "2", "255", str(write_end)}


def test_readable_paths_are_shown_read_only_at_their_place(shell, profile, tmp_path):
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    (folder / "file").write_text("content")
    tmp_path.chmod(0o755)
    shown = dataclasses.replace(profile, readable=(folder,), mounted={"/other": folder})
    answer = shell(f"cat {folder}/file /other/file; touch {folder}/new 2>&1", profile=shown)
    assert "contentcontent" in answer.text
    assert "Read-only" in answer.text
    assert list(tmp_path.rglob("new")) == []


def test_a_readable_link_shows_what_it_leads_to(shell, profile, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("here")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    seen = dataclasses.replace(profile, readable=(tmp_path / "link",))
    assert shell(f"cat {tmp_path}/link/file", profile=seen).text == "here"


def test_parents_that_only_root_may_enter_do_not_hide_what_is_bound(shell, profile, tmp_path):
    folder = tmp_path / "closed" / "inner"
    folder.mkdir(parents=True)
    (folder / "file").write_text("content")
    folder.parent.chmod(0o700)
    assert (
        shell(f"cat {folder}/file", profile=dataclasses.replace(profile, readable=(folder,))).text
        == "content"
    )


def test_writable_folders_are_handed_over(shell, profile, tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("/etc/hostname")
    owner = Path("/etc/hostname").stat().st_uid
    changed = dataclasses.replace(profile, writable=(tmp_path,), workdir=str(tmp_path))
    answer = shell("echo new > old && echo fresh > fresh", profile=changed)
    assert answer.ended.ok, answer.text
    assert (tmp_path / "old").read_text() == "new\n"
    assert (tmp_path / "fresh").read_text() == "fresh\n"
    assert Path("/etc/hostname").stat().st_uid == owner, (
        "links are not followed when folders are handed over"
    )


def test_set_user_id_programs_give_nothing(shell, profile, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make such a file")
    program = tmp_path / "id"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o755 | stat.S_ISUID)
    tmp_path.chmod(0o755)
    answer = shell(f"{program} -u", profile=dataclasses.replace(profile, readable=(tmp_path,)))
    assert int(answer.text) != 0


def test_it_says_which_path_is_missing(kind):
    absent = Profile("test", "candidate", readable=(Path("/nowhere/at/all"),))
    with pytest.raises(SandboxError, match="/nowhere/at/all does not exist"):
        spawn(absent, ["/bin/true"], kind=kind)


def test_it_says_why_a_program_does_not_start(kind, profile):
    with spawn(profile, ["/usr/bin/no-such-program"], kind=kind) as process:
        assert not process.wait(10).ok


def test_profiles_refuse_relative_paths_and_unknown_identities():
    with pytest.raises(SandboxError, match="absolute"):
        Profile("test", "candidate", readable=(Path("relative"),))
    with pytest.raises(SandboxError, match="identity"):
        Profile("test", "root")


def test_python_runs_with_all_that_it_imports(kind, profile):
    python = Path(sys.executable)
    readable = python_profile_paths(python)
    assert Path("/") not in readable
    shown = dataclasses.replace(profile, readable=readable)
    code = "import ssl, pytest, sys; print(sys.prefix)"
    with spawn(shown, [str(python), "-c", code], kind=kind, stdout=subprocess.PIPE) as process:
        assert process.wait(20).ok
        assert process.stdout.read().decode().strip() == sys.prefix
