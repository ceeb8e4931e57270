"""What a decoder layer is made of, once per device: plain PyTorch (any device, and the oracle of the others), native
code for CPUs, Triton for CUDA. The model is written against `Kernels` alone."""

from engine.kernels.protocol import Activation, Attention, Bits, Draw, Kernels, Linear

__all__ = ["Activation", "Attention", "Bits", "Draw", "Kernels", "Linear"]
