import torch
from torch import nn

import kernel_ops


class ModelNew(nn.Module):
    def __init__(self, channels, limit):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(channels))
        self.shift = nn.Parameter(torch.zeros(channels))
        self.limit = limit

    def forward(self, x):
        return kernel_ops.gated(x, self.scale, self.shift, self.limit)
