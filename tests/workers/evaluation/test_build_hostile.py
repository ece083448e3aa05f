"""The builder on hostile snapshots: nothing leaks, nothing runs, nothing forbidden gets through."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from workers.artifacts import FolderStore, put_files
from workers.evaluation.build import build
from workers.evaluation.build_audit import audit_library
from workers.evaluation.build_elf import ElfError, read_library, read_object
from workers.evaluation.build_toolchain import find_compiler
from workers.evaluation.config import WorkerConfig
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildStatus, EvaluateRequest
from workers.sandbox import choose

OPS = json.dumps(
    {
        "ops": [
            {
                "name": "f",
                "launcher": "ws_f",
                "inputs": [{"name": "x", "kind": "tensor", "dtype": "float32"}],
                "outputs": [{"name": "y", "dtype": "float32", "shape": ["x.numel"]}],
                "arguments": ["x", "y", "x.numel"],
            }
        ]
    }
)
LAUNCHER = (
    '\n#include <cstdint>\nextern "C" void ws_f(const float *x, float *y, int64_t n) { BODY }\n'
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> WorkerConfig:
    if problem := choose("auto").problem:
        pytest.skip(problem)
    home = tmp_path_factory.mktemp("home")
    return WorkerConfig(home / "artifacts", home / "cache", Path(sys.executable))


@pytest.fixture
def run(config):
    store = FolderStore(config.artifacts)
    problem = put_files(store, {"model.py": b"", "problem.toml": b""})

    def call(before: str = "", body: str = "", **files: str):
        text = before + LAUNCHER.replace("BODY", body)
        snapshot = {"kernels/ops.json": OPS, "kernels/f.cpp": text, **files}
        digest = put_files(store, {path: text.encode() for path, text in snapshot.items()})
        return build(EvaluateRequest(problem, digest, (Stage.BUILD,)), store, config)

    return call


def everything(result, config) -> str:
    store = FolderStore(config.artifacts)
    said = [
        result.summary,
        *(d.message for d in result.diagnostics),
        store.get(result.log).decode(),
    ]
    if result.library:
        said.append(store.get(result.library).decode("latin-1"))
    return "\n".join(said)


@pytest.mark.parametrize(
    "line",
    [
        '#include "{}"',
        "#include <{}>",
        '#include "../../../../../../../../../../..{}"',
        '__asm__(".incbin \\"{}\\"");',
        '__asm__(".include \\"{}\\"");',
    ],
)
@pytest.mark.parametrize("place", ["/etc/shadow", "/etc/passwd", "PROJECT", "SECRET"])
def test_no_file_of_the_host_gets_into_a_message_or_a_library(run, config, tmp_path, line, place):
    secret = tmp_path / "secret.h"
    secret.write_text("secret_words_of_the_host\n")
    project = Path(__file__).resolve().parents[3] / "pyproject.toml"
    path = {"PROJECT": str(project), "SECRET": str(secret)}.get(place, place)
    result = run(line.format(path))
    assert result.status is BuildStatus.COMPILE_ERROR
    text = everything(result, config)
    for word in ("root:", "secret_words_of_the_host", "Warpsmith", "[project]"):
        assert word not in text.replace(path, "")


def test_a_constructor_never_runs_in_the_builder(run, config, tmp_path):
    mark = tmp_path / "mark"
    tmp_path.chmod(0o777)
    result = run(
        f'#include <cstdio>\n__attribute__((constructor)) static void boot() {{ if (FILE *f = std::fopen("{mark}", "w")) '
        'std::fclose(f); __builtin_printf("constructed\\n"); }\n'
    )
    assert result.status is BuildStatus.BUILT
    assert not mark.exists()
    assert "constructed" not in FolderStore(config.artifacts).get(result.log).decode()


@pytest.mark.parametrize(
    ("declaration", "call", "name"),
    [
        ("int system(const char *);", 'system("id");', "system"),
        ("void *dlopen(const char *, int);", 'dlopen("libm.so.6", 1);', "dlopen"),
        ("void *dlsym(void *, const char *);", 'dlsym(nullptr, "f");', "dlsym"),
        ("int fork();", "fork();", "fork"),
        (
            "int execve(const char *, char **, char **);",
            "execve(nullptr, nullptr, nullptr);",
            "execve",
        ),
        ("int socket(int, int, int);", "socket(2, 1, 0);", "socket"),
        ("long ptrace(int, ...);", "ptrace(0);", "ptrace"),
        ("long process_vm_writev(int, ...);", "process_vm_writev(1);", "process_vm_writev"),
        ("void _exit(int);", "_exit(0);", "_exit"),
        ("long syscall(long, ...);", "syscall(57);", "syscall"),
    ],
)
def test_forbidden_functions_are_rejected_by_name(run, declaration, call, name):
    result = run(f'extern "C" {{ {declaration} }}\n', call)
    assert result.status is BuildStatus.REJECTED, result.summary
    assert name in result.summary
    diagnostic = next(d for d in result.diagnostics if d.tool == "audit")
    assert diagnostic.file == "kernels/f.cpp"
    assert result.library == ""


def test_a_kernel_may_not_call_torch_through_the_shims(run):
    before = 'extern "C" int aoti_torch_get_numel(void *, long *);\n'
    result = run(before, "long k; aoti_torch_get_numel(nullptr, &k);")
    assert result.status is BuildStatus.REJECTED
    assert "aoti_torch_get_numel" in result.summary


def test_a_kernel_may_not_replace_a_shim_of_the_binding(run):
    before = 'extern "C" int aoti_torch_get_dtype(void *, int *type) { *type = 6; return 0; }\n'
    result = run(before)
    assert result.status is BuildStatus.REJECTED
    assert "aoti_torch_get_dtype" in result.summary


def test_a_kernel_may_not_name_torch_s_classes(run):
    before = "namespace at { struct Tensor { void zero(); }; }\n"
    result = run(before, "reinterpret_cast<at::Tensor *>(y)->zero();")
    assert result.status is BuildStatus.REJECTED


def test_torch_headers_are_out_of_a_kernel_s_reach(run):
    result = run("#include <torch/types.h>\n")
    assert result.status is BuildStatus.COMPILE_ERROR
    assert "torch/types.h" in result.summary


def test_other_sources_are_out_of_reach_of_an_include(run):
    result = run('#include "other.cpp"\n', **{"kernels/other.cpp": "int other;\n"})
    assert result.status is BuildStatus.COMPILE_ERROR


def test_an_endless_stream_of_errors_is_cut(run, config):
    bad = "".join(f"int a{k} = b{k};\n" for k in range(5000))
    result = run(bad)
    assert result.status is BuildStatus.COMPILE_ERROR
    assert len(result.diagnostics) <= 101


def test_huge_objects_are_refused(run):
    result = run("char big[100000000] = {1};\n")
    assert result.status in (BuildStatus.COMPILE_ERROR, BuildStatus.LINK_ERROR)
    assert result.library == ""
    assert "larger than allowed" in result.summary


def test_needed_libraries_and_run_paths_off_the_list_are_found(tmp_path):
    compiler = str(find_compiler().path)
    source = tmp_path / "a.c"
    source.write_text("void f(void) {}\n")
    other, library = tmp_path / "libother.so", tmp_path / "liba.so"
    flags = ["-shared", "-fPIC", "-x", "c", str(source)]
    subprocess.run(
        [compiler, *flags, "-Wl,-soname,libother.so", "-o", str(other)], check=True, timeout=60
    )
    linking = [
        "-x",
        "none",
        "-Wl,--no-as-needed",
        str(other),
        "-Wl,-rpath,/tmp/evil",
        "-o",
        str(library),
    ]
    subprocess.run([compiler, *flags, *linking], check=True, timeout=60)
    messages = [d.message for d in audit_library(library.read_bytes())]
    assert any("libother.so" in text for text in messages)
    assert any("/tmp/evil" in text for text in messages)


def test_broken_elf_files_raise_our_own_error_and_nothing_else(tmp_path):

    path = tmp_path / "a.o"
    source = tmp_path / "a.cpp"
    source.write_text('extern "C" int g(); extern "C" int f() { return g(); }\n')
    subprocess.run(
        [str(find_compiler().path), "-c", str(source), "-o", str(path)], check=True, timeout=60
    )
    good = path.read_bytes()
    assert read_object(good).defined == {"f"}
    assert read_object(good).undefined == {"g"}
    dice = random.Random(7)
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 8)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        bad = bad[: dice.choice([len(bad), dice.randrange(len(bad))])]
        for read in (read_object, read_library):
            try:
                read(bytes(bad))
            except ElfError:
                continue
