"""The marks of what kbdisk filled in: the sidecar of a target that `kbdisk write` makes of a source with such values."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kbdisk.loaders.files import refuse_odd, set_aside, sidecar_of, sidecars_of, writing

if TYPE_CHECKING:
    from kbdisk.entity import Entity
    from kbdisk.loaders import KB, Report


class Marks:
    """What is told beside a target of the values that kbdisk filled in its source."""

    def __init__(self, lines: list[bytes], target: str) -> None:
        self.lines, self.target = lines, target
        self.aside: Path | None = None  # what told of the file that was there before
        if lines and target != "-":
            refuse_odd(sidecar_of(target))

    @classmethod
    def of(cls, kb: KB, target: str, format: str, classes: tuple[str, ...]) -> Marks:
        """Those of the entities that are wanted. A source without any is not read for it."""
        beside = sidecars_of(str(kb.path)) if kb.path is not None else []
        if not beside and not getattr(kb, "is_completed", False):
            return cls([], target)
        from kbdisk.completion.carried import Carried
        from kbdisk.completion.earlier import given
        from kbdisk.completion.wording import in_words, words_of

        carried = Carried([kb], format, anew=bool(classes))
        wanted = (entity for entity in given(kb) if is_wanted(entity, classes))
        lines = [line for entity in wanted for line in carried.of(entity)]
        return cls(list(in_words(lines, words_of([kb], format, anew=bool(classes)))), target)

    def write(self, report: Report, several: ExitStack) -> None:
        """Write the sidecar; one that told of another file is set aside."""
        sidecar = sidecar_of(self.target)
        with writing(sidecar, several=several) as stream:
            stream.writelines(self.lines)

        def aside(fault: type[BaseException] | None, *rest: object) -> None:
            if fault is None and sidecar.is_file():
                self.aside = set_aside(sidecar)

        several.push(aside)

    def told(self) -> str:
        """A line that says where they are, or that they are lost."""
        values = f"{len(self.lines):,} value{'' if len(self.lines) == 1 else 's'} that kbdisk filled in"
        if self.target == "-":
            return (
                f"{values}: nothing tells them from given ones on standard output. Write to a file to keep them apart."
            )
        return f"{values}: told in {sidecar_of(self.target)}"


def is_wanted(entity: Entity, classes: tuple[str, ...]) -> bool:
    """Whether an entity is of one of the classes, where there are any."""
    from kbdisk.inspection import is_class

    return not classes or any(is_class(name, wanted) for name in entity.classes for wanted in classes)
