"""From the host's arrays to the device's tensors, without waiting for what the device is computing."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["to_device"]


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """`values` on `device`; on a CPU the same memory.

    A copy from pageable memory waits for the device. Pinned memory that is dropped at once is kept by the allocator
    until the copy is over.
    """
    host = torch.from_numpy(values)
    return host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)
