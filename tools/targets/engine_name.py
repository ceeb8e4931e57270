"""EngineName: the engines that playbooks and knob tables know by name."""

from __future__ import annotations

from typing import Literal

__all__ = ["EngineName"]

EngineName = Literal["bundled", "vllm", "sglang", "llamacpp"]
