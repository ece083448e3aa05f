"""The byte floor: what must be moved, and how fast that can go at most."""

from __future__ import annotations

import pytest
import torch

from workers.device.judge.floor import LEAST_PEAK, least_ms, peak_bandwidth, share_that_matters


def test_every_line_of_an_input_that_is_summed_up_matters() -> None:
    share = share_that_matters(lambda inputs: [inputs[0] + 1], [torch.randn(1 << 16)])
    assert 0.9 < share <= 1.0


def test_a_table_of_which_a_few_rows_are_read_does_not_count_as_a_whole() -> None:
    table, rows = torch.randn(4096, 64), torch.randint(4096, (32,))

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [inputs[0].view(4096, 64)[inputs[1]]]

    assert share_that_matters(call, [table.flatten(), rows]) < 0.1


def test_an_input_that_is_not_looked_at_does_not_count() -> None:
    unread = torch.randn(1 << 16)
    assert share_that_matters(lambda inputs: [torch.ones(3)], [unread]) == 0.0


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_lines_of_integers_are_changed_too(dtype: torch.dtype) -> None:
    values = torch.randint(2, (1 << 14,)).to(dtype)
    assert share_that_matters(lambda inputs: [inputs[0].clone()], [values]) > 0.9


def test_lines_that_end_before_the_tensor_does_are_within_it() -> None:
    assert share_that_matters(lambda inputs: [inputs[0] * 2], [torch.randn(5)]) > 0.9


def test_more_threads_move_more_and_the_bound_is_never_a_strict_one() -> None:
    assert peak_bandwidth(1) >= LEAST_PEAK
    assert peak_bandwidth(4) >= 4 * LEAST_PEAK


def test_a_large_copy_is_slower_than_the_floor() -> None:
    source = torch.ones(8 << 20)
    target = torch.empty_like(source)
    moved = 2 * source.numel() * 4
    assert least_ms(moved, peak_bandwidth(1)) < 1.0
    assert target.copy_(source).sum() == source.numel()
