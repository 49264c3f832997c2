"""Atomic replacement of a file: a part beside it is written, synced to the disk, and takes its name; then the folder is
synced, too. At whatever call the program or the power stops, the name leads to the old file or to the new one, whole.

A writer holds a flock on its part. A part that nobody holds was left by a killed process, and the next writer of that
name removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kbdisk.errors import KBDiskWarning
from kbdisk.locks import is_locked, stem

BUFFER = 1 << 18
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}  # of a folder that cannot be synced, or only entered


@contextlib.contextmanager
def replacing(place: Path, names: contextlib.ExitStack, like: Path | None = None) -> Iterator[BinaryIO]:
    """A part of a file, which takes its name when `names` end without a fault.

    It has owner, group, mode and extended attributes of the file that it is `like`.
    """
    remove_dead_parts(place)
    part = part_of(place)
    descriptors: list[int] = []

    def end(fault: type[BaseException] | None, *rest: object) -> None:
        try:
            if fault is None:
                os.replace(part, place)  # noqa: PTH105 - one call, which a test makes fail
                sync_folder(place.parent)
        finally:
            part.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what it held is on the disk, or wanted no more
                while descriptors:
                    os.close(descriptors.pop())

    names.push(end)  # before there is a part, so that no signal falls between
    descriptors.append(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    is_locked(descriptors[0])
    with os.fdopen(descriptors[0], "wb", buffering=BUFFER, closefd=False) as file:
        yield file
        file.flush()
        if like is None:
            part.chmod(0o666 & ~umask())
        else:
            _copy_attributes(like, part, is_replaced=like == place)
        os.fsync(file.fileno())


def write_bytes(place: Path, data: bytes) -> None:
    """Write a file as a whole; what is there is replaced, and keeps its owner and its mode."""
    real = place.resolve()
    with contextlib.ExitStack() as names, replacing(real, names, real if real.exists() else None) as file:
        file.write(data)


def part_of(place: Path) -> Path:
    """A new name beside a file or a folder."""
    return place.with_name(f".{stem(place.name)}.{secrets.token_hex(4)}.part")


def remove_dead_parts(place: Path) -> None:
    """Remove the parts that killed writers of this name left; those of a living one are locked, and stay."""
    if os.name != "posix":
        return  # without locks it is unknown whether a writer lives
    left = re.compile(rf"\.{re.escape(stem(place.name))}\.[0-9a-f]{{8}}\.part")
    with contextlib.suppress(OSError):
        for name in os.listdir(place.parent):  # noqa: PTH208 - names alone, of what may be a large folder
            if left.fullmatch(name):
                _remove_dead(place.with_name(name))


def _remove_dead(part: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if is_locked(descriptor):
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    shutil.rmtree(part)
                else:
                    part.unlink()
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, where its file system can do that."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise


def umask() -> int:
    """The mode bits that new files lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _copy_attributes(old: Path, new: Path, *, is_replaced: bool) -> None:
    """Owner, group, mode, and extended attributes, to which access control lists belong."""
    was, now = old.stat(), new.stat()
    mode = stat.S_IMODE(was.st_mode)
    if hasattr(os, "chown") and (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        mode = _copy_owner(was, old, new, mode, is_replaced)
    new.chmod(mode)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(old):
                with contextlib.suppress(OSError):  # such as security.*, which only root may set
                    os.setxattr(new, name, os.getxattr(old, name))


def _copy_owner(was: os.stat_result, old: Path, new: Path, mode: int, is_replaced: bool) -> int:
    """Give a file the owner and the group of another, as far as this user may; the mode that it then can have."""
    try:
        os.chown(new, was.st_uid, was.st_gid)
    except OSError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)
        try:
            os.chown(new, -1, was.st_gid)
        except OSError:
            mode &= ~0o070 | (mode & 0o007) << 3  # another group may do no more than everybody
        if is_replaced:
            former_owner = f"belonged to user {was.st_uid}, group {was.st_gid}"
            warnings.warn(
                f"{old}: {former_owner}: it is yours now, as only root could keep that", KBDiskWarning, stacklevel=5
            )
    return mode
