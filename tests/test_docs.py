"""README and docs tell the truth: their transcripts and programs run, and the files, commands and settings they name exist.

All blocks of a page are run in one folder, from the first to the last, as a reader would (tests/transcripts.py): in the fast
suite those that need no model, in the slow one all.
"""

from __future__ import annotations

import json
import re
import textwrap

import click
import pytest
import yaml
from tables import for_each
from transcripts import ROOT, blocks_of, follow, without_numbers

import kbdisk
from docs import reference
from kbdisk.cli import main
from kbdisk.schemas.yaml import loads
from kbdisk.training.run import PRESETS, Run

README = (ROOT / "README.md").read_text()
OF_DECISIONS = ROOT / "docs" / "decisions"
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {str(file.relative_to(ROOT)): file.read_text() for file in FILES if not file.is_relative_to(OF_DECISIONS)}
RUN_ELSEWHERE = {"docs/why.md": "tests/test_docs_why.py", "docs/extending.md": "tests/extending"}
EXECUTED = [name for name, page in PAGES.items() if name not in RUN_ELSEWHERE and blocks_of(page)]
LANGUAGES = {"console", "python", "text", "yaml", "toml", "json", "sh", "bibtex"}
TOP_FOLDERS = ["kbdisk", "loaders", "schemas", "benchmarks", "docs", "examples", "tests"]
TOP_PAGES, GENERATED = reference.TOP_PAGES, reference.GENERATED


@for_each("name", EXECUTED)
def test_what_needs_no_training_is_what_happens(name, reader_folder):
    follow(PAGES[name], reader_folder, training=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXECUTED)
def test_all_of_it_in_order_is_what_happens(name, reader_folder):
    follow(PAGES[name], reader_folder, training=True)


def test_every_block_is_of_a_kind_that_is_checked():
    for name, page in PAGES.items():
        assert {block.language for block in blocks_of(page)} <= LANGUAGES, name
        assert page.count("\n```") == 2 * len(blocks_of(page)), f"{name} has a fence that is not read"


def test_a_page_that_another_test_runs_has_that_test():
    for page, test in RUN_ELSEWHERE.items():
        assert (ROOT / page).exists() == (ROOT / test).exists(), page


def test_data_in_blocks_is_read_as_such(tmp_path):
    for name in EXECUTED:
        for block in blocks_of(PAGES[name]):
            if block.language == "yaml":
                loads(as_schema(block.text), name)
            elif block.language == "toml":
                (tmp_path / "run.toml").write_text(block.text)
                Run.of("default").with_file(tmp_path / "run.toml")
            elif block.language == "json":
                json.loads(block.text)


def as_schema(text: str) -> str:
    """A block of a schema file as a whole one: properties alone belong to a class of their own."""
    if text.startswith("kbdisk:"):
        return text
    if text.startswith("classes:"):
        return f"kbdisk: 1\n{text}"
    return f"kbdisk: 1\nclasses:\n  Any:\n    properties:\n{textwrap.indent(text, ' ' * 6)}"


def test_every_link_between_files_leads_to_one():
    for name, page in PAGES.items():
        for target in re.findall(r"\]\((?!\w+:|#)([^)\s#]+)", page):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"


OUTSIDE_OF_THE_REPOSITORY = {  # written by a command or a build, or in the folder of data
    "README.md": {"build/site/"},
    "docs/benchmarks.md": {
        "OUT.truth.json",
        "OUT.world.json",
        "gsm_split_seed42.json",
        "split_seed0.json",
        "NAME/info.json",
        "eval/catboost_params_and_published_eval.json",
        "kb/fb15k237/",
        "kb/mrap_fb15k/",
    },
    "docs/design.md": {"OUT.training/", "SOURCE.kbdisk/"},
    "docs/guides/many-files.md": {"done/.kbdisk-job/"},
    "docs/your-files.md": {"schema.yaml"},
}


def test_every_path_in_backticks_exists():
    """A module is named from the root of the repository, or within kbdisk/, or by a file name where the folder is clear."""
    file_names = {file.name for top in TOP_FOLDERS for file in (ROOT / top).rglob("*.*")}
    for page, text in PAGES.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        paths = set(re.findall(r"`([\w./-]+(?:\.(?:py|md|toml|ya?ml|sh|json)|/))`", prose))
        missing = {
            path
            for path in paths - OUTSIDE_OF_THE_REPOSITORY.get(page, set())
            if not (ROOT / path).exists() and not (ROOT / "kbdisk" / path).exists() and path not in file_names
        }
        assert missing == set(), page


def test_every_page_of_docs_is_in_the_navigation():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/-]+\.md", json.dumps(site["nav"])))
    written = {name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")}
    assert written <= listed
    assert listed - written == set(TOP_PAGES.values()) | set(GENERATED)


def test_the_best_step_may_be_the_last_one():
    assert without_numbers("541 steps, the best after 370, in 69 s") == without_numbers("28 steps, in 6 s")


def test_one_value_is_as_many_as_several():
    assert without_numbers("wrote a.ttl: 5 gaps of 266 filled") == without_numbers("wrote a.ttl: 1 gap of 266 filled")


@for_each("name", EXECUTED)
def test_no_file_is_written_twice(name):
    code = "\n".join(block.text for block in blocks_of(PAGES[name]) if block.language in ("console", "python"))
    written = re.findall(r'--out (\S+)|\.write\((?:.*, )?"(.+?)"\)|(?<=> )(\S+\.\w+)$', code, re.MULTILINE)
    names = [name for groups in written if not (name := "".join(groups)).endswith("/")]
    assert len(names) == len(set(names)), names


def test_there_is_code_in_the_first_twelve_lines_of_the_readme():
    assert any(line.startswith("```") for line in README.splitlines()[:12])


def test_the_readme_is_read_in_some_minutes():
    assert len(README.splitlines()) <= 160


def test_every_command_is_shown_somewhere_and_every_one_that_is_named_exists():
    docs = "\n".join(PAGES.values())
    named = set(re.findall(r"\bkbdisk ([a-z]+)\b(?= [\w\-/.]|`)", docs))
    assert set(main.commands) <= named
    commands = "\n".join(
        block.text for page in PAGES.values() for block in blocks_of(page) if block.language == "console"
    )
    assert set(re.findall(r"^\$ kbdisk ([a-z]+)", commands, re.MULTILINE)) <= set(main.commands)


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, page in PAGES.items():
        assert set(re.findall(r"(?:`|^|    )make ([a-z-]+)\b(?=`|\s+#|\n| {2})", page, re.MULTILINE)) <= targets, name


def test_the_glossary_has_at_most_twenty_words():
    assert 10 <= len(re.findall(r"^\| \*\*", PAGES["docs/glossary.md"], re.MULTILINE)) <= 20


def test_the_site_has_all_commands_with_all_options():
    page = reference.commands_page()
    for names, command in reference.commands_of(main):
        assert f"## {' '.join(names)}\n" in page
        for parameter in command.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert option in page, (names, option)


def test_the_site_has_all_public_names_with_a_docstring():
    page = reference.api_page()
    for name in kbdisk.__all__:
        assert f"kbdisk.{name}" in page, name
    assert "\n\n\n\n" not in page, "a name has no docstring"


def test_the_site_has_all_keys_of_run_files_and_presets():
    page = reference.run_files_page()
    for key, _ in reference.settings_of(Run.of("default")):
        assert f"`{key.rpartition('.')[2]} = " in page, key
    for preset in PRESETS:
        assert preset in page


def test_a_name_of_a_table_in_a_comment_is_replaced_by_the_names_of_its_rows():
    assert "count, paper, few" in reference.run_files_page()
    assert not re.search(r"\bone of [A-Z_]+\b", reference.run_files_page())


def test_links_between_files_become_links_between_pages():
    assert (
        reference.as_page("[a](docs/formats.md) [b](CONTRIBUTING.md)", "index.md")
        == "[a](formats.md) [b](contributing.md)"
    )
    assert reference.as_page("[a](../formats.md#memory)", "guides/rdf.md") == "[a](../formats.md#memory)"
    assert (
        reference.as_page("![a](../benchmarks/results/gsm.png)", "benchmarks.md") == "![a](benchmarks/results/gsm.png)"
    )
    assert reference.as_page("```console trained\n$ a\n```", "index.md") == "```console\n$ a\n```"
