# SPDX-License-Identifier: MIT
"""Write and read a checkpoint as commits.

The checkpoint's commit has the worktree as its tree, HEAD's commit as first parent and the state
commit as last parent. Its subject is the name (or the id, which is never a valid name), its body
the description, its last paragraph the trailers that `list` needs. Larger data are blobs of the
state tree. A format newer than 1 is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ckpt import codec, disk, ids
from ckpt.codec import text_or_none
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.refs import IDENTITY
from ckpt.git.trees import (
    FOLDER,
    LARGEST_STATE,
    REGULAR,
    TreeEntry,
    UnsafeTree,
    check_name,
    diff_trees,
    lookup,
)
from ckpt.models import (
    Checkpoint,
    Details,
    FeatureState,
    Kind,
    Modes,
    NestedState,
    Scope,
    Skipped,
    Source,
    Stats,
)
from ckpt.paths import from_json, to_json, to_str

FORMAT = 1
MANIFEST = b"manifest.json"
INDEX = b"index"
_HEX = b"0123456789abcdefABCDEF"  # git accepts either case
_TRAILER = "Ckpt-"
_NUMBERS = re.compile("[0-9 ]{5,60}").fullmatch  # three of 64 bits
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


# -- Commits


class CommitData(NamedTuple):
    """A parsed commit object; `header` has all its header lines."""

    tree: ObjectID
    parents: tuple[ObjectID, ...]
    message: str
    header: bytes


def write_commit(
    objects: ObjectStore,
    tree: ObjectID,
    parents: Sequence[ObjectID],
    message: str,
    moment: datetime,
) -> ObjectID:
    """Write an unsigned commit with ckpt's identity."""
    stamp = b"%s %d +0000" % (IDENTITY, int(moment.timestamp()))
    lines = [b"tree " + tree, *(b"parent " + parent for parent in parents)]
    lines += [b"author " + stamp, b"committer " + stamp, b"", message.encode("utf-8")]
    return objects.add(b"commit", b"\n".join(lines))


def read_commit(objects: ObjectStore, commit: ObjectID) -> CommitData:
    """Read a commit as git does: the tree is the first line, the parents follow it.

    Ids are validated, since messages and hints print them."""
    header, _, message = objects.read(commit, b"commit").partition(b"\n\n")
    first, *lines = header.split(b"\n")
    found = [ObjectID(first[5:] if first.startswith(b"tree ") else b"")]
    for line in lines:
        if not line.startswith(b"parent "):
            break
        found.append(ObjectID(line[7:]))
    length = objects.object_format.hex_length
    if any(len(each) != length or each.strip(_HEX) for each in found):
        raise MissingObject(commit, "damaged commit")
    return CommitData(found[0], tuple(found[1:]), message.decode("utf-8", "replace"), header)


# -- The checkpoint's commit


def compose_message(checkpoint: Checkpoint) -> str:
    """Return the message of a checkpoint's commit."""
    stats = checkpoint.stats
    values = {
        "Format": str(FORMAT),
        "Id": checkpoint.id,
        "Kind": checkpoint.kind.value,
        "Trigger": checkpoint.trigger,
        "Scope": checkpoint.scope.value,
        "Timestamp": checkpoint.timestamp.isoformat(timespec="microseconds"),
        "Worktree": checkpoint.worktree,
        "Head": checkpoint.head_commit,
        "Branch": checkpoint.branch,
        "Session": checkpoint.session,
        "Stats": f"{stats.files_changed} {stats.insertions} {stats.deletions}",
        "Partial": "yes" if checkpoint.partial else None,
        "During-Rollback": "yes" if checkpoint.during_rollback else None,
        "Pinned": "yes" if checkpoint.pinned else None,
        "State": checkpoint.state_commit,
    }
    lines = [f"{_TRAILER}{key}: {_quote(value)}" for key, value in values.items() if value]
    parts = (checkpoint.name or checkpoint.id, checkpoint.description, "\n".join(lines))
    return "\n\n".join(filter(None, parts)) + "\n"


def write_checkpoint(objects: ObjectStore, checkpoint: Checkpoint) -> ObjectID:
    """Write the commit of a checkpoint whose trees and state commit exist."""
    names = filter(None, (checkpoint.tree, checkpoint.head_commit, checkpoint.state_commit))
    tree, *parents = (ObjectID(name.encode()) for name in names)
    message = compose_message(checkpoint)
    return write_commit(objects, tree, parents, message, checkpoint.timestamp)


def read_checkpoint(
    objects: ObjectStore, checkpoint_id: str, commit: ObjectID, made_here: frozenset[bytes]
) -> Checkpoint:
    """Read a checkpoint from its commit; details are read on demand."""
    read = read_commit(objects, commit)
    subject, description, trailers = _take_apart(read.message)
    _check_format(checkpoint_id, trailers)
    try:
        name = None if ids.is_id(subject) else _name(subject)
        tree, *parents = (each.decode() for each in (read.tree, *read.parents))
        state, head = trailers["State"], trailers.get("Head")
        if parents != ([state] if head is None else [head, state]):
            raise ValueError("the parents are not HEAD's commit and the state commit")
        return Checkpoint(
            id=checkpoint_id,
            name=name,
            description=description,
            kind=Kind(trailers["Kind"]),
            trigger=trailers.get("Trigger"),
            scope=Scope(trailers["Scope"]),
            timestamp=as_timestamp(trailers["Timestamp"]),
            commit=commit.decode(),
            tree=tree,
            state_commit=state,
            worktree=trailers["Worktree"],
            session=trailers.get("Session"),
            pinned="Pinned" in trailers,
            partial="Partial" in trailers,
            during_rollback="During-Rollback" in trailers,
            head_commit=head,
            branch=trailers.get("Branch"),
            stats=Stats(*map(int, _checked(trailers["Stats"], _NUMBERS).split())),
            foreign=_line(checkpoint_id, commit.decode()) not in made_here,
            source=Source(partial(read_details, objects), partial(read_dirty_files, objects)),
        )
    except _DAMAGE as error:
        raise CkptError(
            f"'{checkpoint_id}' has damaged trailers ({error!s:.200})",
            hint=f"git show --first-parent refs/checkpoints/{checkpoint_id}",
        ) from None


def _name(subject: str) -> str:
    """Validate a name; a line break in it could forge lines of `list`."""
    if len(subject) > ids.MAX_NAME or ids.has_controls(subject):
        raise ValueError(f"a name of {len(subject):,} characters, or with control characters")
    return subject


def _take_apart(message: str) -> tuple[str, str | None, dict[str, str]]:
    """Split a message into subject, body and ckpt's trailers; the first of equal keys is used."""
    subject, _, rest = message.rstrip("\n").partition("\n\n")
    body, _, last = ("\n\n" + rest).rpartition("\n\n")
    trailers: dict[str, str] = {}
    for line in last.split("\n"):
        key, separator, value = line.partition(": ")
        if separator and key.startswith(_TRAILER):
            trailers.setdefault(key[len(_TRAILER) :], _unquote(value) if "%" in value else value)
    return subject, body.strip("\n") or None, trailers


def _check_format(checkpoint_id: str, trailers: Mapping[str, str]) -> None:
    found = trailers.get("Format")
    if found is None or trailers.get("Id") != checkpoint_id:
        raise CkptError(
            f"'refs/checkpoints/{checkpoint_id}' was not written by ckpt",
            hint=f"git show refs/checkpoints/{checkpoint_id}",
        )
    if found != str(FORMAT):
        raise Refused(
            f"checkpoint '{checkpoint_id}' has format {found:.20}, newer than this ckpt",
            hint="upgrade ckpt: pip install --upgrade git-ckpt",
        )


def as_timestamp(text: str) -> datetime:
    """Parse a timestamp and refuse those that a commit cannot have, such as before 1970."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or not 1970 <= moment.year <= 9998 or moment.timestamp() < 0:
        raise ValueError("timestamp out of range, or without time zone")
    return moment


def _quote(text: str) -> str:
    """Percent-encode control characters and non-UTF-8 bytes (surrogates) for a trailer."""
    return re.sub(r"[\0-\x1f%\x7f\udc80-\udcff]", lambda c: f"%{ord(c[0]) & 0xFF:02X}", text)


def _unquote(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    plain = re.sub(rb"%([0-9A-F]{2})", lambda code: bytes([int(code[1], 16)]), raw)
    return plain.decode("utf-8", "surrogateescape")


# -- Manifest and details in the state tree


def state_commit(objects: ObjectStore, checkpoint: Checkpoint) -> CommitData:
    return read_commit(objects, ObjectID(checkpoint.state_commit.encode()))


class Manifest(NamedTuple):
    """The state that trees cannot hold. `excludes` are the ignore files that are not in the tree;
    `unskipped` are paths that exist although they are marked skip-worktree."""

    modes: Modes = Modes()
    empty_folders: tuple[bytes, ...] = ()
    skipped: Mapping[bytes, str] = {}
    excludes: Mapping[str, bytes] = {}
    include: tuple[str, ...] = ()
    operation: str | None = None
    unskipped: tuple[bytes, ...] = ()
    nested: tuple[NestedState, ...] = ()

    def dump(self) -> bytes:
        modes = self.modes
        document = {
            "empty_folders": [to_json(path) for path in self.empty_folders],
            "excludes": {
                name: text.decode("utf-8", "surrogateescape")
                for name, text in self.excludes.items()
            },
            "format": FORMAT,
            "include": self.include,
            "modes": {
                "executable": f"{modes.executable:04o}",
                "folder": None if modes.folder is None else f"{modes.folder:04o}",
                "folders": _bits_by_path(modes.folders),
                "others": _bits_by_path(modes.others),
                "plain": f"{modes.plain:04o}",
            },
            "nested": [state._asdict() | to_json(state.path) for state in self.nested],
            "operation": self.operation,
            "skipped": [to_json(path) | {"reason": why} for path, why in self.skipped.items()],
            "unskipped": [to_json(path) for path in self.unskipped],
        }
        return codec.dump(document)


def _bits_by_path(bits: Mapping[bytes, int]) -> list[dict[str, str]]:
    return [to_json(path) | {"mode": f"{mode:04o}"} for path, mode in sorted(bits.items())]


def read_manifest(objects: ObjectStore, checkpoint: Checkpoint) -> Manifest:
    """Read the manifest of a checkpoint with scope `full`."""
    with damage(checkpoint, MANIFEST.decode()):
        entry = lookup(objects, state_commit(objects, checkpoint).tree, MANIFEST)
        if entry is None:
            raise ValueError("missing")
        document = codec.load(objects.read(entry.id, b"blob", LARGEST_STATE))
        modes = document["modes"]
        return Manifest(
            modes=Modes(
                plain=_bits(modes["plain"]),
                executable=_bits(modes["executable"]),
                others={from_json(item): _bits(item["mode"]) for item in modes["others"]},
                folder=None if modes["folder"] is None else _bits(modes["folder"]),
                folders={from_json(item): _bits(item["mode"]) for item in modes["folders"]},
            ),
            empty_folders=tuple(map(place_of, document["empty_folders"])),
            skipped={from_json(item): str(item["reason"]) for item in document["skipped"]},
            excludes={
                str(name): text.encode("utf-8", "surrogateescape")
                for name, text in document["excludes"].items()
            },
            include=tuple(map(str, document["include"])),
            operation=text_or_none(document["operation"]),
            unskipped=tuple(map(from_json, document["unskipped"])),
            nested=tuple(map(_read_nested, document["nested"])),
        )


def _bits(text: str) -> int:
    return int(text, 8) & 0o777


def read_details(objects: ObjectStore, checkpoint: Checkpoint) -> Details:
    """Read the details of a checkpoint from its manifest and agent state."""
    found = Details()
    if checkpoint.scope is Scope.FULL:
        manifest = read_manifest(objects, checkpoint)
        found = Details(
            skipped=tuple(Skipped(to_str(path), why) for path, why in manifest.skipped.items()),
            operation=manifest.operation,
            nested=manifest.nested,
        )
    with damage(checkpoint, "state"):
        return _with_state(found, objects, state_commit(objects, checkpoint).tree)


@contextmanager
def damage(checkpoint: Checkpoint, path: str, hint: str | None = None) -> Iterator[None]:
    """Turn errors of corrupt data into CkptError naming that part of the checkpoint."""
    try:
        yield
    except _DAMAGE as error:
        raise CkptError(
            f"'{path}' of checkpoint '{checkpoint.id}' is damaged ({error!s:.200})",
            hint=hint or f"git show {checkpoint.state_commit}:{path}",
        ) from None


def read_dirty_files(objects: ObjectStore, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the paths that differed from HEAD, in the worktree or in the index.

    They are computed, since a stored list would grow with each edit.
    """
    head = None
    if checkpoint.head_commit is not None:
        head = read_commit(objects, ObjectID(checkpoint.head_commit.encode())).tree
    staged = lookup(objects, state_commit(objects, checkpoint).tree, INDEX)
    trees = [ObjectID(checkpoint.tree.encode()), *([] if staged is None else [staged.id])]
    found = {path for tree in trees for path, _, _ in diff_trees(objects, head, tree)}
    return tuple(map(to_str, sorted(found)))


def _read_nested(item: Any) -> NestedState:
    return NestedState(
        path=to_str(place_of(item)),
        commit_hash=text_or_none(item["commit_hash"]),
        branch=text_or_none(item["branch"]),
        dirty=_checked(item["dirty"], lambda value: isinstance(value, bool)),
        checkpoint=_checked(item["checkpoint"], ids.is_id),
        problem=text_or_none(item["problem"]),
    )


def _checked(value: Any, is_valid: Callable[[Any], object]) -> Any:
    if value is not None and not is_valid(value):
        raise ValueError(f"{value!r:.40} is not valid there")
    return value


def place_of(document: dict[str, Any]) -> bytes:
    """Read a path and check that it lies inside the worktree."""
    path = from_json(document)
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree:
        raise ValueError(f"not a path of the worktree: {to_str(path)!r}") from None
    return path


# -- Agent state: `state/` in the state tree, a JSON document for each part, and files

STATE = b"state"
_FILES = b"state/files/"
_FILE_LIST = b"state/files.json"
_PARTS = ("data", "metadata", "context", "features", "tracked")
PART_FILES = tuple(part + ".json" for part in _PARTS)

Texts = dict[str, bytes]  # by the name of the part's file


class StateFile(NamedTuple):
    """A state file of a checkpoint; `entry` is None if the file did not exist."""

    entry: TreeEntry | None
    permissions: int


def texts_of(
    *,
    data: Any = None,
    metadata: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    features: FeatureState | None = None,
    tracked: Mapping[str, Any] | None = None,
) -> Texts:
    """Serialise agent state; UsageError names the part that is invalid."""
    listed = features and features._asdict() | {"completed": [*features.completed]}
    objects = {name: tracked[name] for name in sorted(tracked)} if tracked else None
    parts = zip(_PARTS, (data, metadata, context, listed, objects), strict=True)
    return {f"{n}.json": codec.dump_state(value, n) for n, value in parts if value is not None}


def snapshot_path(path: bytes) -> str:
    """Return the path of a state file in the state tree."""
    return to_str(_FILES + path)


def write(
    objects: ObjectStore, texts: Mapping[str, bytes], files: Mapping[bytes, StateFile]
) -> dict[bytes, TreeEntry]:
    """Write agent state and state files; return their entries for a state tree."""
    contents = {b"%s/%s" % (STATE, name.encode()): text for name, text in texts.items()}
    if files:
        listed = [
            to_json(path) | {"permissions": None if file.entry is None else file.permissions}
            for path, file in sorted(files.items())
        ]
        contents[_FILE_LIST] = codec.dump({"files": listed})
    size = sum(map(len, contents.values()))
    if size > LARGEST_STATE:
        raise UsageError(
            f"too much state: {size:,} bytes",
            hint="keep large data in files, and name them as state files",
        )
    entries = {p: TreeEntry(REGULAR, objects.add(b"blob", text)) for p, text in contents.items()}
    files_of = {_FILES + path: file.entry for path, file in files.items()}
    return entries | {path: entry for path, entry in files_of.items() if entry is not None}


def _with_state(details: Details, objects: ObjectStore, state_tree: ObjectID) -> Details:
    """Add the agent state of a state tree to details; one of `_DAMAGE` is raised if corrupt."""
    top = lookup(objects, state_tree, STATE)
    if top is not None and top.mode != FOLDER:
        raise ValueError("not a folder")
    entries = (lookup(objects, state_tree, b"%s/%s" % (STATE, n.encode())) for n in PART_FILES)
    data, metadata, context, features, tracked = (
        None if entry is None else codec.load_state(objects.read(entry.id, b"blob", LARGEST_STATE))
        for entry in entries
    )
    for part in (metadata, context, tracked):
        _checked(part, lambda value: isinstance(value, dict))
    return details._replace(
        data=data,
        metadata=metadata,
        context=context,
        features=None if features is None else _features(features),
        tracked=tracked or {},
        state_files=tuple(map(to_str, read_files(objects, state_tree))),
    )


def _features(document: Any) -> FeatureState:
    completed = tuple(filter(None, map(text_or_none, document["completed"])))
    current, place = map(text_or_none, map(document.get, ("current", "snapshot_path")))
    return FeatureState(current=current, completed=completed, snapshot_path=place)


def read_files(objects: ObjectStore, state_tree: ObjectID) -> dict[bytes, StateFile]:
    """Read the state files of a state tree; one of `_DAMAGE` is raised if they are corrupt."""
    listed = lookup(objects, state_tree, _FILE_LIST)
    if listed is None:
        return {}
    found = {}
    for item in codec.load(objects.read(listed.id, b"blob", LARGEST_STATE))["files"]:
        path, permissions = place_of(item), item["permissions"]
        if permissions is None:
            found[path] = StateFile(None, 0)
            continue
        entry = lookup(objects, state_tree, _FILES + path)
        if entry is None or entry.mode == FOLDER:
            raise ValueError(f"state file '{to_str(path)}' is missing")
        _checked(permissions, lambda value: isinstance(value, int))
        found[path] = StateFile(entry, permissions & 0o777)
    return found


# -- The record of checkpoints made in this repository; all others are foreign

_NAME = "made-here"


def note(common_dir: str, checkpoint_id: str, commit: str) -> tuple[str, ...]:
    """Record that a checkpoint was made here, ignoring errors; return the files to flush."""
    path = os.path.join(common_dir, "ckpt", _NAME)
    try:
        disk.append(path, _line(checkpoint_id, commit))
    except OSError:
        return ()
    return (path,)


def made_here(common_dir: str) -> frozenset[bytes]:
    """Return the record. Read the refs first: a checkpoint is recorded before it gets its ref."""
    try:
        path = os.path.join(common_dir, "ckpt", _NAME)
        return frozenset(disk.read_private(path).splitlines(keepends=True))
    except OSError:
        return frozenset()


def _line(checkpoint_id: str, commit: str) -> bytes:
    return f"{checkpoint_id} {commit}\n".encode("utf-8", "surrogateescape")
