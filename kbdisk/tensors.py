"""Tensors as safetensors: names, shapes and numbers, no code. A network refuses tensors that do not fit it, by their names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from kbdisk.errors import RESTORE, CheckpointError
from kbdisk.printable import plain_line

Shape = tuple[int, ...]
ALIGNMENT = 8  # bytes
TYPES = {  # the names that safetensors has for them
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
}


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a network by name; a tensor with two names is listed once."""
    by_identity: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        by_identity.setdefault(id(tensor), (name, tensor))
    return dict(by_identity.values())


def to_bytes(network: nn.Module, where: str) -> bytes:
    """A network's weights; CheckpointError for NaN or infinities, which `put` refuses."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors_of(network).items()}
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise CheckpointError(
                where, f"expected weights that are numbers, got NaN or infinity in {name}. Train again."
            )
    return save(tensors)


def write(stream: BinaryIO, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors, one after the other: `save` would have all of them in memory once more, as bytes."""
    largest_first = sorted(
        tensors.items(), key=lambda pair: (-pair[1].element_size(), pair[0])
    )  # so that all are aligned
    header, end = {}, 0
    for name, tensor in largest_first:
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    stream.write(len(text).to_bytes(8, "little") + text)
    for _, tensor in largest_first:
        stream.write(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)


def shapes(file: Path) -> dict[str, Shape]:
    """The tensors of a file by their names; none of them is read yet."""
    with opened(file) as stored:
        return {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118


def read(file: Path, device: torch.device) -> dict[str, Tensor]:
    """All tensors of a file by their names, on a device."""
    with opened(file) as stored:
        return {name: stored.get_tensor(name).to(device) for name in stored.keys()}  # noqa: SIM118


def put(network: nn.Module, file: Path) -> None:
    """Load the weights of a file into a network; CheckpointError where a name, shape or type differs."""
    tensors, stored_shapes = tensors_of(network), shapes(file)
    _refuse(file, "missing", tensors.keys() - stored_shapes.keys())
    _refuse(file, "unknown", stored_shapes.keys() - tensors.keys())
    with opened(file) as stored, torch.no_grad():
        for name, parameter in tensors.items():
            tensor = stored.get_tensor(name) if stored_shapes[name] == tuple(parameter.shape) else None
            if tensor is None or tensor.dtype != parameter.dtype:
                got = stored_shapes[name] if tensor is None else tensor.dtype
                wanted = tuple(parameter.shape) if tensor is None else parameter.dtype
                raise CheckpointError(str(file), f"expected {name} as {wanted}, got {got}. {RESTORE}")
            if not _is_finite(tensor):
                raise CheckpointError(str(file), f"expected numbers, got NaN or infinity in {name}. {RESTORE}")
            parameter.copy_(tensor)


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """Open a file of tensors, which are read on demand; CheckpointError where it is not one."""
    try:
        with safe_open(file, "pt") as stored:
            yield stored
    except SafetensorError as error:
        fact = plain_line(str(error)).rstrip(".")
        raise CheckpointError(
            str(file), f"expected weights as safetensors, got other bytes ({fact}). {RESTORE}"
        ) from error


def _refuse(file: Path, difference: str, names: Iterable[str]) -> None:
    some = sorted(names)
    if some:
        ending = f" and {len(some) - 3} more" if len(some) > 3 else ""
        problem = (
            f"expected the weights of this model, got others ({difference}: {plain_line(', '.join(some[:3]))}{ending})."
        )
        raise CheckpointError(str(file), f"{problem} {RESTORE}")


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
