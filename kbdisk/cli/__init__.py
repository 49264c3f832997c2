"""The command line. A command parses, calls the library and prints; heavy imports wait inside the commands."""

from kbdisk.cli.main import main

__all__ = ["main"]
