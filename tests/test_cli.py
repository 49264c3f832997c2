"""The command line as a user meets it: results on standard output, everything else one line on standard error."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tables import for_each

import kbdisk
from kbdisk.cli import main
from kbdisk.cli.main import RARE_COLLECTION, rare_collection
from kbdisk.completion.sidecar import given_entities
from kbdisk.errors import KBDiskError

EXAMPLES = Path(__file__).parents[1] / "examples"
PHONES, ELEMENTS = str(EXAMPLES / "phones.jsonl"), str(EXAMPLES / "elements.ttl")
COMMANDS = sorted(main.commands)
KBDISK = [sys.executable, "-m", "kbdisk"]


@pytest.fixture
def kb(tmp_path) -> Path:
    """Three small entities, one of them with a gap."""
    file = tmp_path / "kb.jsonl"
    file.write_text('{"id": "a", "n": 1.50, "at": {"x": null}}\n{"id": "b", "n": 2}\n{"id": 3, "n": [4]}\n')
    return file


def values(tmp_path, *lines) -> Path:
    file = tmp_path / "new.jsonl"
    file.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return file


# ---------------------------------------------------------------- every command


@for_each("command", COMMANDS)
def test_every_command_and_option_has_help_with_an_example(command, run):
    for parameter in main.commands[command].params:
        assert parameter.param_type_name == "argument" or parameter.help, parameter.name
    status, out, _ = run(command, "--help")
    assert status == 0
    assert re.search(rf"^ *kbdisk {command} \S+", out, re.MULTILINE)


@for_each("columns", ["80", "120"])
@for_each("command", COMMANDS)
def test_help_fits_the_terminal(command, columns, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = run(command, "--help")
    assert max(len(line) for line in out.splitlines()) <= int(columns)


def test_the_version_is_that_of_the_package(run):
    status, out, _ = run("--version")
    assert (status, out) == (0, "kbdisk 0.1.0\n")


def test_garbage_is_collected_rarely_while_a_command_runs_and_as_before_after_it():
    before = gc.get_threshold()
    with contextlib.suppress(KBDiskError), rare_collection():
        assert gc.get_threshold() == RARE_COLLECTION != before
        raise KBDiskError("somewhere", "is wrong.")
    assert gc.get_threshold() == before


@for_each("arguments", [["inspekt"], ["inspect"], ["inspect", PHONES, "--exampels", "3"], ["write", PHONES]])
def test_a_wrong_call_exits_with_2_and_says_so_on_standard_error(arguments, run):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "Error" in err


@for_each("command", [["inspect"], ["write", "--out", "out.json"]])
@for_each(
    ("name", "content", "complaint"),
    [
        ("none.jsonl", None, "none.jsonl: no such file."),
        ("empty.jsonl", b"", "empty.jsonl: expected some data, got an empty file."),
        ("empty.ttl", b"", "empty.ttl: expected some data, got an empty file."),
        ("broken.jsonl", b'{"a": 1}\n{"a": \n', "broken.jsonl:2: expected "),
        ("a.xlsx", b"PK", "a.xlsx: a spreadsheet is not read. Save what is to be completed as CSV."),
        ("noname", b"x", "noname: the name does not tell the format. Say --f"),
        (
            "cut.jsonl",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
            "the compressed file ends in the middle. Get all of it again.",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(command, name, content, complaint, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    status, out, err = run(command[0], tmp_path / name, *command[1:])
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert complaint in line
    assert not (tmp_path / "out.json").exists()


@for_each(
    ("options", "complaint"),
    [
        (["--from", "yaml"], "--from: unknown format 'yaml'. Known formats: "),
        (["--id", "a..b"], "--id: expected a path such as launch.year"),
        (["--context", "http://ex.org/c"], "--context: expected IRI=FILE"),
        (["--context", "http://ex.org/c=none.json"], "--context: none.json cannot be read: no such file or directory."),
        (["--query", "SELECT ?x {}"], "--query: expected an endpoint"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line(options, complaint, run):
    status, out, err = run("inspect", PHONES, *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {complaint}")
    assert err.count("\n") == 1


@for_each("command", ["inspect", "write"])
@for_each(
    ("source", "option", "value"),
    [
        (PHONES, "--base", "http://e/"),
        (PHONES, "--language", "en"),
        (PHONES, "--encoding", "utf-8"),
        (PHONES, "--missing", "x"),
        (PHONES, "--context", f"http://e/={PHONES}"),
        (ELEMENTS, "--id", "symbol"),
        (ELEMENTS, "--encoding", "latin-1"),
        (ELEMENTS, "--missing", "x"),
    ],
)
def test_an_option_that_the_format_of_the_source_does_not_heed_is_refused(
    command, source, option, value, run, tmp_path
):
    target = ("--out", str(tmp_path / "new.jsonl")) if command == "write" else ()
    status, out, err = run(command, source, *target, option, value)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(
        f"error: {option}: changes nothing where SOURCE is {'jsonl' if source == PHONES else 'turtle'}: "
    )
    assert not any(tmp_path.iterdir())


@for_each(
    "command",
    [
        ["inspect"],
        ["write", "--out", "o.csv"],
        ["complete", "--dry-run", "--model", "m"],
    ],
)
def test_who_has_json_of_the_other_kind_is_told_the_option_of_the_source(
    command, run, tmp_path, monkeypatch, tiny_folder
):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{\n "id": 1\n}\n')
    Path("m").symlink_to(tiny_folder)
    status, _, err = run(command[0], "a.jsonl", *command[1:])
    assert (status, err.count("\n")) == (2, 1)
    assert err.endswith("say --from json.\n")


def test_what_is_skipped_names_the_option_of_the_source_too(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{\n"id": 1\n}\n{"id": 2}\n')
    status, _, err = run("write", tmp_path / "a.jsonl", "--out", tmp_path / "o.csv", "--skip-errors")
    assert status == 1
    assert "say --from json." in err


def test_a_warning_is_one_line_on_standard_error(tmp_path, run):
    (tmp_path / "a.jsonl").write_text('{"a": 1, "a": 2}\n')
    status, out, err = run("write", tmp_path / "a.jsonl", "--out", "-", "--to", "json", "-q")
    assert status == 0
    assert json.loads(out) == [{"@id": "1", "a": 2}] or json.loads(out) == [{"a": 2}]
    (line,) = err.splitlines()
    assert line.startswith(f"warning: {tmp_path}/a.jsonl:1: ")


def test_a_reader_who_has_had_enough_is_no_fault():
    shell = f"{sys.executable} -m kbdisk inspect {PHONES} --json --examples 100 | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert done.stderr == ""
    shell = f"{sys.executable} -m kbdisk write {PHONES} --out - --to json -q | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout in ("141\n", "0\n")


def processes(calls: list[list[str]], first: str = "", **how) -> tuple[list[int], list[str]]:
    """Run commands in a process each, forked of one that has started up; exit statuses, and lines of standard error."""
    script = (
        f"import json, os, sys\nfrom kbdisk.cli import main\n{first}\nstatuses = []\n"
        "for call in json.loads(sys.argv[1]):\n"
        "    if not os.fork():\n"
        "        main(call, prog_name='kbdisk')\n"
        "    statuses.append(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "print(*statuses, file=sys.stderr, flush=True)\n"
        "os._exit(0)\n"  # with nothing written to standard output here
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(calls)], stderr=subprocess.PIPE, text=True, check=True, **how
    )
    *lines, statuses = done.stderr.splitlines()
    return [int(status) for status in statuses.split()], lines


OTHERS = [["inspect", PHONES], [], ["show", "-h"], ["--version"]]


@pytest.mark.parametrize(
    ("unbuffered", "others"), [("", []), *(pytest.param(one, OTHERS, marks=pytest.mark.slow) for one in ("", "1"))]
)
def test_a_full_disk_is_one_line(unbuffered, others):
    calls = [["schema", "library"], ["--help"], *others]
    with Path("/dev/full").open("wb") as full:
        statuses, lines = processes(calls, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert statuses == [2] * len(calls)
    assert lines == ["error: <stdout>: cannot be written: no space left on device."] * len(calls)


def test_closed_standard_output_is_one_line():
    statuses, lines = processes([["schema", "library"], ["--help"]], "sys.stdout = None")
    assert statuses == [2, 2]
    assert lines == ["error: <stdout>: standard output is closed."] * 2


def test_an_interrupt_is_one_word_and_status_130(tmp_path):
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    child = subprocess.Popen([*KBDISK, "inspect", str(pipe)], stderr=subprocess.PIPE, text=True)
    with pipe.open("w"):  # it waits for more
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.communicate()[1] == "interrupted\n"
    assert child.returncode == 130


def test_what_can_be_refused_at_once_is_refused_before_torch_is_imported(tmp_path, kb, tiny_folder):
    refused = {
        ("train", kb, "--out", tiny_folder): "a model is there already",
        ("train", "none.ttl"): "none.ttl: no such file.",
        ("complete", "none.ttl", "--out", "x.ttl"): "none.ttl: no such file.",
        ("complete", kb, "--out", kb): "is the source itself",
        ("complete", kb, "--out", tiny_folder / "config.json", "--to", "jsonl"): "exists already",
        ("complete", kb, "--out", tmp_path / "x.jsonl", "--model", "nowhere"): "nowhere: no such folder",
        ("evaluate", tiny_folder, kb, "--plot", "curve.gif"): "--plot: expected a name that ends in",
        ("evaluate", tiny_folder, kb, "--against", "gbd"): "--against: expected some of",
        (
            "belief",
            tiny_folder,
            kb,
            "--id",
            "a",
            "--path",
            "b",
            "--plot",
            "b.doc",
        ): "--plot: expected a name that ends in",
    }
    script = (
        "import json, sys; from kbdisk.cli import main\n"
        "for told in json.loads(sys.argv[1]):\n"
        "    try: main(told)\n"
        "    except SystemExit as end: assert end.code == 2\n"
        "    assert 'torch' not in sys.modules, told\n"
    )
    told = json.dumps([list(map(str, one)) for one in refused])
    made = subprocess.run([sys.executable, "-c", script, told], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    for line, complaint in zip(made.stderr.splitlines(), refused.values(), strict=True):
        assert complaint in line


def test_our_own_mistakes_keep_their_traceback(monkeypatch):
    monkeypatch.setattr("kbdisk.load", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["inspect", PHONES])


# ---------------------------------------------------------------- inspect


def test_inspect_shows_paths_their_fill_and_their_values(run):
    status, out, err = run("inspect", PHONES)
    assert (status, err) == (0, "")
    assert "jsonl, 63 entities, 100 % labelled" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["launch.year"] == ["launch.year", "100", "%", "number", "26", "1983", "…", "2023"]
    assert rows["weight.value"][:5] == ["weight.value", "98", "%", "1", "number"]
    assert rows["networks[]"][3:7] == ["string,", "up", "to", "4"]


@for_each("columns", [80, 120])
def test_tables_fit_the_terminal(columns, run, monkeypatch, tmp_path):
    (tmp_path / "long.jsonl").write_text(
        json.dumps({"a" * 50: {"b" * 50: "c" * 500}, "d": [{"@id": "http://x.org/" + "e" * 200}]})
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    for source in (PHONES, tmp_path / "long.jsonl"):
        _, out, _ = run("inspect", source)
        lines = out.splitlines()[1:]  # the first has the source's whole name
        assert max(map(len, lines)) <= columns
        assert not any(line.endswith(" ") for line in lines)


def test_long_lists_of_paths_are_cut_and_say_so(tmp_path, run):
    (tmp_path / "wide.jsonl").write_text(json.dumps({f"p{n}": n for n in range(50)}))
    _, out, _ = run("inspect", tmp_path / "wide.jsonl")
    assert "and 10 more paths: --all shows them, --json has them" in out
    assert "p49" not in out
    assert "p49" in run("inspect", tmp_path / "wide.jsonl", "--all")[1]
    assert "p49" in run("inspect", tmp_path / "wide.jsonl", "--json")[1]


def test_inspect_as_json_is_one_object_with_its_documented_keys(run):
    status, out, err = run("inspect", PHONES, "--json", "--examples", "1")
    assert (status, err) == (0, "")
    found = json.loads(out)
    keys = "source format entities labelled numbered would_name classes links graphs odd skipped"
    assert list(found) == keys.split()
    (only,) = found["classes"]
    assert (only["class"], only["entities"], only["labelled"]) == (None, 63, 63)
    year = next(path for path in only["paths"] if path["path"] == "launch.year")
    assert year == {
        "path": "launch.year",
        "filled": 63,
        "fill_rate": 1.0,
        "asked": 0,
        "made": 0,
        "values": 63,
        "many": 0,
        "most": 1,
        "kinds": {"number": 63},
        "distinct": 26,
        "units": {},
        "languages": {},
        "min": 1983,
        "max": 2023,
        "years": None,
        "examples": [1983],
    }


def test_numbers_beyond_a_float_come_out_of_inspect_whole(tmp_path, run):
    (tmp_path / "a.jsonl").write_text('{"n": 123456789012345678901234567890}\n{"n": 0.1234567890123456789012345}\n')
    _, out, _ = run("inspect", tmp_path / "a.jsonl", "--json")
    assert '"max": 123456789012345678901234567890' in out
    assert "0.1234567890123456789012345" in out


@for_each("name", ["kb.csv", "kb.jsonl"])
def test_whole_numbers_of_any_length_are_shown_in_few_characters(name, tmp_path, run):
    rows = {"kb.csv": "id,x\na,{}\nb,3\n", "kb.jsonl": '{{"id": "a", "x": {}}}\n{{"id": "b", "x": 3}}\n'}
    (tmp_path / name).write_text(rows[name].format("9" * 5000))
    status, out, _ = run("inspect", str(tmp_path / name))
    assert (status, "3 … 1.00000e+5000" in out) == (0, True)


def test_what_is_skipped_is_named_and_the_status_is_1(tmp_path, run):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": \n{"a": 2}\n')
    status, out, err = run("inspect", tmp_path / "a.jsonl", "--skip-errors")
    assert (status, err) == (1, "")
    assert "2 entities" in out
    assert re.search(r"^skipped  1$", out, re.MULTILINE)
    status, out, _ = run("inspect", tmp_path / "a.jsonl", "--skip-errors", "--json")
    assert status == 1
    assert json.loads(out)["skipped"]["count"] == 1


def test_standard_input_is_a_source():
    done = subprocess.run(
        [*KBDISK, "inspect", "-", "--from", "csv"], input="id,n\na,1\nb,\n", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<stdin>  csv, 2 entities")


def watched(patience: str, *arguments: object) -> str:
    """What a terminal gets from a command; the patience is cut short so that any reading takes long."""
    code = "import sys; from kbdisk.cli import main, progress; progress.PATIENCE = progress.INTERVAL = float(sys.argv.pop(1)); main(sys.argv[1:])"
    mine, its = pty.openpty()
    command = [sys.executable, "-c", code, patience, *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its, env=os.environ | {"TERM": "xterm"})
    os.close(its)
    seen = b""
    with contextlib.suppress(OSError):  # the terminal is gone
        while piece := os.read(mine, 4096):  # as it comes: a terminal that is full makes the command wait
            seen += piece
    os.close(mine)
    assert child.wait() == 0
    return seen.decode()


@pytest.mark.slow
def test_a_terminal_gets_a_progress_bar_only_where_reading_takes_long(tmp_path):
    big = tmp_path / "big.jsonl"
    big.write_text("".join(f'{{"id": "{n}", "n": {n}}}\n' for n in range(20_000)))
    assert "reading" in watched("0", "inspect", big)
    assert watched("0", "inspect", big, "-q") == ""
    assert watched("60", "inspect", big) == ""


@pytest.mark.slow
def test_a_warning_beside_a_progress_bar_has_a_line_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    big = Path("big.jsonl")
    big.write_text(
        "".join(f'{{"id": "{n}", "n": {n}}}\n' for n in range(20_000)) + '{"id": "odd", "n": 1, "n": 2}\n' * 2
    )
    seen = watched("0", "write", big, "--out", "out.csv")
    assert "reading" in seen
    assert re.findall(r"([^\r\n]*)warning: \S*big\.jsonl:20001:[^\n]*\r\n", seen) == ["\x1b[2K"]


# ---------------------------------------------------------------- write


def test_writing_the_same_format_gives_the_same_bytes(tmp_path, run):
    status, out, err = run("write", PHONES, "--out", tmp_path / "out.jsonl")
    assert (status, out, err) == (0, "", f"wrote {tmp_path}/out.jsonl\n")
    assert (tmp_path / "out.jsonl").read_bytes() == Path(PHONES).read_bytes()


def test_new_values_are_put_in_and_nothing_else_changes(kb, tmp_path, run):
    new = values(
        tmp_path, {"id": "a", "path": "at.x", "value": 7}, {"id": "b", "path": "n2", "value": {"@date": "1999-05"}}
    )
    status, out, err = run("write", kb, "--values", new, "--out", tmp_path / "out.jsonl")
    assert (status, out, err) == (0, "", f"wrote {tmp_path}/out.jsonl, 2 new values\n")
    before, after = kb.read_text().splitlines(), (tmp_path / "out.jsonl").read_text().splitlines()
    assert after[0] == before[0].replace("null", "7")
    assert '"n2"' in after[1]
    assert after[1].startswith(before[1][:-1])
    assert after[2] == before[2]


def test_a_sidecar_that_told_of_another_file_is_set_aside_with_a_word(kb, tmp_path, run):
    out, sidecar = tmp_path / "out.jsonl", tmp_path / "out.jsonl.provenance.jsonl"
    out.write_text('{"id": "a", "n": 1}\n')
    for name, rows in (("old", "first\n"), ("old1", "second\n")):
        sidecar.write_text(rows)
        status, _, err = run("write", kb, "--out", out, "--force")
        kept = Path(f"{sidecar}.{name}")
        assert (status, kept.read_text(), sidecar.exists()) == (0, rows, False)
        assert err.endswith(f"{sidecar} belonged to the file that was there before: it is now {kept}\n")


def test_a_source_that_is_written_in_place_keeps_its_sidecar(kb, tmp_path, run):
    sidecar = tmp_path / "kb.jsonl.provenance.jsonl"
    sidecar.write_text("rows\n")
    new = values(tmp_path, {"id": "a", "path": "at.x", "value": 7})
    assert run("write", kb, "--values", new, "--out", kb, "--in-place")[0] == 0
    assert sidecar.read_text() == "rows\n"


ROW = '{"id":"a","path":"n","value":1}\n'


@for_each("target", ["out.jsonl", "out.json", "out.csv", "out.ttl"])
def test_what_kbdisk_filled_in_is_told_beside_the_target_too(kb, tmp_path, run, target):
    kb.write_text('{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n')
    Path(f"{kb}.provenance.jsonl").write_text(ROW)
    out, sidecar = tmp_path / target, tmp_path / f"{target}.provenance.jsonl"
    status, _, err = run("write", kb, "--out", out)
    assert (status, err) == (0, f"wrote {out}\n1 value that kbdisk filled in: their provenance is in {sidecar}\n")
    assert json.loads(sidecar.read_text()).items() >= json.loads(ROW).items()
    assert [bool(entity.made) for entity in given_entities(kbdisk.load(out))] == [True, False]
    _, _, err = run("write", kb, "--out", out, "--force")
    assert f"{sidecar} belonged to the file that was there before: it is now {sidecar}.old\n" in err
    assert sidecar.read_text() == Path(f"{sidecar}.old").read_text()


def test_what_blocks_tell_is_told_beside_what_has_none_and_of_a_class_beside_what_has(tmp_path, run):
    kb = tmp_path / "kb.ttl"
    kb.write_text("<a:a> a <k:K> ; <k:n> 1 .\n# kbdisk: begin\n<a:a> <k:x> 2 .\n# kbdisk: end\n")
    for options in (["--out", tmp_path / "a.json"], ["--out", tmp_path / "b.ttl", "--class", "K"]):
        assert run("write", kb, *options)[0] == 0
        [entity] = given_entities(kbdisk.load(options[1]))
        assert entity.made == {("x",): 2}
    assert run("write", kb, "--out", tmp_path / "c.nt")[0] == 0
    assert not (tmp_path / "c.nt.provenance.jsonl").exists()
    assert kbdisk.load(tmp_path / "c.nt")["a:a"].made == {("x",): 2}


def test_on_standard_output_what_kbdisk_filled_in_is_counted(kb, run):
    kb.write_text('{"id": "a", "n": 1}\n')
    Path(f"{kb}.provenance.jsonl").write_text(ROW)
    status, out, err = run("write", kb, "--out", "-")
    assert (status, out) == (0, kb.read_text())
    assert "1 value that kbdisk filled in: standard output does not tell them from given ones" in err


def test_no_target_is_written_where_its_sidecar_cannot_be(kb, tmp_path, run):
    Path(f"{kb}.provenance.jsonl").write_text('{"id": "b", "path": "n", "value": 2}\n')
    (tmp_path / "out.json.provenance.jsonl").mkdir()
    assert run("write", kb, "--out", tmp_path / "out.json")[0] == 2
    assert not (tmp_path / "out.json").exists()


def test_another_format_gets_all_entities_with_the_new_values_in_them(kb, tmp_path, run):
    new = values(tmp_path, {"id": 3, "path": "at.x", "value": 7})
    status, _, err = run("write", kb, "--values", new, "--out", tmp_path / "out.json")
    assert (status, err) == (0, f"wrote {tmp_path}/out.json, 1 new value\n")
    entities = json.loads((tmp_path / "out.json").read_text())
    assert [entity["id"] for entity in entities] == ["a", "b", 3]
    assert entities[2]["at"] == {"x": 7}


def test_only_new_writes_the_new_values_alone(kb, tmp_path, run):
    new = values(tmp_path, {"id": "a", "path": "at.x", "value": 7})
    status, out, _ = run("write", kb, "--values", new, "--only-new", "--out", "-")
    assert (status, json.loads(out)) == (0, {"@id": "a", "at": {"x": 7}})
    assert run("write", kb, "--only-new", "--out", "-")[2].startswith("error: --only-new: there are no new values.")


def test_a_given_value_is_never_changed(kb, tmp_path, run):
    new = values(tmp_path, {"id": "a", "path": "n", "value": 9}, {"id": "a", "path": "at.x", "value": 7})
    status, _, err = run("write", kb, "--values", new, "--out", tmp_path / "out.jsonl")
    assert status == 1
    assert "a n: " in err
    assert '"n": 1.50, "at": {"x": 7}' in (tmp_path / "out.jsonl").read_text()
    status, out, _ = run("write", kb, "--values", new, "--out", tmp_path / "out.jsonl", "--force", "--json")
    summary = json.loads(out)
    assert (status, summary["written"], summary["skipped"]) == (1, 1, 0)
    assert [(one["id"], one["path"]) for one in summary["unwritable"]] == [("a", "n")]


@for_each(
    ("line", "complaint"),
    [
        ({"id": "z", "path": "n", "value": 1}, "new.jsonl:2: expected the id of an entity of "),
        ({"id": "a", "path": "n..m", "value": 1}, "new.jsonl:2: expected a path such as launch.year"),
        ({"id": "a", "path": "", "value": 1}, "new.jsonl:2: expected a path such as launch.year"),
        ({"id": "a", "path": "n.m", "value": 1}, "new.jsonl:2: n.m: expected a part at n of 'a', got 1.5"),
        ({"id": "a", "path": "at[0]", "value": 1}, "new.jsonl:2: at[0]: expected a list at at of 'a'"),
        ({"id": "a", "path": "at.x", "value": None}, "new.jsonl:2: expected a value, got none."),
        ({"id": "b", "path": "m", "value": 2}, "new.jsonl:2: m of 'b' has a value in line 1 already."),
        ({"id": "a", "value": 1}, 'new.jsonl:2: expected {"id": "...", "path"'),
        ({"id": "a", "path": "m", "value": 1, "unit": "g"}, 'new.jsonl:2: expected {"id": "...", "path"'),
        ('{"id": "a", "path": \n', "new.jsonl:2: expected "),
        ("[1]\n", "new.jsonl:2: expected "),
    ],
)
def test_a_new_value_without_a_place_is_one_line_and_nothing_is_written(line, complaint, kb, tmp_path, run):
    new = values(tmp_path, {"id": "b", "path": "m", "value": 1}, line)
    for target in (tmp_path / "out.jsonl", "-"):
        status, out, err = run("write", kb, "--values", new, "--out", target)
        assert (status, out) == (2, "")
        assert err.startswith(f"error: {tmp_path}/{complaint}")
        assert err.count("\n") == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_an_id_that_two_entities_have_takes_no_new_value(tmp_path, run):
    (tmp_path / "kb.jsonl").write_text('{"id": "a"}\n{"id": "a"}\n')
    new = values(tmp_path, {"id": "a", "path": "n", "value": 1})
    status, _, err = run("write", tmp_path / "kb.jsonl", "--values", new, "--out", "-")
    assert status == 2
    assert "has more than one entity 'a'" in err


def test_targets_are_replaced_only_on_request(kb, run):
    before = kb.read_bytes()
    assert "is the source itself. Say --in-place to change it." in run("write", kb, "--out", kb, "--force")[2]
    status, _, err = run("write", kb, "--out", kb, "--in-place")
    assert (status, kb.read_bytes()) == (0, before), err
    other = kb.with_name("other.jsonl")
    other.write_text("old")
    status, _, err = run("write", kb, "--out", other)
    assert (status, err) == (2, f"error: {other}: exists already. Say --force to replace it.\n")
    assert other.read_text() == "old"
    assert run("write", kb, "--out", other, "--force")[0] == 0
    assert other.read_bytes() == before


def test_what_is_changed_in_place_is_kept_as_it_was(kb, tmp_path, run):
    kb.chmod(0o600)
    states = []
    for n, name in enumerate(["kb.jsonl.before", "kb.jsonl.before-2", "kb.jsonl.before-3"]):
        states.append(kb.read_bytes())
        new = values(tmp_path, {"id": "b", "path": f"n{n}", "value": n})
        status, _, err = run("write", kb, "--values", new, "--out", kb, "--in-place")
        assert (status, err) == (0, f"wrote {kb}, 1 new value; as it was: {tmp_path / name}\n")
        assert (tmp_path / name).read_bytes() == states[-1]
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert [(tmp_path / f"kb.jsonl.before{n}").read_bytes() for n in ("", "-2")] == states[:2]


def test_what_is_compressed_and_unchanged_is_the_same_bytes(kb, tmp_path, run):
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(kb.read_bytes(), compresslevel=1, mtime=12345))
    first = packed.read_bytes()
    assert run("write", packed, "--out", packed, "--in-place")[0] == 0
    assert packed.read_bytes() == first
    assert not list(tmp_path.glob("*.before*"))


def test_what_is_kept_already_is_not_kept_again_and_what_changes_nothing_keeps_nothing(kb, tmp_path, run):
    first = kb.read_bytes()
    assert run("write", kb, "--out", kb, "--in-place")[0] == 0
    assert not (tmp_path / "kb.jsonl.before").exists()
    new = values(tmp_path, {"id": "b", "path": "n2", "value": 2})
    for _ in range(2):
        _, out, _ = run("write", kb, "--values", new, "--out", kb, "--in-place", "--json")
        assert json.loads(out)["before"] == f"{tmp_path}/kb.jsonl.before"
        assert kb.read_bytes() != first
        (tmp_path / "kb.jsonl.before").replace(kb)  # undone
        assert kb.read_bytes() == first
        kb.with_name("kb.jsonl.before").write_bytes(first)
    assert sorted(one.name for one in tmp_path.glob("*before*")) == ["kb.jsonl.before"]


def test_where_nothing_can_be_kept_nothing_is_changed(kb, tmp_path, run):
    first, long = kb.read_bytes(), tmp_path / ("k" * 245 + ".jsonl")
    long.write_bytes(first)
    new = values(tmp_path, {"id": "b", "path": "n2", "value": 2})
    status, _, err = run("write", long, "--values", new, "--out", long, "--in-place")
    assert (status, "expected a name of at most" in err) == (2, True), err
    assert long.read_bytes() == first
    assert {one.name for one in tmp_path.iterdir()} == {"kb.jsonl", "new.jsonl", long.name}


@for_each(
    ("target", "insert", "words"),
    [
        ("kb.jsonl", (), "is the source itself. Say {in_place} to change it."),
        ("old.csv", (), "exists already. Say {force} to replace it."),
        ("new.csv", ("insert",), "{insert}: needs the format of the source"),
    ],
)
def test_an_argument_in_python_is_an_option_at_the_shell(kb, run, target, insert, words):
    (kb.parent / "old.csv").write_text("old")
    names = ("in_place", "force", "insert")
    with pytest.raises(KBDiskError, match=re.escape(words.format(**{name: f"{name}=True" for name in names}))):
        kbdisk.write(kbdisk.load(kb), kb.parent / target, **dict.fromkeys(insert, True))
    status, _, err = run("write", kb, "--out", kb.parent / target, *(f"--{name}" for name in insert))
    assert status == 2
    assert words.format(in_place="--in-place", force="--force", insert="--insert") in err


def test_the_source_is_not_replaced_by_its_new_values_alone(kb, tmp_path, run):
    new = values(tmp_path, {"id": "a", "path": "at.x", "value": 7})
    before = kb.read_bytes()
    status, _, err = run("write", kb, "--values", new, "--only-new", "--out", kb, "--force")
    assert (status, kb.read_bytes()) == (2, before)
    assert "is the source itself" in err


def test_one_class_can_be_written(tmp_path, run):
    (tmp_path / "kb.jsonl").write_text(
        '{"@id": "a", "@type": "http://ex.org/City"}\n{"@id": "b", "@type": "http://ex.org/River"}\n'
    )
    status, out, _ = run("write", tmp_path / "kb.jsonl", "--class", "City", "--out", "-", "-q")
    assert (status, json.loads(out)["@id"]) == (0, "a")


def test_a_class_that_nothing_is_of_is_an_error_and_nothing_is_written(tmp_path, run):
    (tmp_path / "kb.jsonl").write_text('{"@id": "a", "@type": "http://ex.org/City"}\n')
    status, _, err = run("write", tmp_path / "kb.jsonl", "--class", "Ctiy", "--out", tmp_path / "new.jsonl")
    assert (status, "Did you mean 'City'?" in err) == (2, True)
    assert not (tmp_path / "new.jsonl").exists()


def test_the_summary_and_the_target_do_not_share_standard_output(kb, run):
    status, out, err = run("write", kb, "--out", "-", "--json")
    assert (status, out) == (2, "")
    assert "standard output" in err


# ---------------------------------------------------------------- what a curator would lose


def test_a_wikibase_dump_keeps_its_bytes_in_place_and_as_a_copy(tmp_path, run):
    dump = b'[\n{"type":"item","id":"Q1","labels":{},"claims":{}}\n]\n'
    (tmp_path / "d.json").write_bytes(dump)
    assert run("write", tmp_path / "d.json", "--out", tmp_path / "copy.json")[0] == 0
    assert run("write", tmp_path / "d.json", "--out", tmp_path / "d.json", "--in-place")[0] == 0
    assert (tmp_path / "copy.json").read_bytes() == (tmp_path / "d.json").read_bytes() == dump


@for_each("target", ["o.jsonl", "o.json", "o.csv", "o.nt"])
@for_each("more", [[], ["--only-new"]])
def test_a_given_value_is_changed_in_no_format(target, more, tmp_path, run):
    (tmp_path / "kb.ttl").write_text("@prefix e: <http://e/> . e:a e:p 1 . e:b e:q 2 .")
    (tmp_path / "v.jsonl").write_text(
        '{"id": "http://e/a", "path": "p", "value": 7}\n{"id": "http://e/b", "path": "p", "value": 8}\n'
    )
    status, _, err = run(
        "write", tmp_path / "kb.ttl", "--values", tmp_path / "v.jsonl", "--out", tmp_path / target, *more
    )
    assert status == 1
    assert "1 new value" in err
    assert "given values are never changed" in err
    text = (tmp_path / target).read_text()
    assert "7" not in text.replace("17", "")
    assert "8" in text


def test_values_of_entities_that_are_not_asked_for_are_told(tmp_path, run):
    (tmp_path / "kb.ttl").write_text("@prefix e: <http://e/> . e:a a e:C . e:b a e:D .")
    (tmp_path / "v.jsonl").write_text('{"id": "http://e/b", "path": "http://e/p", "value": 8}\n')
    command = ["write", tmp_path / "kb.ttl", "--class", "C", "--values", tmp_path / "v.jsonl"]
    status, _, err = run(*command, "--out", tmp_path / "o.jsonl")
    assert status == 1
    assert "new value" not in err
    assert "is of none of the classes asked for" in err


def test_quickstatements_hold_the_new_values(tmp_path, run):
    dump = '{"type":"item","id":"Q1","labels":{},"claims":{"P2":[]}}\n'
    (tmp_path / "d.json").write_text(dump)
    (tmp_path / "v.jsonl").write_text('{"id": "Q1", "path": "P2", "value": 5}\n')
    assert run("write", tmp_path / "d.json", "--values", tmp_path / "v.jsonl", "--out", tmp_path / "o.qs")[0] == 0
    assert (tmp_path / "o.qs").read_text() == "Q1\tP2\t5\n"


@for_each(
    ("name", "content"),
    [
        ("a.ttl", b"<http://e/a> <http://e/p> ."),
        ("a.jsonl", b'{"a": nan}\n'),
        ("a.csv", b"a,b\n1\n"),
        ("a.rdf", b"no xml"),
    ],
)
def test_what_is_broken_is_not_copied(name, content, tmp_path, run):
    (tmp_path / name).write_bytes(content)
    status, _, err = run("write", tmp_path / name, "--out", tmp_path / f"o.{name[2:]}")
    assert status == 2
    assert err.startswith("error: ")
    assert not (tmp_path / f"o.{name[2:]}").exists()


def test_a_fault_is_counted_once_however_often_it_is_met(tmp_path, run):
    (tmp_path / "a.json").write_text('[{"id": "a", "p": 1}, 7, {"id": "d"}]')
    (tmp_path / "v.jsonl").write_text('{"id": "d", "path": "p", "value": 2}\n')
    command = ["write", tmp_path / "a.json", "--skip-errors", "--values", tmp_path / "v.jsonl", "--json"]
    status, out, _ = run(*command, "--out", tmp_path / "o.json")
    assert status == 1
    assert (json.loads(out)["skipped"], json.loads(out)["written"]) == (1, 1)


def test_cells_that_stand_for_no_value_are_named(tmp_path, run):
    (tmp_path / "a.csv").write_text("id,p\na,NA\nb,3\n")
    status, out, _ = run("inspect", tmp_path / "a.csv", "--missing", "NA", "--json")
    assert status == 0
    (p,) = [path for path in json.loads(out)["classes"][0]["paths"] if path["path"] == "p"]
    assert (p["filled"], p["asked"], p["kinds"]) == (1, 1, {"number": 1})


def test_formats_go_by_their_suffixes_too(tmp_path, run):
    (tmp_path / "a").write_text("<http://e/a> <http://e/p> 1 .")
    assert run("inspect", tmp_path / "a", "--from", "ttl")[0] == 0


def test_a_link_that_is_no_iri_is_refused_among_iris(tmp_path, run):
    (tmp_path / "kb.ttl").write_text("@prefix e: <http://e/> . e:a e:p e:b . e:c e:q 2 .")
    (tmp_path / "v.jsonl").write_text('{"id": "http://e/c", "path": "p", "value": {"@id": "http://e/q r"}}\n')
    status, _, err = run("write", tmp_path / "kb.ttl", "--values", tmp_path / "v.jsonl", "--out", tmp_path / "o.ttl")
    assert status == 1
    assert "expected the IRI of an entity, got 'http://e/q r'" in err


def test_help_can_be_asked_for_from_python(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"], standalone_mode=False)
    assert ended.value.code == 0
    assert "complete" in capsys.readouterr().out
