# SPDX-License-Identifier: MIT
"""Repositories laid out file by file, for tests that need no git process.

A git dir is a HEAD, `objects/` and `refs/`; ckpt itself writes the objects. What a
real git makes of them is the business of the tests in with_git/.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seam import observing

from ckpt.models import Checkpoint, Kind, Scope

if TYPE_CHECKING:  # what changes its place must not keep other tests from being collected
    from ckpt.git.index import IndexEntry
    from ckpt.git.objects import ObjectFormat, ObjectID, ObjectStore
    from ckpt.git.repository import Repository
    from ckpt.git.trees import TreeEntry

MOMENT = datetime(2026, 11, 15, 23, 34, 12, 123456, timezone.utc)
ID = "20261115-233412-123-k7pq"
NOWHERE: Any = b"1" * 40


def git_dir(path: Path, *, head: str = "ref: refs/heads/main\n", config: str = "") -> Path:
    """A git dir that holds nothing yet."""
    for name in ("objects/info", "objects/pack", "refs/heads", "info"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text(head)
    (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n" + config)
    return path


def worktree(path: Path, *, config: str = "") -> Path:
    """A worktree with a git dir and without a file."""
    git_dir(path / ".git", config=config)
    return path


def open_repository(path: Path, **env: str) -> Repository:
    from ckpt.git.repository import discover

    return discover(str(path), {**os.environ, **env})


def object_store(
    path: Path, object_format: ObjectFormat | None = None, **options: Any
) -> ObjectStore:
    from ckpt.git.objects import SHA1, ObjectStore

    (path / "pack").mkdir(parents=True, exist_ok=True)
    return ObjectStore(str(path), object_format or SHA1, **options)


def loose(store: ObjectStore, object_id: bytes) -> Path:
    """Where an object lies that is not in a pack."""
    name = object_id.decode()
    return Path(store.path, name[:2], name[2:])


def pack(folder: Path, *blobs: bytes, deltify: bool = False) -> Path:
    """Put blobs into a pack of the object store at `folder`, and nowhere else."""
    from dulwich.object_format import SHA1
    from dulwich.objects import Blob
    from dulwich.pack import write_pack

    (folder / "pack").mkdir(parents=True, exist_ok=True)
    name = folder / "pack" / f"pack-{len(list(folder.glob('pack/*.pack')))}"
    write_pack(str(name), [Blob.from_string(data) for data in blobs], SHA1, deltify=deltify)
    return name.with_suffix(".pack")


def blob(store: ObjectStore, data: bytes = b"content\n", mode: int = 0o100644) -> TreeEntry:
    from ckpt.git.trees import TreeEntry

    return TreeEntry(mode, store.add(b"blob", data))


def commit(
    store: ObjectStore,
    *parents: ObjectID,
    files: Mapping[bytes, bytes] | None = None,
    message: str = "a commit\n",
    moment: datetime = MOMENT,
) -> ObjectID:
    from ckpt.git import record
    from ckpt.git.trees import write_tree

    tree = write_tree(store, {path: blob(store, data) for path, data in (files or {}).items()})
    return record.write_commit(store, tree, parents, message, moment)


def index(path: Path, *entries: IndexEntry) -> None:
    """Write the index of the git dir at `path`."""
    from ckpt.git.index import write_index

    (path / "index").write_bytes(write_index(entries))


def draft(**changes: Any) -> Checkpoint:
    """A checkpoint as it is before it has a commit."""
    fields: dict[str, Any] = {
        "id": ID,
        "name": None,
        "description": None,
        "kind": Kind.MANUAL,
        "trigger": None,
        "scope": Scope.FULL,
        "timestamp": MOMENT,
        "commit": "",
        "tree": "",
        "state_commit": NOWHERE.decode(),
        "worktree": "main",
        "session": None,
        "branch": "main",
    }
    return Checkpoint(**fields | changes)


def write_checkpoint(repo: Repository, **changes: Any) -> Checkpoint:
    """A checkpoint of an empty worktree, with its ref."""
    from ckpt.git import record
    from ckpt.git.trees import write_tree

    objects = repo.objects
    tree = write_tree(objects, {})
    state = record.write_commit(objects, tree, (), "state\n", MOMENT)
    wanted = draft(state_commit=state.decode(), tree=tree.decode(), **changes)
    head = () if wanted.head_commit is None else (wanted.head_commit.encode(),)
    message = record.compose_message(wanted)
    made = record.write_commit(objects, tree, (*head, state), message, MOMENT)
    objects.flush()
    assert repo.refs.create(wanted.ref.encode(), made)
    return record.read_checkpoint(objects, wanted.id, made, frozenset())


@contextmanager
def locked_half_way(lock: Path) -> Iterator[None]:
    """A rollback finds a lock of git's that was not there when it began."""

    def come(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("/ckpt/journal"):
            lock.touch()

    with observing(come):
        yield
    lock.unlink()


def files_below(folder: Path) -> list[str]:
    """The paths of all files and links below a folder, sorted."""
    found: Iterable[Path] = folder.rglob("*")
    return sorted(str(p.relative_to(folder)) for p in found if p.is_symlink() or not p.is_dir())
