"""Which errors mean that memory ran out."""

import errno

import cv2
import torch

_MESSAGES = (
    "DefaultCPUAllocator: can't allocate memory",
    "could not create a primitive",
    "std::bad_alloc",
    "Resource temporarily unavailable",
    "unable to find an engine",
    "CUDNN_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_NOT_SUPPORTED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""What plain RuntimeErrors say then: torch's allocator, oneDNN and C++ itself on a CPU, which have no type of
their own for it; a thread of autograd that finds no room for its stack (or that the user may not start: the
system says the same); cuDNN and cuBLAS, whose kernels find no room for their workspace or handles."""
_OPENCV_NO_MEMORY = -4  # cv::Error::StsNoMem
_CUDA_OUT_OF_MEMORY = 2
"""cudaErrorMemoryAllocation: what the driver says outside torch's caching allocator, as for a new context."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: the error says so itself, or one that it was raised from or while handling.

    Told by type where there is one, else by the message of a RuntimeError. Messages of cuDNN may have other
    causes too (CUDNN_STATUS_NOT_SUPPORTED also means what it says), so a step that fails again with more room
    does not lack memory. What `raise ... from None` hides does not count.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:  # a chain may lead back to where it began
            continue
        if _says_so(one):
            return True
        seen.add(id(one))
        waiting += [one.__cause__, None if one.__suppress_context__ else one.__context__]
    return False


def _says_so(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):  # of mmap and fork
        return error.errno == errno.ENOMEM
    if isinstance(error, torch.AcceleratorError):
        return getattr(error, "error_code", None) == _CUDA_OUT_OF_MEMORY
    if isinstance(error, cv2.error):
        return error.code == _OPENCV_NO_MEMORY
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _MESSAGES)
