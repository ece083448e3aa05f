"""Hand-written bindings: which files they are, and the two files that may be left out.

A workspace without `kernels/ops.json` may bring `kernels/*_binding.cpp` that register Python functions, and a
`binding.cpp` that makes the extension `cuda_extension` of them. Where `binding.cpp` or `binding_registry.h` is
missing, ours takes its place. A registration is one line:

    REGISTER_BINDING(axpby, register_axpby);   // void register_axpby(pybind11::module &m)
"""

from __future__ import annotations

from collections.abc import Mapping

from workers.protocol.ops import MANIFEST_PATH

BINDING_CPP = "binding.cpp"
REGISTRY_H = "binding_registry.h"
_KERNEL_BINDING = "_binding.cpp"

REGISTRY_SOURCE = """\
#pragma once
// Lets every kernels/*_binding.cpp add its functions to the extension without knowing the others.
#include <pybind11/pybind11.h>

#include <utility>
#include <vector>

class __attribute__((visibility("hidden"))) BindingRegistry {
 public:
  using Adder = void (*)(pybind11::module &);

  static BindingRegistry &getInstance() {
    static BindingRegistry registry;
    return registry;
  }

  bool registerBinding(const char *name, Adder adder) {
    adders_.emplace_back(name, adder);
    return true;
  }

  void applyBindings(pybind11::module &module) const {
    for (const auto &entry : adders_) entry.second(module);
  }

 private:
  std::vector<std::pair<const char *, Adder>> adders_;
};

#define REGISTER_BINDING(name, function)           \\
  static const bool binding_registered_##name =    \\
      BindingRegistry::getInstance().registerBinding(#name, +[](pybind11::module &m) { function(m); })
"""

BINDING_SOURCE = """\
#include "binding_registry.h"

PYBIND11_MODULE(cuda_extension, module) { BindingRegistry::getInstance().applyBindings(module); }
"""


EXTENSION = "cuda_extension.so"
"""What a hand-written binding becomes, for scripts in a workspace that import it."""


def is_hand_written(files: Mapping[str, bytes]) -> bool:
    """Whether the author's files are bound by hand, so that the library is a Python extension."""
    return MANIFEST_PATH not in files and bool(binding_sources(files))


def binding_sources(files: Mapping[str, bytes]) -> list[str]:
    """Paths of hand-written binding sources, sorted; empty where there are none."""
    return sorted(
        path
        for path in files
        if path == BINDING_CPP or (path.startswith("kernels/") and path.endswith(_KERNEL_BINDING))
    )


def with_defaults(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files with `binding.cpp` and `binding_registry.h` of ours where the author brings none."""
    defaults = {REGISTRY_H: REGISTRY_SOURCE.encode(), BINDING_CPP: BINDING_SOURCE.encode()}
    return {**defaults, **files}
