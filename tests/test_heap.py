"""Freed memory is returned where the C library can do that, and nothing happens where it cannot."""

from __future__ import annotations

from types import SimpleNamespace

from tables import for_each

from kbdisk import heap


class WithoutLibrary:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, name: None) -> None:
        raise self.error


def test_the_c_library_is_asked_to_trim_the_heap(monkeypatch):
    asked = []
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=asked.append))
    heap._trim.cache_clear()
    heap.return_freed_memory()
    heap._trim.cache_clear()
    assert asked == [0]


@for_each("library", [WithoutLibrary(OSError()), WithoutLibrary(TypeError()), lambda name: SimpleNamespace()])
def test_a_c_library_that_cannot_trim_is_let_be(monkeypatch, library):
    monkeypatch.setattr(heap.ctypes, "CDLL", library)
    heap._trim.cache_clear()
    heap.return_freed_memory()
    heap._trim.cache_clear()
