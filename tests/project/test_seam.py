# SPDX-License-Identifier: MIT
"""Whatever changes a disk goes through `ckpt/disk.py`: the place where tests strike.

A change made elsewhere would never be killed, failed or held up by any sweep.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ckpt

PACKAGE = Path(ckpt.__file__).parent
SEAM = PACKAGE / "disk.py"

CHANGES = {
    *("chmod", "chown", "fchmod", "fchown", "lchown", "utime", "setxattr", "removexattr"),
    *("link", "symlink", "mkdir", "makedirs", "mkfifo", "mknod"),
    *("rename", "renames", "replace", "remove", "removedirs", "rmdir", "unlink"),
    *("write", "pwrite", "pwritev", "writev", "sendfile", "copy_file_range", "splice"),
    *("truncate", "ftruncate", "posix_fallocate", "fsync", "fdatasync", "sync"),
}
CREATES = {"O_CREAT", "O_TRUNC", "O_TMPFILE"}
# Of other modules of Python's, each with what it is called as.
OTHERS = {
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree", "chown"},
    "tempfile": {"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"},
}

# What changes nothing that outlives the process, or nothing of the user's.
ALLOWED = {
    "__main__.py": {"os.write"},  # to a terminal
    "bytecode.py": {"os.unlink"},  # what Python makes anew by itself
    "cli.py": {"open to write"},  # the null device
    "renames.py": {"ctypes"},  # which announces what it does there
    "store/bundle.py": {"tempfile.TemporaryFile"},
    "worktree/filters.py": {"tempfile.TemporaryFile", "os.write"},  # to a pipe
    "worktree/parallel.py": {"open to write"},  # a pipe
    # The scratch repository in which doctor tries triggers out.
    "install/trial.py": {"tempfile.mkdtemp", "shutil.rmtree", "os.mkdir", "open to write"},
}


def changes_in(source: str) -> set[str]:
    return {found for node in ast.walk(ast.parse(source)) for found in _changes(node)}


def _changes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in CHANGES | CREATES:
            yield f"os.{name}"
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in OTHERS.get(module, ()):
            yield f"{module}.{name}"
        case ast.ImportFrom(module=module, names=names):
            wanted = {"os": CHANGES | CREATES, **OTHERS}.get(module or "", set())
            yield from (f"{module}.{each.name}" for each in names if each.name in wanted)
        case ast.Import(names=names):
            yield from (each.name for each in names if each.name == "ctypes")
        case ast.Call(func=ast.Name(id="open"), args=[_, ast.Constant(value=str(mode)), *_]):
            if set(mode) & set("wax+"):
                yield "open to write"
        case ast.Call(func=ast.Attribute(attr="write_text" | "write_bytes" as name)):
            yield name


def test_nothing_else_changes_a_disk() -> None:
    found = {
        str(path.relative_to(PACKAGE)): changes_in(path.read_text())
        for path in PACKAGE.rglob("*.py")
        if path != SEAM and "_assets" not in path.parts
    }

    assert {path: changes for path, changes in found.items() if changes} == ALLOWED


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("os.unlink(path)", {"os.unlink"}),
        ("gone = os.remove", {"os.remove"}),
        ("from os import rename as move", {"os.rename"}),
        ("os.open(path, os.O_RDWR | os.O_CREAT)", {"os.O_CREAT"}),
        ("open(path, 'r+b')", {"open to write"}),
        ("import ctypes", {"ctypes"}),
        ("Path(name).write_text('x')", {"write_text"}),
        ("shutil.rmtree(folder)", {"shutil.rmtree"}),
        ("open(path, 'rb'); os.stat(path); disk.unlink(path)", set()),
    ],
)
def test_a_change_is_known_for_one(source: str, changes: set[str]) -> None:
    assert changes_in(source) == changes
