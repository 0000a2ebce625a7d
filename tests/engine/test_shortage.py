"""Running out of memory is a value; everything else is as it was."""

import gc
import weakref

import pytest
import torch

from hires.engine.shortage import Shortage, attempt, release


def failing(error, held=None):
    def run():
        tensor = torch.zeros(10)
        if held is not None:
            held.append(weakref.ref(tensor))
        raise error

    return run


def test_what_was_computed_is_returned():
    assert attempt(lambda: 3) == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory.\nand more"), "CUDA out of memory."),
        (
            RuntimeError("[at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: 8"),
            "DefaultCPUAllocator: can't allocate memory: 8",
        ),
        (MemoryError(), "MemoryError"),
        (torch.OutOfMemoryError("long " * 100), ("long " * 31).strip() + " ..."),
    ],
)
def test_a_shortage_gives_its_reason_in_a_line(error, reason):
    assert attempt(failing(error)) == Shortage(reason)


def test_other_errors_pass_with_their_traceback():
    error = RuntimeError("shape mismatch")
    with pytest.raises(RuntimeError, match="shape mismatch") as caught:
        attempt(failing(error))
    assert caught.value is error
    assert caught.traceback[-1].name == "run"


def test_nothing_is_held_even_by_an_error_that_somebody_keeps():
    held = []
    first, second = torch.OutOfMemoryError("a"), torch.OutOfMemoryError("b")

    def run():
        try:
            failing(first, held)()
        except RuntimeError:
            failing(second, held)()

    gc.disable()
    try:
        assert attempt(run) == Shortage("b")
        assert [reference() for reference in held] == [None, None]
    finally:
        gc.enable()
    assert second.__context__ is first


def test_cycles_are_released():
    tensor = torch.zeros(10)
    reference, cycle = weakref.ref(tensor), [tensor]
    cycle.append(cycle)
    del tensor, cycle
    release()
    assert reference() is None
