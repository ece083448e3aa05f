"""From the op manifest: the stable-ABI binding, the stub launchers, and the operators' schemas.

The builder compiles what comes out of here, and the exporter ships it, so the text is the same for the same
manifest and reads like something a person would keep. The binding needs torch 2.10 or newer at run time,
no Python, and is the only source that sees torch headers.

What a generated operator does, in this order: check every tensor (dtype, number of dimensions, layout,
device), allocate outputs and scratch uninitialised, call the launcher with the arguments in the declared
order, return the outputs. Nothing is launched when every output is empty.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from workers.protocol.codec import ProtocolError
from workers.protocol.ops import ElementType, InputKind, Op, OpInput, OpManifest, check_name
from workers.protocol.problem import Target
from workers.workspace.expressions import to_cpp

TORCH_TARGET_VERSION = "0x020a000000000000"
"""torch 2.10: the oldest that can load what is built here."""

MAX_DIMENSIONS = 16

C_TYPES = {
    ElementType.FLOAT64: "double",
    ElementType.FLOAT32: "float",
    ElementType.FLOAT16: "uint16_t",
    ElementType.BFLOAT16: "uint16_t",
    ElementType.INT64: "int64_t",
    ElementType.INT32: "int32_t",
    ElementType.INT16: "int16_t",
    ElementType.INT8: "int8_t",
    ElementType.UINT8: "uint8_t",
    ElementType.BOOL: "bool",
}
"""Element types as the launcher sees them. The two half types are their bits: linking does not look at
pointer types, so a launcher may name a type of its own, such as `__half`, in their place."""

_SCALARS = {InputKind.INT: "int64_t", InputKind.FLOAT: "double", InputKind.BOOL: "bool"}
_SCHEMA_TYPES = {
    InputKind.TENSOR: "Tensor",
    InputKind.INT: "int",
    InputKind.FLOAT: "float",
    InputKind.BOOL: "bool",
}
_CPP_WORDS = frozenset([
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "compl", "concept",
    "const", "consteval", "constexpr", "constinit", "const_cast", "continue", "co_await",
    "co_return", "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast",
    "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
    "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static",
    "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local",
    "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "linux", "unix", "main",
])  # fmt: skip
_DIMENSION = re.compile(r"(\w+)\.(\d+|numel)")


def op_schema(op: Op) -> str:
    """The operator's schema as torch writes it, such as `gelu(Tensor x, float scale) -> Tensor`."""
    inputs = ", ".join(f"{_SCHEMA_TYPES[item.kind]} {_safe(item.name)}" for item in op.inputs)
    results = ", ".join("Tensor" for _ in op.outputs)
    return f"{op.name}({inputs}) -> {results if len(op.outputs) == 1 else f'({results})'}"


def launcher_prototypes(manifest: OpManifest, target: Target) -> tuple[str, ...]:
    """The C prototype of every launcher, without `extern "C"` and without a semicolon."""
    return tuple(_prototype(op, target) for op in manifest.ops)


def stub_source(manifest: OpManifest, target: Target) -> str:
    """The same launchers with empty bodies: what the operators are without the author's kernels."""
    lines = ["// Launchers that do nothing.", "#include <cstdint>", "", 'extern "C" {']
    lines += [f"{prototype} {{}}" for prototype in launcher_prototypes(manifest, target)]
    return "\n".join([*lines, "}", ""])


def binding_source(manifest: OpManifest, namespace: str, target: Target) -> str:
    """The binding as one C++ source that registers `torch.ops.<namespace>.<op>` for every op.

    Raises `ProtocolError` with a sentence where a name or an argument cannot be bound.
    """
    _check(manifest, namespace, target)
    parts = [_HEAD, _launchers(manifest, target), _TOOLS, _TARGET_TOOLS[target]]
    parts += [_operator(op, target) for op in manifest.ops]
    parts += ["}  // namespace\n", _registration(manifest, namespace)]
    return "\n".join(parts)


def _check(manifest: OpManifest, namespace: str, target: Target) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,100}", namespace):
        raise ProtocolError(f"namespace {namespace[:60]!r}: use letters, digits and '_'")
    for op in manifest.ops:
        if keyword.iskeyword(op.name) or op.name in _CPP_WORDS:
            raise ProtocolError(
                f"op {op.name}: this is a word of Python or C++; choose another name"
            )
        if any(len(output.shape) > MAX_DIMENSIONS for output in op.outputs):
            raise ProtocolError(
                f"op {op.name}: an output may have {MAX_DIMENSIONS} dimensions at most"
            )
        if op.launcher in _CPP_WORDS:
            raise ProtocolError(
                f"op {op.name}: launcher {op.launcher} is a word of C++; choose another"
            )
        if target is Target.CPU and "stream" in op.arguments and not _declared(op, "stream"):
            raise ProtocolError(f"op {op.name}: the argument stream exists on the cuda target only")


def _declared(op: Op, name: str) -> bool:
    names = [item.name for item in op.inputs]
    names += [output.name for output in op.outputs]
    return name in (*names, *(scratch.name for scratch in op.scratch))


def _safe(name: str) -> str:
    """A name that neither Python, C++ nor torch's schema language reserves."""
    return f"{name}_" if name in _CPP_WORDS or keyword.iskeyword(name) else name


def _parameters(op: Op) -> Iterator[tuple[str, str, str]]:
    """For each argument of the launcher: C type, parameter name, and the C++ value to pass."""
    tensors = {item.name: item for item in op.inputs if item.kind is InputKind.TENSOR}
    scalars = {item.name: item for item in op.inputs if item.kind is not InputKind.TENSOR}
    outputs = {item.name: item for item in op.outputs}
    for argument in op.arguments:
        name = _safe(argument.replace(".", "_"))
        if (dtype := tensors[argument].dtype if argument in tensors else None) is not None:
            kind = C_TYPES[dtype]
            yield (
                f"const {kind} *",
                name,
                f"static_cast<const {kind} *>(in_{argument}.const_data_ptr())",
            )
        elif argument in outputs:
            kind = C_TYPES[outputs[argument].dtype]
            yield f"{kind} *", name, f"static_cast<{kind} *>(out_{argument}.mutable_data_ptr())"
        elif argument in scalars:
            yield f"{_SCALARS[scalars[argument].kind]} ", name, f"in_{argument}"
        elif any(item.name == argument for item in op.scratch):
            yield "void *", name, f"tmp_{argument}.mutable_data_ptr()"
        elif argument == "stream":
            yield "void *", name, "current_stream(device)"
        else:
            yield "int64_t ", name, _value(argument)


def _prototype(op: Op, target: Target) -> str:
    check_name(op.launcher)
    seen: dict[str, int] = {}
    words = []
    for kind, name, _ in _parameters(op):
        seen[name] = seen.get(name, 0) + 1
        words.append(f"{kind}{name if seen[name] == 1 else f'{name}_{seen[name]}'}")
    return f"void {op.launcher}({', '.join(words)})"


def _launchers(manifest: OpManifest, target: Target) -> str:
    lines = [f"{prototype};" for prototype in launcher_prototypes(manifest, target)]
    return "\n".join(['extern "C" {', *lines, "}", ""])


def _value(name: str) -> str:
    """The C++ for a name of an expression."""
    match = _DIMENSION.fullmatch(name)
    if match is None:
        return f"in_{name}"
    tensor, axis = match.groups()
    return f"in_{tensor}.numel()" if axis == "numel" else f"in_{tensor}.size({axis})"


def _operator(op: Op, target: Target) -> str:
    parameters = ", ".join(
        f"Tensor in_{item.name}"
        if item.kind is InputKind.TENSOR
        else f"{_SCALARS[item.kind]} in_{item.name}"
        for item in op.inputs
    )
    count = len(op.outputs)
    result = "Tensor" if count == 1 else f"std::tuple<{', '.join(['Tensor'] * count)}>"
    lines = [f"{result} op_{op.name}({parameters}) {{"]
    lines += [f"  {line}" for line in _body(op, target)]
    return "\n".join([*lines, "}", ""])


def _body(op: Op, target: Target) -> Iterator[str]:
    tensors = [item for item in op.inputs if item.kind is InputKind.TENSOR]
    for item in tensors:
        yield from _checks(op, item)
    if tensors:
        yield f"const int32_t device = in_{tensors[0].name}.get_device_index();"
        for item in tensors[1:] if target is Target.CUDA else ():
            yield f'same_device(device, in_{item.name}, "{op.name}", "{item.name}");'
    else:
        yield "const int32_t device = current_device();"
    if target is Target.CUDA:
        yield "const torch::stable::accelerator::DeviceGuard guard(device);"
    for output in op.outputs:
        sizes = ", ".join(to_cpp(size, op, _value) for size in output.shape)
        yield (
            f"const Tensor out_{output.name} = allocate({{{sizes}}}, aoti_torch_dtype_{output.dtype}(), device,"
            f' "{op.name}", "{output.name}");'
        )
    for scratch in op.scratch:
        size = to_cpp(scratch.bytes, op, _value)
        yield (
            f"const Tensor tmp_{scratch.name} = allocate({{{size}}}, aoti_torch_dtype_uint8(), device,"
            f' "{op.name}", "{scratch.name}");'
        )
    filled = " || ".join(f"out_{output.name}.numel() > 0" for output in op.outputs)
    yield f"if ({filled}) {{"
    yield f"  {op.launcher}({', '.join(value for _, _, value in _parameters(op))});"
    yield "}"
    names = ", ".join(f"out_{output.name}" for output in op.outputs)
    yield f"return {names};" if len(op.outputs) == 1 else f"return std::make_tuple({names});"


def _checks(op: Op, item: OpInput) -> Iterator[str]:
    least = 1 + max((axis for axis in _axes(op, item.name)), default=-1)
    exact = -1 if item.ndim is None else item.ndim
    yield (
        f'check_tensor(in_{item.name}, aoti_torch_dtype_{item.dtype}(), "{item.dtype}", {exact}, {least},'
        f' "{op.name}", "{item.name}");'
    )


def _axes(op: Op, name: str) -> Iterator[int]:
    """Dimensions of a tensor that are used anywhere."""
    texts = [*op.arguments, *(size for output in op.outputs for size in output.shape)]
    texts += [scratch.bytes for scratch in op.scratch]
    for text in texts:
        for tensor, axis in _DIMENSION.findall(text):
            if tensor == name and axis != "numel":
                yield int(axis)


def _registration(manifest: OpManifest, namespace: str) -> str:
    lines = [f"STABLE_TORCH_LIBRARY({namespace}, library) {{"]
    lines += [f'  library.def("{op_schema(op)}");' for op in manifest.ops]
    lines += [
        "}",
        "",
        f"STABLE_TORCH_LIBRARY_IMPL({namespace}, CompositeExplicitAutograd, library) {{",
    ]
    lines += [f'  library.impl("{op.name}", TORCH_BOX(&op_{op.name}));' for op in manifest.ops]
    return "\n".join([*lines, "}", ""])


_HEAD = """\
// Generated from kernels/ops.json: checks arguments, allocates outputs, calls the launchers.
// Needs torch 2.10 or newer at run time (compile with -DTORCH_TARGET_VERSION=0x020a000000000000).
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <tuple>
"""

_TOOLS = """\
namespace {

using torch::stable::Tensor;

[[noreturn]] void refuse(const char *op, const char *name, const std::string &what) {
  throw std::runtime_error(std::string(op) + ": " + name + " " + what);
}

[[maybe_unused]] int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) throw std::runtime_error("a size of kernels/ops.json divides by zero");
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

[[maybe_unused]] const char *dtype_name(int32_t dtype) {
  if (dtype == aoti_torch_dtype_float64()) return "float64";
  if (dtype == aoti_torch_dtype_float32()) return "float32";
  if (dtype == aoti_torch_dtype_float16()) return "float16";
  if (dtype == aoti_torch_dtype_bfloat16()) return "bfloat16";
  if (dtype == aoti_torch_dtype_int64()) return "int64";
  if (dtype == aoti_torch_dtype_int32()) return "int32";
  if (dtype == aoti_torch_dtype_int16()) return "int16";
  if (dtype == aoti_torch_dtype_int8()) return "int8";
  if (dtype == aoti_torch_dtype_uint8()) return "uint8";
  if (dtype == aoti_torch_dtype_bool()) return "bool";
  return "another dtype";
}
"""

_SHARED_TOOLS = """
// A contiguous, uninitialised tensor.
Tensor allocate(std::initializer_list<int64_t> sizes, int32_t dtype, int32_t device, const char *op,
                const char *name) {
  int64_t strides[16];
  int64_t stride = 1;
  const size_t ndim = sizes.size();
  for (size_t k = ndim; k-- > 0;) {
    const int64_t size = sizes.begin()[k];
    if (size < 0) refuse(op, name, "would get the size " + std::to_string(size));
    strides[k] = stride;
    if (__builtin_mul_overflow(stride, size > 1 ? size : 1, &stride)) {
      refuse(op, name, "would be too large");
    }
  }
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(ndim, sizes.begin(), strides, dtype, device_type(), device, &handle)) {
    refuse(op, name, "could not be allocated");
  }
  return Tensor(handle);
}

[[maybe_unused]] void check_tensor(const Tensor &tensor, int32_t dtype, const char *dtype_wanted,
                                   int64_t ndim, int64_t least, const char *op, const char *name) {
  int32_t found = 0;
  int32_t where = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &found));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &where));
  if (where != device_type()) refuse(op, name, "must be on " DEVICE_NAME);
  if (found != dtype) {
    refuse(op, name, std::string("must have dtype ") + dtype_wanted + ", not " + dtype_name(found));
  }
  const int64_t dims = tensor.dim();
  if (ndim >= 0 && dims != ndim) {
    refuse(op, name, "must have " + std::to_string(ndim) + " dimensions, not " + std::to_string(dims));
  }
  if (dims < least) {
    refuse(op, name, "must have at least " + std::to_string(least) + " dimensions, not " +
                         std::to_string(dims));
  }
  if (!tensor.is_contiguous()) refuse(op, name, "must be contiguous: call .contiguous() first");
}
"""

_CPU_TOOLS = """\
#define DEVICE_NAME "cpu"
int32_t device_type() { return aoti_torch_device_type_cpu(); }

[[maybe_unused]] int32_t current_device() { return -1; }
"""

_CUDA_TOOLS = """\
#define DEVICE_NAME "cuda"
int32_t device_type() { return aoti_torch_device_type_cuda(); }

[[maybe_unused]] int32_t current_device() {
  return torch::stable::accelerator::getCurrentDeviceIndex();
}

[[maybe_unused]] void *current_stream(int32_t device) {
  void *stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return stream;
}

[[maybe_unused]] void same_device(int32_t device, const Tensor &tensor, const char *op, const char *name) {
  if (tensor.get_device_index() != device) refuse(op, name, "must be on the device of the first tensor");
}
"""

_TARGET_TOOLS = {Target.CPU: _CPU_TOOLS + _SHARED_TOOLS, Target.CUDA: _CUDA_TOOLS + _SHARED_TOOLS}
