import errno

import pytest
import torch

from hires.ops.out_of_memory import is_out_of_memory

MESSAGES = [
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)",
    "could not create a primitive",
    "std::bad_alloc",
    "Resource temporarily unavailable",
    "GET was unable to find an engine to execute this computation",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_errors_without_a_type_of_their_own_are_told_by_their_message(message):
    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(ValueError(message)), "someone quotes it"


def test_errors_with_a_type_of_their_own_need_no_message():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not is_out_of_memory(OSError(errno.ENOENT, "No such file"))
    driver = torch.AcceleratorError("CUDA error: out of memory")
    assert not is_out_of_memory(driver)
    driver.error_code = 2  # as torch sets it
    assert is_out_of_memory(driver)


def test_torchs_own_error_on_a_cpu_is_one():
    with pytest.raises(RuntimeError) as told:
        torch.empty(1 << 60)
    assert is_out_of_memory(told.value)


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), ValueError("4"), KeyboardInterrupt()])
def test_other_errors_are_none(error):
    assert not is_out_of_memory(error)


def test_one_that_another_error_was_raised_from_or_while_handling_counts():
    def fail(cause=None, context=None):
        error = ValueError("the step failed")
        error.__context__ = context
        if cause is not None:
            error.__cause__ = cause
        return error

    assert is_out_of_memory(fail(cause=MemoryError()))
    assert is_out_of_memory(fail(context=fail(context=MemoryError())))
    assert is_out_of_memory(fail(cause=KeyError("a"), context=None)) is False


def test_what_is_hidden_by_from_none_does_not_count():
    error = ValueError("too few samples")
    error.__context__ = MemoryError()
    assert is_out_of_memory(error)
    error.__suppress_context__ = True
    assert not is_out_of_memory(error)


def test_a_chain_that_leads_back_to_its_beginning_ends():
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert not is_out_of_memory(first)
    second.__cause__ = MemoryError()
    assert is_out_of_memory(first)
