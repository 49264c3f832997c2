"""`python -m kbdisk` is `kbdisk`."""

from __future__ import annotations

from kbdisk.cli import main

main()
