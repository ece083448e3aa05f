"""The built-in author: plans fusions from the problem's graph and writes kernels from generators."""
