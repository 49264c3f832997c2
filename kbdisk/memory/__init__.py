"""What a model remembers of the entities that it has learnt from, beside its weights."""

from kbdisk.memory.config import MemoryConfig
from kbdisk.memory.learning import remember
from kbdisk.memory.memory import Memory, Remembering

__all__ = ["Memory", "MemoryConfig", "Remembering", "remember"]
