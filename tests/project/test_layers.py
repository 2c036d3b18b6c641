# SPDX-License-Identifier: MIT
"""The direction of imports, and who may print, read the environment, start processes.

A module or folder of ckpt/ belongs to one layer and knows those below it, never its
neighbours in the same layer. A new one has to be given its place here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "ckpt"

LAYERS = [
    {"errors"},
    {"disk", "ids", "linediff", "models", "paths"},
    {"install", "settings", "store", "worktree"},
    {"configure"},
    {"engine"},
    {"manager"},
    {"documents", "render"},
    {"output"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}
PEERS = {"commands": {"cli"}}  # for the type of what cli passes to every command
FACE = {"__init__"}  # offers the public names of every layer, imported on first use

PRINTING = {"output", "cli", "commands", "__main__"}
ENVIRONMENT = {"cli", "commands", "output", "manager", "__main__"}
WITHOUT_PROCESSES = {"engine", "store", "worktree"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def unit(path: Path) -> str:
    """The module or folder right below ckpt/ that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """Every dotted name that is imported anywhere, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def neighbours(tree: ast.AST) -> set[str]:
    """The units of ckpt that are imported; `from ckpt import Name` counts as its face."""
    names = [name.split(".") for name in imported(tree)]
    units = {parts[1] if len(parts) > 1 else "__init__" for parts in names if parts[0] == "ckpt"}
    return {name if name in RANK else "__init__" for name in units}


def names_used(tree: ast.AST) -> set[str]:
    """Identifiers, attributes with the name before the dot, and imports."""
    used = set(imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            owner = node.value
            last = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            used |= {f"{last}.{node.attr}", f".{node.attr}"}
    return used


def parse(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


each_module = pytest.mark.parametrize(
    "path", MODULES, ids=[str(path.relative_to(PACKAGE)) for path in MODULES]
)


def test_every_module_has_a_place_in_the_layers() -> None:
    assert {unit(path) for path in MODULES} - FACE <= set(RANK)


@each_module
def test_a_module_imports_only_from_below(path: Path) -> None:
    mine = unit(path)
    if mine in FACE:
        return
    allowed = {name for name in RANK if RANK[name] < RANK[mine]} | {mine} | PEERS.get(mine, set())
    if RANK[mine] > RANK["manager"]:
        allowed |= FACE

    assert neighbours(parse(path)) <= allowed


@each_module
def test_dulwich_is_known_to_the_store_alone(path: Path) -> None:
    packages = {name.split(".")[0] for name in imported(parse(path))}

    assert unit(path) == "store" or "dulwich" not in packages


@each_module
def test_only_the_command_line_prints(path: Path) -> None:
    if unit(path) in PRINTING:
        return

    assert not names_used(parse(path)) & {"print", "sys.stdout", "sys.stderr", "sys.stdin"}


@each_module
def test_only_the_outer_layers_read_the_environment(path: Path) -> None:
    if unit(path) in ENVIRONMENT:
        return

    assert not names_used(parse(path)) & {"os.environ", "os.environb", "os.getenv", "os.getenvb"}


@each_module
def test_the_engine_starts_no_process(path: Path) -> None:
    if unit(path) not in WITHOUT_PROCESSES:
        return
    used = names_used(parse(path))

    assert not [name for name in used if name.split(".")[0] in {"subprocess", "multiprocessing"}]
    assert not used & {"os.system", "os.popen", "os.fork", "os.posix_spawn"}
    assert not [name for name in used if name.startswith(("os.exec", "os.spawn"))]


@each_module
def test_what_dulwich_does_unsafely_is_never_called(path: Path) -> None:
    """Its object writer leaves locks behind and does not fsync; porcelain and Repo are slow."""
    used = names_used(parse(path))

    assert not used & {".add_object", ".add_objects", "index.commit"}
    assert not [name for name in used if name.startswith(("dulwich.porcelain", "dulwich.repo"))]
    assert not [name for name in used if name.startswith("dulwich.reftable")]


@each_module
def test_a_module_opens_with_licence_and_reason(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.startswith("# SPDX-License-Identifier: MIT\n")
    assert path.name == "__init__.py" or ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize(
    ("source", "units"),
    [
        ("from ckpt.store.refs import Head", {"store"}),
        ("from ckpt import ids, disk", {"ids", "disk"}),
        ("import ckpt.engine.plan", {"engine"}),
        ("def f():\n    from ckpt.cli import main", {"cli"}),
        ("from ckpt import CheckpointManager", {"__init__"}),
        ("import os", set()),
    ],
)
def test_an_import_is_seen_however_it_is_written(source: str, units: set[str]) -> None:
    assert units == neighbours(ast.parse(source))
