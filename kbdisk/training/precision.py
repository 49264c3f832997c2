"""In which numbers a network computes, and where."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from kbdisk.errors import ConfigError

WIDE = 128  # vectors of this size are worth their conversion on a CPU: at 64 a step took twice as long


def device_named(name: str) -> torch.device:
    """The device that a user names: auto, cpu, cuda, cuda:1; ConfigError where it is not there, or cannot work."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):  # torch says at length why: with all kinds of devices that there ever were
        raise ConfigError("--device", f"expected auto, cpu or a device that is there, got {name!r}.") from None
    if device.type == "mps":  # it has no float64, by which numbers are told
        raise ConfigError(
            "--device", "expected auto, cpu or cuda, got mps, which lacks 64-bit floats. Say --device cpu."
        )
    return device


def is_native(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 faster than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    cpu = torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else ""
    return cpu.startswith("AVX512") and bool(torch.cpu._is_avx512_bf16_supported())


def computing(precision: str, device: torch.device, width: int) -> AbstractContextManager[object]:
    """float32, bfloat16, or auto: bfloat16 where that is faster. float32 all the same where it matters."""
    faster = is_native(device) and (device.type != "cpu" or width >= WIDE)
    halves = precision == "bfloat16" or (precision == "auto" and faster)
    return torch.autocast(device.type, torch.bfloat16) if halves else nullcontext()
