import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    """The seam between two layers of a transformer: residual sum, layer norm, SiLU, and the sum for the next one."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, residual):
        total = x + self.gain * residual
        return F.silu(self.norm(total)), total


def get_inputs():
    return [torch.randn(8, 256, 1024), torch.randn(8, 256, 1024)]


def get_init_inputs():
    return [1024]
