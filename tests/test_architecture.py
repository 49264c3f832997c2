"""Imports point one way, the ground knows no torch, and `import kbdisk` is cheap."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tables import for_each

ROOT = Path(__file__).parents[1]

LAYERS = [  # a part may import only itself and the parts of the rows above
    ["printable", "notebook", "heap"],
    ["entity", "errors"],
    ["plugins"],
    ["locks"],
    ["atomic"],
    ["schemas"],
    ["jsonio"],
    ["styles"],
    ["loaders"],
    ["inspection"],
    ["rng"],
    ["tensors"],
    ["parallel"],
    ["leaves"],
    ["data"],
    ["model"],
    ["shrinkage"],
    ["experts"],
    ["metrics"],
    ["training"],
    ["store"],
    ["sampling"],
    ["evaluation"],
    ["completion"],
    ["api", "sklearn"],
    ["extend"],
    ["__init__"],
    ["cli"],
    ["__main__"],
]
GROUND = {
    "printable",
    "notebook",
    "heap",
    "entity",
    "errors",
    "plugins",
    "locks",
    "atomic",
    "schemas",
    "jsonio",
    "styles",
    "loaders",
    "inspection",
}
HEAVY = ["torch", "pandas", "numpy", "pyarrow", "networkx", "rdflib", "pyoxigraph", "catboost", "scipy", "sklearn"]


def sources() -> dict[str, Path]:
    """Every module of kbdisk by its installed name."""
    found = {}
    for top, prefix in [("kbdisk", ()), ("loaders", ("loaders",)), ("schemas", ("schemas",))]:
        for file in sorted((ROOT / top).rglob("*.py")):
            names = [*prefix, *file.relative_to(ROOT / top).with_suffix("").parts]
            if names[-1] == "__init__" and len(names) > 1:
                names.pop()
            found[".".join(["kbdisk", *names])] = file
    return found


SOURCES = sources()
PARTS = {".".join(module.split(".")[:2]) for module in SOURCES}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement within a module or another statement."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


class Names(NamedTuple):
    """The names in a file: the modules that it imports, and the classes that it defines, anywhere in it."""

    imports: set[str]
    classes: set[str]


@functools.cache
def names_in(file: Path) -> Names:
    """The names of a file, which is parsed once for all tests."""
    found, classes = set[str](), set[str]()
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            classes.add(node.name)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return Names(found, classes)


def imports(file: Path) -> set[str]:
    """Every module that a file imports."""
    return names_in(file).imports


@functools.cache
def part(module: str) -> str:
    """The name in LAYERS that a dotted name belongs to: kbdisk.loaders.kb.KB -> loaders, kbdisk.load -> __init__."""
    names = module.split(".")
    return names[1] if len(names) > 1 and ".".join(names[:2]) in PARTS else "__init__"


def test_every_module_has_its_place_in_the_layers():
    assert {part(module) for module in SOURCES} == {name for row in LAYERS for name in row}


# Names of ours from before the rooms moved, which the field does not know.
RETIRED = frozenset(
    [
        "likeness",
        "kin",
        "shelf",
        "smooth",
        "opinions",
        "looking",
        "watching",
        "pace",
        "afterwards",
        "proportions",
        "recording",
        "trusting",
        "trust",
        "told",
        "said",
        "heard",
        "idle",
        "placeless",
        "leftout",
        "council",
        "guides",
        "say",
        "forest",
        "alone",
        "place",
        "room",
        "swapping",
        "averaging",
    ]
)


def test_no_module_and_no_class_has_a_retired_name():
    modules = {module for module in SOURCES if not RETIRED.isdisjoint(module.split("."))}
    classes = {
        f"{module}.{name}"
        for module, file in SOURCES.items()
        for name in names_in(file).classes
        if name.lower() in RETIRED
    }
    assert modules | classes == set()


@for_each("module", SOURCES)
def test_imports_point_one_way(module):
    own = part(module)
    row = next(i for i, names in enumerate(LAYERS) if own in names)
    allowed = {own, *(name for names in LAYERS[:row] for name in names)}
    ours = {part(name) for name in imports(SOURCES[module]) if name.split(".")[0] == "kbdisk"}
    assert ours <= allowed, f"{module} may not import {', '.join(sorted(ours - allowed))}"


def test_the_package_never_imports_the_benchmarks():
    assert not {
        module for module in SOURCES if any(name.split(".")[0] == "benchmarks" for name in imports(SOURCES[module]))
    }


FACADES = {("kbdisk.schemas.schema", "kbdisk.schemas.yaml")}  # Schema.read and Schema.write load pydantic when called


@for_each(
    "room",
    [
        "api",
        "cli",
        "completion",
        "data",
        "evaluation",
        "experts",
        "leaves",
        "model",
        "schemas",
        "store",
        "styles",
        "training",
    ],
)
def test_the_modules_of_a_room_import_each_other_without_a_circle(room):
    modules = {name for name in SOURCES if part(name) == room}
    graph = {}
    for name in modules:
        targets = {target if target in modules else target.rpartition(".")[0] for target in imports(SOURCES[name])}
        graph[name] = {target for target in targets & modules if (name, target) not in FACADES}
    graphlib.TopologicalSorter(graph).prepare()


@functools.cache
def imports_on_loading(file: Path) -> set[str]:
    """Every module that a file imports when it is loaded: not in functions, and not for types alone."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_the_loaders_load_each_other_without_a_circle():
    modules = {name for name, file in SOURCES.items() if part(name) == "loaders" and file.name != "__init__.py"}
    graph = {}
    for name in modules:
        names = {
            target if target in modules else target.rpartition(".")[0] for target in imports_on_loading(SOURCES[name])
        }
        graph[name] = names & modules
    graphlib.TopologicalSorter(graph).prepare()


LOADER_ROOMS = [  # a folder of the loaders may load only itself and the folders of the rows above
    ["values"],
    ["json", "table", "arrow", "wikibase"],
    ["rdf"],
]


@for_each("module", [module for module in SOURCES if part(module) == "loaders" and module.count(".") > 2])
def test_the_folders_of_the_loaders_load_one_way(module):
    room = module.split(".")[2]
    row = next(i for i, rooms in enumerate(LOADER_ROOMS) if room in rooms)
    allowed = {room, *(name for rooms in LOADER_ROOMS[:row] for name in rooms)}
    rooms = {name for rooms in LOADER_ROOMS for name in rooms}
    loaded = {target.split(".")[2] for target in imports_on_loading(SOURCES[module]) if target.count(".") > 2}
    assert loaded & rooms <= allowed, f"{module} may not load {', '.join(sorted(loaded & rooms - allowed))}"


@for_each("module", [module for module in SOURCES if part(module) in GROUND])
def test_the_ground_never_imports_torch(module):
    assert not {name for name in imports(SOURCES[module]) if name.split(".")[0] in ("torch", "safetensors")}


def loaded_after(code: str) -> set[str]:
    """The top-level names of all modules that a fresh interpreter has after running some code."""
    script = (
        f"{code}\nimport sys; print('\\n'.join({{name.split('.')[0] for name in sys.modules}}), file=sys.__stdout__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@for_each(
    "code",
    [
        "import kbdisk",
        "import kbdisk.cli",
        "import kbdisk.extend",
        "from kbdisk.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from kbdisk.cli import main\ntry: main(['inspect', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_starting_up_loads_nothing_heavy(code):
    assert not loaded_after(code) & set(HEAVY)


SLOW_TO_LOAD = ("kbdisk.api", "kbdisk.completion")


@for_each("module", [module for module in SOURCES if part(module) == "cli"])
def test_a_command_loads_what_takes_long_when_it_is_called(module):
    loaded = imports_on_loading(SOURCES[module])
    assert not {name for name in loaded if f"{name}.".startswith(tuple(f"{slow}." for slow in SLOW_TO_LOAD))}


def test_nothing_in_the_ground_pulls_torch_in_by_a_detour():
    modules = [module for module in SOURCES if part(module) in GROUND]
    assert "torch" not in loaded_after("\n".join(f"import {module}" for module in modules))
