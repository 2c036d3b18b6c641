# SPDX-License-Identifier: MIT
"""The direction of imports, and who may print, read the environment, start processes.

A package imports from its own rank and from those below it; two packages of one rank that stand
apart know nothing of each other. A new module right below ckpt/ has to be given its rank here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "ckpt"

# From the lowest rank to the highest.
RANKS: list[list[set[str]]] = [
    [{"disk", "errors", "ids", "interrupts", "codec", "models", "paths"}],
    [{"git"}],
    [{"settings"}, {"worktree"}],
    [{"engine"}],
    [{"aio", "api", "manager"}],
    [{"install", "triggers"}],
    [{"__main__", "cli", "commands", "documents", "output", "render"}],
]
RANK = {unit: rank for rank, rows in enumerate(RANKS) for row in rows for unit in row}
ROW = {unit: row for rows in RANKS for row in rows for unit in row}
SECOND_HALF = {"worktree/cache.py"}  # a fork of ours that looks at files, and ends
REFTABLES = {"git/refs.py"}  # read and written by git itself
FILTER_DRIVERS = {"worktree/filters.py"}  # commands that the user's git runs as well
PROGRAMS = {"install/record.py"}  # asked by a command that a person types
PROCESSES = {"triggers/guard.py"}  # `ps`, where there is no /proc
# What `git ckpt run` is given to run, and the gc of git that `gc --now` asks for.
THE_COMMAND = {"commands/run.py", "commands/gc.py"}
FACE = {"__init__"}  # offers the public names of every rank, imported on first use


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


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


@cache
def uses() -> list[tuple[Path, list[str]]]:
    return [(path, sorted(names_used(tree))) for path, tree in modules()]


def using(*patterns: str, outside: Set[str] = frozenset()) -> list[str]:
    """The modules, but for some or those of some units, that use a name like one of these."""
    return [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, names in uses()
        if unit(path) not in outside and str(path.relative_to(PACKAGE)) not in outside
        for name in names
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def test_every_module_has_a_rank() -> None:
    assert {unit(path) for path, _ in modules()} - FACE == set(RANK)


def test_a_module_imports_nothing_from_above() -> None:
    wrong = {
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path, tree in modules()
        if unit(path) not in FACE
        for name in neighbours(tree) - below(unit(path))
    }

    assert wrong == set()


def below(mine: str) -> set[str]:
    lower = {name for name in RANK if RANK[name] < RANK[mine]}
    face = FACE if RANK[mine] > RANK["manager"] else set()
    return lower | face | ROW[mine]


def test_dulwich_is_known_to_the_store_alone() -> None:
    assert using("dulwich*", outside={"git"}) == []
    assert using("dulwich*") != []


def test_only_the_command_line_prints() -> None:
    printing = ("print", "sys.stdout", "sys.stderr", "sys.stdin")

    assert using(*printing, outside={"output", "cli", "commands", "__main__"}) == []
    assert using(*printing) != []


def test_only_the_outer_layers_read_the_environment() -> None:
    reading = ("os.environ*", "os.getenv*")

    assert using(*reading, outside={"cli", "commands", "output", "manager", "__main__"}) == []
    assert using(*reading) != []


def test_the_engine_starts_no_process() -> None:
    starting = ("subprocess*", "multiprocessing*", "os.system", "os.popen")
    forking = ("os.fork*", "os.posix_spawn*", "os.exec*", "os.spawn*")

    others = set(RANK) - {"engine", "git", "worktree"}
    allowed = FILTER_DRIVERS | SECOND_HALF | REFTABLES

    assert using(*starting, *forking, outside=others | allowed) == []


def test_install_starts_processes_in_one_place() -> None:
    starting = ("subprocess*", "os.system", "os.popen", "os.exec*", "os.spawn*", "os.posix_spawn*")

    others = set(RANK) - {"install"}

    assert using(*starting, outside=others | PROGRAMS) == []


def test_nobody_else_starts_processes_but_for_the_command_that_run_is_given() -> None:
    starting = ("subprocess*", "os.system", "os.popen", "os.exec*", "os.spawn*", "os.posix_spawn*")

    others = {"install", "engine", "git", "worktree"}

    assert using(*starting, outside=others | THE_COMMAND | PROCESSES) == []


def test_what_dulwich_does_unsafely_is_never_called() -> None:
    """Its object writer leaves locks behind, and its reftable writer takes none."""
    assert using(".add_object*", "index.commit", "dulwich.reftable*") == []


def test_what_is_slow_to_import_is_not_imported() -> None:
    assert using("dulwich.porcelain*", "dulwich.repo", "dulwich.repo.*") == []


def test_a_module_opens_with_licence_and_reason() -> None:
    for path, tree in modules():
        assert path.read_text(encoding="utf-8").startswith("# SPDX-License-Identifier: MIT\n"), path
        assert path.name == "__init__.py" or ast.get_docstring(tree), path


@pytest.mark.parametrize(
    ("source", "units"),
    [
        ("from ckpt.git.refs import Head", {"git"}),
        ("from ckpt import ids, disk", {"ids", "disk"}),
        ("import ckpt.engine.plan", {"engine"}),
        ("def f():\n    from ckpt.cli import main", {"cli"}),
        ("from ckpt import CheckpointManager", {"__init__"}),
        ("import os", set()),
    ],
)
def test_an_import_is_seen_however_it_is_written(source: str, units: set[str]) -> None:
    assert units == neighbours(ast.parse(source))
