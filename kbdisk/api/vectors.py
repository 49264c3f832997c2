"""Entity vectors as files: word2vec text, and `.npy` with the ids beside it.

    vectors.txt       `N D`, then an id and its D numbers a line, parted by blanks: word2vec text, as gensim reads it
    vectors.npy       (N, D) float32; vectors.ids.txt has the ids, one a line, in the order of the rows

A blank or a line end in an id would part it. So blanks, line ends and control characters are written as `\\u0020`, and a
backslash as two; other ids, such as IRIs, stand as they are. Numbers have as many digits as tell float32 apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbdisk.errors import ConfigError, WriteError, setting
from kbdisk.loaders.files import compressing, compression_of, without_compression, writing

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXT_SUFFIXES = (".txt", ".vec", ".w2v")
ARRAY_SUFFIX = ".npy"
_ESCAPED = re.compile(r"[\s\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class EntityVectors:
    """A vector for each of some entities: their ids, and (N, D) float32 in the same order."""

    ids: list[str]
    vectors: NDArray[np.float32]
    left_out: int = 0  # entities of classes that the model does not have

    def __len__(self) -> int:
        return len(self.ids)

    def write(self, target: str | os.PathLike[str], *, force: bool = False) -> list[str]:
        """Write word2vec text (.txt, .vec, .w2v) or an array (.npy), all or nothing; returns the names of the files."""
        name = str(target)
        files = files_of_vectors(name)
        ids = [escaped(id) for id in self.ids]
        with ExitStack() as several:
            with writing(name, replace=force, several=several) as file:
                if len(files) > 1:
                    np.lib.format.write_array(file, self.vectors, allow_pickle=False)
                else:
                    with compressing(file, compression_of(name)) as stream:
                        _write_text(stream, ids, self.vectors)
            for beside in files[1:]:
                with writing(beside, replace=force, several=several) as file:
                    file.writelines(f"{id}\n".encode() for id in ids)
        return files


def files_of_vectors(target: str) -> list[str]:
    """The files of a target: itself, and of an array the file of its ids; ConfigError for a name that tells no format."""
    if target == "-":
        return [target]
    suffix = Path(without_compression(target)).suffix.lower()
    if suffix == ARRAY_SUFFIX and compression_of(target) is None:
        return [target, str(Path(target).with_suffix(".ids.txt"))]
    if suffix not in TEXT_SUFFIXES:
        known = ", ".join((*TEXT_SUFFIXES, ARRAY_SUFFIX))
        raise ConfigError(target, f"the name does not tell the format of vectors. Choose one that ends in {known}.")
    return [target]


def refuse_vectors(target: str, *, force: bool, sources: Iterable[Path] = ()) -> None:
    """Refuse a target before there are vectors: one of the sources, or a file that exists."""
    for name in files_of_vectors(target):
        file = Path(name)
        if name == "-" or not file.exists():
            continue
        if any(source.exists() and file.samefile(source) for source in sources):
            raise WriteError(name, "is the source itself. Choose another target.")
        if file.is_file() and not force:
            raise WriteError(name, f"exists already. Say {setting('force')} to replace it.")


def escaped(id: str) -> str:
    """An id as one word: blanks, line ends and control characters by their code points, backslashes doubled."""
    return _ESCAPED.sub(lambda match: "\\\\" if match[0] == "\\" else f"\\u{ord(match[0]):04x}", id)


def _write_text(stream: Any, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
    stream.write(f"{len(ids)} {vectors.shape[1]}\n".encode())
    for id, vector in zip(ids, vectors, strict=True):
        stream.write(f"{id} {' '.join(map(str, vector))}\n".encode())
