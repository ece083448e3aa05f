import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    """The elementwise tail of a feed-forward layer: bias, GELU, a learned scale per channel, a clamp."""

    def __init__(self, channels, limit):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels) * 0.1)
        self.scale = nn.Parameter(1.0 + torch.randn(channels) * 0.1)
        self.limit = limit

    def forward(self, x):
        y = F.gelu(x + self.bias)
        return torch.clamp(y * self.scale, max=self.limit)


def get_inputs():
    return [torch.randn(1024, 3072)]


def get_init_inputs():
    return [3072, 6.0]
