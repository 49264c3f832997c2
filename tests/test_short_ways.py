"""From the function of a command to the network there are few calls, in few modules."""

from __future__ import annotations

import shutil
import sys

import pytest
from models import EXAMPLES, run_file
from tables import for_each

from kbdisk.cli import main
from kbdisk.model.network import DiSK

PHONES = str(EXAMPLES / "phones.jsonl")
RUN = "run.toml"

WAYS = [  # a command, the most calls of ours that lead to the network, and the most modules of these; without experts
    (["complete", PHONES, "--model", "phones.kbdisk", "--fill", "all", "--out", "done.jsonl", "--quiet"], 9, 6),
    (["evaluate", "phones.kbdisk", PHONES, "--all", "--quiet"], 6, 4),
    (["belief", "phones.kbdisk", PHONES, "--id", "palm-pre", "--quiet"], 6, 4),
    (["why", PHONES, "--model", "phones.kbdisk", "--id", "palm-pre", "--path", "battery", "--quiet"], 8, 6),
    (["sample", "phones.kbdisk", "-n", "2", "--out", "drawn.jsonl", "--quiet"], 9, 5),
    (["train", PHONES, "--config", RUN, "--out", "new.kbdisk", "--quiet"], 11, 6),
]


def ways_to_the_network(argv: list[str], monkeypatch) -> set[tuple[tuple[str, str], ...]]:
    """The calls, each as (module, function), from that of the command to the one that calls the network."""
    ways = set()
    forward = DiSK.forward

    def observed(self, *arguments, **options):
        way, frame = [], sys._getframe(1)
        while frame is not None:
            module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
            if module.startswith("kbdisk.") and function[0] != "<":  # comprehensions are no calls
                way.append((module, function))
            frame = frame.f_back
        start = way.index((f"kbdisk.cli.{argv[0]}", argv[0]))
        ways.add(tuple(way[start::-1]))
        return forward(self, *arguments, **options)

    monkeypatch.setattr(DiSK, "forward", observed)
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code in (0, None)
    return ways


@for_each(("argv", "calls", "modules"), WAYS)
def test_from_a_command_to_the_network_there_are_few_calls(
    argv, calls, modules, tmp_path, monkeypatch, tiny_folder, capsys
):
    shutil.copytree(tiny_folder, tmp_path / "phones.kbdisk")
    (tmp_path / RUN).write_text(run_file(3))
    monkeypatch.chdir(tmp_path)
    ways = ways_to_the_network(argv, monkeypatch)
    assert ways
    longest = max(ways, key=len)
    assert len(longest) <= calls, "\n".join(map(str, longest))
    assert max(len({module for module, _ in way}) for way in ways) <= modules
