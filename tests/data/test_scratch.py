"""Scratch files leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

USES = {
    "growing array": """
        import numpy as np
        from kbdisk.data.shards import GrowingArray
        growing = GrowingArray()
        growing.move_to_file(folder)
        growing.append(np.arange(1000))
        growing.tensor()
    """,
    "spool": """
        from kbdisk.data.spool import Spool
        numbers = Spool(range(10_000), folder)
    """,
}
KILLED = """
import os, signal, sys
from pathlib import Path
folder = Path(sys.argv[1])
{use}
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
@pytest.mark.parametrize("use", USES)
def test_a_killed_process_leaves_no_file(tmp_path, use):
    script = KILLED.format(use=textwrap.dedent(USES[use]))
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode < 0
    assert list(tmp_path.iterdir()) == []
