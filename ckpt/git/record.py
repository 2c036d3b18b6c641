# SPDX-License-Identifier: MIT
"""A checkpoint as commits: what is written, and how it is read back.

The checkpoint's commit has the worktree as its tree, HEAD's commit as first parent and the state
commit as last one. Its subject is the name (or the id, which no name can look like), its body the
description, its last paragraph the trailers that `list` needs. Everything longer is in blobs of
the state tree. Format 1: a commit of a newer format is refused, never guessed at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ckpt import disk, ids, jsontext
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
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
    read_limited,
    read_tree,
)
from ckpt.jsontext import text_or_none
from ckpt.models import Checkpoint, Details, FeatureState, Kind, NestedState, Scope, Skipped, Stats
from ckpt.paths import from_json, to_json, to_str

FORMAT = 1
MANIFEST = b"manifest.json"
INDEX = b"index"
_HEX = b"0123456789abcdefABCDEF"  # git takes both
_TRAILER = "Ckpt-"
_LARGEST = 8 << 20  # of a checkpoint's commit
_LONGEST_STATS = 60  # three numbers of 64 bits
_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # whatever the zone, a calendar has them
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


class NotACheckpoint(CkptError):
    """A ref under refs/checkpoints/ whose commit ckpt did not write."""


# -- Commits


class CommitData(NamedTuple):
    """The parts of a commit object that matter here."""

    tree: ObjectID
    parents: tuple[ObjectID, ...]
    message: str


def write_commit(
    objects: ObjectStore,
    tree: ObjectID,
    parents: Sequence[ObjectID],
    message: str,
    moment: datetime,
) -> ObjectID:
    """A commit with the fixed identity, unsigned."""
    return objects.add(b"commit", commit_text(tree, parents, message, moment))


def commit_text(
    tree: ObjectID, parents: Sequence[ObjectID], message: str, moment: datetime
) -> bytes:
    stamp = b"%s %d +0000" % (IDENTITY, int(moment.timestamp()))
    lines = [b"tree " + tree, *(b"parent " + parent for parent in parents)]
    lines += [b"author " + stamp, b"committer " + stamp, b"", message.encode("utf-8")]
    return b"\n".join(lines)


def read_commit(objects: ObjectStore, commit: ObjectID) -> CommitData:
    return _parse_commit(objects, commit, objects.read(commit, b"commit"))


def _parse_commit(objects: ObjectStore, commit: ObjectID, data: bytes) -> CommitData:
    """What git reads: the tree in the first line, the parents right after it. Their ids are
    printed, in commands too."""
    header, _, message = data.partition(b"\n\n")
    first, *lines = header.split(b"\n")
    found = [ObjectID(first[5:] if first.startswith(b"tree ") else b"")]
    for line in lines:
        if not line.startswith(b"parent "):
            break
        found.append(ObjectID(line[7:]))
    length = objects.object_format.hex_length
    if any(len(each) != length or each.strip(_HEX) for each in found):
        raise MissingObject(commit, "damaged commit")
    return CommitData(found[0], tuple(found[1:]), message.decode("utf-8", "replace"))


# -- The checkpoint's commit


def compose_message(checkpoint: Checkpoint) -> str:
    """The message of a checkpoint's commit."""
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


class _Source(NamedTuple):
    """What is known of a checkpoint while it is read."""

    id: str
    tree: str
    state_commit: str
    head_commit: str | None


def read_checkpoint(
    objects: ObjectStore,
    checkpoint_id: str,
    commit: ObjectID,
    lacks: Callable[[str, str], bool] | None = None,
) -> Checkpoint:
    """The checkpoint of a ref's commit; its details are read when asked for. `lacks` tells of an
    id and a commit whether the record of those made here lacks them."""
    data = objects.read(commit, b"commit")
    if len(data) > _LARGEST:
        raise NotACheckpoint(
            f"the commit of '{checkpoint_id}' is too long for a checkpoint's",
            hint=f"git cat-file -s refs/checkpoints/{checkpoint_id}",
        )
    read = _parse_commit(objects, commit, data)
    subject, description, trailers = _take_apart(read.message)
    _check_format(checkpoint_id, trailers)
    try:
        _check_subject(subject)
        tree, *parents = (each.decode() for each in (read.tree, *read.parents))
        state, head = trailers["State"], trailers.get("Head")
        if parents != ([state] if head is None else [head, state]):
            raise ValueError("the parents are not HEAD's commit and the state commit")
        source = _Source(checkpoint_id, tree, state, head)
        return Checkpoint(
            id=checkpoint_id,
            name=None if ids.is_id(subject) else subject,
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
            stats=_stats(trailers["Stats"]),
            _details=partial(read_details, objects, source),
            _dirty_files=partial(read_dirty_files, objects, source),
            _lacks=lacks,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise NotACheckpoint(
            f"'{checkpoint_id}' has damaged trailers ({error!s:.200})",
            hint=f"git show --first-parent refs/checkpoints/{checkpoint_id}",
        ) from None


def _check_subject(subject: str) -> None:
    """A name with a line break in it could pass for other lines of a list."""
    if len(subject) > ids.MAX_NAME:
        raise ValueError(f"a name of {len(subject):,} characters")
    if not subject.isprintable() and ids.has_controls(subject):
        raise ValueError("control characters in the name")


def _take_apart(message: str) -> tuple[str, str | None, dict[str, str]]:
    """Subject, body and our trailers, of two equal keys the first."""
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
        raise NotACheckpoint(
            f"'refs/checkpoints/{checkpoint_id}' was not written by ckpt",
            hint=f"git show refs/checkpoints/{checkpoint_id}",
        )
    if found != str(FORMAT):
        raise Refused(
            f"checkpoint '{checkpoint_id}' has format {found:.20}, newer than this ckpt",
            hint="upgrade ckpt: pip install --upgrade git-ckpt",
        )


def _stats(text: str) -> Stats:
    if len(text) > _LONGEST_STATS or "-" in text:
        raise ValueError("stats out of range")
    return Stats(*map(int, text.split()))


def as_timestamp(text: str) -> datetime:
    """A moment that a commit can be of: git has none before 1970."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("timestamp without time zone")
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR or moment.timestamp() < 0:
        raise ValueError("timestamp out of range")
    return moment


def _quote(text: str) -> str:
    """Text that fits one trailer line, reversibly; bytes that are not UTF-8 are surrogates."""
    return re.sub(r"[\0-\x1f%\x7f\udc80-\udcff]", lambda c: f"%{ord(c[0]) & 0xFF:02X}", text)


def _unquote(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    plain = re.sub(rb"%([0-9A-F]{2})", lambda code: bytes([int(code[1], 16)]), raw)
    return plain.decode("utf-8", "surrogateescape")


# -- What the state tree holds besides the index: manifest and details


def read_state_blob(
    objects: ObjectStore, checkpoint: Checkpoint | _Source, path: bytes
) -> bytes | None:
    """A blob of the checkpoint's state tree."""
    entry = lookup(objects, _state_tree(objects, checkpoint), path)
    return None if entry is None else read_limited(objects, entry.id)


def _state_tree(objects: ObjectStore, checkpoint: Checkpoint | _Source) -> ObjectID:
    return read_commit(objects, ObjectID(checkpoint.state_commit.encode())).tree


def read_json(
    objects: ObjectStore, checkpoint: Checkpoint | _Source, path: bytes
) -> dict[str, Any]:
    """A JSON object of the state tree; empty if it is absent."""
    blob = read_state_blob(objects, checkpoint, path)
    with _damage(checkpoint, path.decode()):
        document = jsontext.load(blob) if blob is not None else {}
        if not isinstance(document, dict):
            raise ValueError("not an object")
        return document


def read_details(objects: ObjectStore, checkpoint: Checkpoint | _Source) -> Details:
    """The manifest and the agent state."""
    manifest = read_json(objects, checkpoint, MANIFEST)
    tree = _state_tree(objects, checkpoint)
    with _damage(checkpoint, "state"):
        state = read(objects, tree)
    with _damage(checkpoint, MANIFEST.decode()):
        return Details(
            skipped=tuple(
                Skipped(to_str(from_json(d)), str(d["reason"])) for d in manifest.get("skipped", ())
            ),
            data=state.data,
            metadata=state.metadata,
            context=state.context,
            features=state.features,
            tracked=state.tracked,
            state_files=tuple(to_str(path) for path in state.files),
            operation=text_or_none((manifest.get("operation") or {}).get("name")),
            nested=read_nested(manifest.get("nested", ())),
        )


@contextmanager
def _damage(checkpoint: Checkpoint | _Source, path: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise NotACheckpoint(
            f"'{path}' of checkpoint '{checkpoint.id}' is damaged ({error!s:.200})",
            hint=f"git show {checkpoint.state_commit}:{path}",
        ) from None


def read_dirty_files(objects: ObjectStore, checkpoint: Checkpoint | _Source) -> tuple[str, ...]:
    """The paths that differed from HEAD, in the worktree or in the index.

    Not written down: a list that grows with every edit would be stored with every save.
    """
    head = None
    if checkpoint.head_commit is not None:
        head = read_commit(objects, ObjectID(checkpoint.head_commit.encode())).tree
    staged = lookup(objects, _state_tree(objects, checkpoint), INDEX)
    trees = [ObjectID(checkpoint.tree.encode()), *([] if staged is None else [staged.id])]
    found = {path for tree in trees for path, _, _ in diff_trees(objects, head, tree)}
    return tuple(map(to_str, sorted(found)))


def read_nested(documents: Iterable[Any]) -> tuple[NestedState, ...]:
    """The repositories inside the worktree, as a manifest has them."""
    return tuple(
        NestedState(
            path=place_of(item),
            commit_hash=text_or_none(item["commit"]),
            branch=text_or_none(item["branch"]),
            dirty=_checked(item["dirty"], lambda value: isinstance(value, bool)),
            checkpoint=_checked(item["checkpoint"], ids.is_id),
            problem=text_or_none(item["problem"]),
            # which a hint may tell people to type
            checkpoint_commit=_checked(
                item.get("checkpoint_commit"), re.compile("[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
            ),
        )
        for item in documents
    )


def _checked(value: Any, is_valid: Callable[[Any], object]) -> Any:
    if value is not None and not is_valid(value):
        raise ValueError(f"{value!r:.40} is not valid there")
    return value


def place_of(document: dict[str, Any]) -> str:
    """A path that is written to: it must lie inside the worktree."""
    path = from_json(document)
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree:
        raise ValueError(f"not a path of the worktree: {to_str(path)!r}") from None
    return to_str(path)


# -- Agent state in the state tree: a blob for each part of it, below `state/`

STATE = b"state"
FILES = b"files"
_FILE_LIST = b"files.json"
_TRACKED = b"tracked/"
_JSON = b".json"
_PARTS = ("data", "metadata", "context", "features")
_MOST_BYTES = 1 << 28

Texts = dict[bytes, bytes]  # by the path below `state/`


class StateFile(NamedTuple):
    """A state file as it was: None for an entry means that nothing was there."""

    entry: TreeEntry | None
    permissions: int


class AgentState(NamedTuple):
    """What a checkpoint holds besides files; `tracked` are the states of objects by name."""

    data: Any = None
    metadata: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    features: FeatureState | None = None
    tracked: Mapping[str, Any] = {}
    files: Mapping[bytes, StateFile] = {}


def texts_of(
    *,
    data: Any = None,
    metadata: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    features: FeatureState | None = None,
) -> Texts:
    """State as it will be stored; UsageError names what cannot be."""
    parts = {"data": data, "metadata": metadata, "context": context}
    if features is not None:
        parts["features"] = asdict(features) | {"completed": [*features.completed]}
    given = {name: value for name, value in parts.items() if value is not None}
    if not given:
        return {}
    from ckpt import state

    return {name.encode() + _JSON: state.dump(value, name) for name, value in given.items()}


def tracked_text(name: str, value: Any) -> Texts:
    """The state of one object as it will be stored."""
    from ckpt import state

    return {_TRACKED + _quoted(name) + _JSON: state.dump(value, name)}


def snapshot_path(path: bytes) -> str:
    """Where the content of a state file is in the state tree."""
    return to_str(b"/".join((STATE, FILES, path)))


def write(
    objects: ObjectStore, texts: Mapping[bytes, bytes], files: Mapping[bytes, StateFile]
) -> dict[bytes, TreeEntry]:
    """The entries of the state tree that hold all this."""
    contents = dict(texts)
    if files:
        listed = [
            to_json(path) | {"permissions": None if file.entry is None else file.permissions}
            for path, file in sorted(files.items())
        ]
        contents[_FILE_LIST] = jsontext.dump({"files": listed})
    sizes = [len(text) for text in contents.values()]
    if max(sizes, default=0) > LARGEST_STATE or sum(sizes) > _MOST_BYTES:
        largest = max(contents, key=lambda path: len(contents[path]))
        raise UsageError(
            f"'{to_str(largest)}' is too much state: {sum(sizes):,} bytes together",
            hint="keep large data in files, and name them as state files",
        )
    entries = {
        STATE + b"/" + path: TreeEntry(REGULAR, objects.add(b"blob", text))
        for path, text in contents.items()
    }
    for path, file in files.items():
        if file.entry is not None:
            entries[b"/".join((STATE, FILES, path))] = file.entry
    return entries


def read(objects: ObjectStore, state_tree: ObjectID) -> AgentState:
    """What `write` was given; ValueError, or what its kind is, if it is damaged."""
    top = lookup(objects, state_tree, STATE)
    if top is None:
        return AgentState()
    from ckpt import state

    room = _MOST_BYTES

    def loaded(blob: ObjectID) -> Any:  # one blob may be several of them
        nonlocal room
        text = read_limited(objects, blob)
        room -= len(text)
        if room < 0:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes together")
        return state.load(text)

    parts = {name: child for name, _, child in read_tree(objects, top.id)}
    blobs = {name: parts.get(name.encode() + _JSON) for name in _PARTS}
    found = {name: loaded(blob) for name, blob in blobs.items() if blob is not None}
    if any(not isinstance(found.get(name, {}), dict) for name in ("metadata", "context")):
        raise ValueError("metadata or context is no object")
    tracked = parts.get(_TRACKED[:-1])
    return AgentState(
        data=found.get("data"),
        metadata=found.get("metadata"),
        context=found.get("context"),
        features=_features(found["features"]) if found.get("features") is not None else None,
        tracked={
            _unquoted(name.removesuffix(_JSON)): loaded(child)
            for name, _, child in (read_tree(objects, tracked) if tracked is not None else ())
        },
        files=read_files(objects, state_tree),
    )


def _features(document: Any) -> FeatureState:
    return FeatureState(
        current=text_or_none(document.get("current")),
        completed=tuple(
            _checked(x, lambda name: isinstance(name, str)) for x in document["completed"]
        ),
        snapshot_path=text_or_none(document.get("snapshot_path")),
    )


def read_files(objects: ObjectStore, state_tree: ObjectID) -> dict[bytes, StateFile]:
    """The state files alone; ValueError as above."""
    listed = lookup(objects, state_tree, STATE + b"/" + _FILE_LIST)
    if listed is None:
        return {}
    found = {}
    for item in jsontext.load(read_limited(objects, listed.id))["files"]:
        path, permissions = from_json(item), item["permissions"]
        for name in path.split(b"/"):
            check_name(name)
        if permissions is None:
            found[path] = StateFile(None, 0)
            continue
        entry = lookup(objects, state_tree, b"/".join((STATE, FILES, path)))
        if entry is None or entry.mode == FOLDER:
            raise ValueError(f"state file '{to_str(path)}' is missing")
        if not isinstance(permissions, int):
            raise ValueError(f"state file '{to_str(path)}' has no permission bits")
        found[path] = StateFile(entry, permissions & 0o777)
    return found


def _quoted(name: str) -> bytes:
    """A name as one that every tree may hold."""
    special = rb"[^A-Za-z0-9_-]"
    return re.sub(special, lambda byte: b"%%%02X" % ord(byte[0]), name.encode("utf-8"))


def _unquoted(name: bytes) -> str:
    first, *others = name.split(b"%")
    raw = first + b"".join(bytes([int(part[:2], 16)]) + part[2:] for part in others)
    return raw.decode("utf-8")


def is_quoted(name: str) -> bool:
    """Whether an object's name can be read from this one."""
    try:
        return _quoted(_unquoted(name.encode("ascii"))).decode() == name
    except ValueError:
        return False


# -- The record of checkpoints that were made in this repository: all others are foreign

_NAME = "made-here"
_LARGEST_RECORD = 1 << 20  # in bytes; beyond, lines of checkpoints that are gone are dropped


def note(common_dir: str, checkpoint_id: str, commit: str) -> tuple[str, ...]:
    """Remember that a checkpoint was made here; an error is ignored. Returns what to flush."""
    path = _path(common_dir)
    try:
        try:
            disk.append(path, _line(checkpoint_id, commit))
        except FileNotFoundError:
            disk.ensure_dir(os.path.dirname(path))
            disk.append(path, _line(checkpoint_id, commit))
    except OSError:
        return ()
    return (path,)


def holds(common_dir: str, checkpoint_id: str, commit: str) -> bool:
    """Whether the commit under an id was made here, as far as the record can tell."""
    return not Record(common_dir).lacks(checkpoint_id, commit)


def is_same(common_dir: str, checkpoint_id: str, commit: str, known: str | None) -> bool:
    """Whether the commit under an id is the one that is known of it, if any. To pin a checkpoint
    makes another commit, which was made here too."""
    return known in (None, commit) or holds(common_dir, checkpoint_id, commit)


def commits_of(common_dir: str, checkpoint_id: str) -> list[str]:
    """The commits that an id had, newest first: to pin a checkpoint makes another one."""
    mark = _line(checkpoint_id, "").strip(b"\n")
    lines = reversed(_read(common_dir))
    return [
        line.rpartition(mark)[2].decode("ascii", "replace").strip()
        for line in lines
        if mark in line
    ]


class Record:
    """The record as it is when the first question is asked: of a thousand, it is read once."""

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir
        self._lines: frozenset[bytes] | None = None

    def lacks(self, checkpoint_id: str, commit: str) -> bool:
        if self._lines is None:
            self._lines = frozenset(_read(self._common_dir))
        return _line(checkpoint_id, commit) not in self._lines


def tidy(common_dir: str, existing: Callable[[], Container[str]]) -> None:
    """Drop all but the ids that exist, if the record has become long.

    What another process notes at that moment may go with them.
    """
    path = _path(common_dir)
    with suppress(OSError):
        if os.stat(path).st_size > _LARGEST_RECORD:
            known = existing()
            ours = (
                (line.partition(b" ")[0].decode("ascii", "replace"), line)
                for line in _read(common_dir)
            )
            disk.replace(path, b"".join(line for name, line in ours if name in known))


def _path(common_dir: str) -> str:
    return os.path.join(common_dir, "ckpt", _NAME)


def _line(checkpoint_id: str, commit: str) -> bytes:
    return f"{checkpoint_id} {commit}\n".encode("utf-8", "surrogateescape")


def _read(common_dir: str) -> list[bytes]:
    try:
        return disk.read_private(_path(common_dir)).splitlines(keepends=True)
    except OSError:
        return []
