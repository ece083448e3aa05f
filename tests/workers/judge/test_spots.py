"""Marked elements of every call: what they show, and which pages count as the runner's own."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest
import torch

from workers.device.judge import memory
from workers.device.judge.link import OutputPlace
from workers.device.judge.spots import Spots, differ, misplaced, size_of
from workers.protocol.problem import Precision

PAGE = mmap.PAGESIZE


def place(
    address: int, shape: tuple[int, ...] = (4,), strides: tuple[int, ...] = (1,)
) -> OutputPlace:
    reach = 4 * (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))
    return OutputPlace(address, reach, torch.float32, shape, strides)


def test_an_output_may_lie_in_an_input_only_where_the_reference_s_does() -> None:
    inputs = [(1000, 2000)]
    assert "input" in misplaced([place(5000)], [place(1500)], inputs, inputs)
    assert misplaced([place(1000)], [place(1500)], inputs, inputs) == ""
    assert misplaced([place(5000)], [place(2000)], inputs, inputs) == ""


def test_an_expanded_output_is_refused_unless_the_reference_gives_one() -> None:
    whole, folded = place(0, (8, 4), (4, 1)), place(0, (8, 4), (0, 1))
    assert "expanded" in misplaced([whole], [folded], [], [])
    assert misplaced([folded], [folded], [], []) == ""
    assert misplaced([whole], [place(64, (8, 4), (1, 8))], [], []) == ""


def test_outputs_of_one_call_lie_apart_unless_the_reference_s_do_not() -> None:
    assert "Two outputs" in misplaced([place(0), place(64)], [place(0), place(8)], [], [])
    assert misplaced([place(0), place(0)], [place(0), place(8)], [], []) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_stale_call_shows_and_a_rounding_does_not(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    fresh, stale = (10 * torch.randn(2, 24, generator=generator)).to(dtype)
    rounded = fresh if dtype is torch.int64 else (fresh.double() * (1 + 1e-6)).to(dtype)
    seen, whole = Spots([fresh], 0), [size_of(fresh)]
    assert not differ(seen, Spots([rounded], 0), whole, Precision.IEEE)
    assert differ(seen, Spots([stale], 0), whole, Precision.IEEE)
    assert differ(seen, Spots([], 0), whole, Precision.IEEE)


def test_written_private_memory_is_its_own_and_nothing_else_is() -> None:
    written = torch.ones(4 * PAGE, dtype=torch.uint8)
    assert memory.foreign_pages(os.getpid(), [written.data_ptr(), written.data_ptr() + PAGE]) == 0
    for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        handle = os.memfd_create("pages")
        os.ftruncate(handle, PAGE)
        with mmap.mmap(handle, PAGE, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
            view = ctypes.c_char.from_buffer(mapped)
            assert mapped[0] == 0
            assert memory.foreign_pages(os.getpid(), [ctypes.addressof(view)]) == 1
            del view
        os.close(handle)


def test_pages_that_nobody_has_written_are_found() -> None:
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, 2 * PAGE, flags=private) as mapped:
        view = ctypes.c_char.from_buffer(mapped)
        address = ctypes.addressof(view)
        assert memory.foreign_pages(os.getpid(), [address]) == 1  # not there yet
        assert mapped[0] == 0
        assert memory.foreign_pages(os.getpid(), [address]) == 1  # the kernel's page of zeros
        mapped[0] = 1
        assert memory.foreign_pages(os.getpid(), [address]) == 0
        del view


def test_scattered_elements_are_gathered_in_order() -> None:
    source = torch.arange(1000, dtype=torch.float32)
    target = torch.empty(3)
    addresses = [source.data_ptr() + 4 * index for index in (7, 999, 0)]
    memory.gather_into(os.getpid(), addresses, 4, target.data_ptr())
    assert target.tolist() == [7, 999, 0]
    with pytest.raises(OSError, match="process_vm_readv"):
        memory.gather_into(os.getpid(), [8, *addresses], 4, target.data_ptr())
