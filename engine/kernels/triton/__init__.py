"""Triton kernels for NVIDIA GPUs, one operation per file. This file imports nothing: triton may be absent."""
