import torch
from torch import nn


class Model(nn.Module):
    """Attention weights: scores by a temperature, keys that are out of reach masked, softmax over keys."""

    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, scores, reach):
        scaled = scores / self.temperature
        hidden = torch.where(reach > 0.0, scaled, torch.full_like(scaled, -1e9))
        return torch.softmax(hidden, dim=-1)


def get_inputs():
    # One mask per sequence and key, shared by all heads and queries.
    return [torch.randn(4, 8, 128, 512), torch.randn(4, 1, 1, 512) + 1.0]


def get_init_inputs():
    return [8.0]
