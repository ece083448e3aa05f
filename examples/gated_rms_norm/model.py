import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    """RMS norm written out, gated by SiLU, as in state-space and gated-linear models."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(width))
        self.eps = eps

    def forward(self, x, gate):
        gated = x * F.silu(gate)
        mean_square = gated.pow(2).mean(dim=-1, keepdim=True)
        return gated * torch.rsqrt(mean_square + self.eps) * self.weight


def get_inputs():
    return [torch.randn(2048, 1536), torch.randn(2048, 1536)]


def get_init_inputs():
    return [1536, 1e-6]
