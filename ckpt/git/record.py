# SPDX-License-Identifier: MIT
"""A checkpoint as commits: what is written, and how it is read back.

The checkpoint's commit has the worktree as its tree, HEAD's commit as first parent and
the state commit as last one. Its subject is the name (or the id, which no name can
look like), its body the description, its last paragraph the trailers that `list`
needs. Everything longer is in blobs of the state tree.

Format 1. A commit of a newer format is refused, never guessed at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

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
from ckpt.ids import is_id
from ckpt.jsontext import text_or_none
from ckpt.models import Checkpoint, Details, FeatureState, Kind, NestedState, Scope, Skipped, Stats
from ckpt.paths import from_json, to_json, to_str


def read_details(objects: ObjectStore, checkpoint: Checkpoint | Reader) -> Details:
    """The manifest and the agent state, for whoever asks."""
    manifest = read_json(objects, checkpoint, MANIFEST)
    state = _agent_state(objects, checkpoint)
    try:
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
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotACheckpoint(
            f"the manifest of checkpoint '{checkpoint.id}' is damaged ({error})",
            hint=f"git show {checkpoint.state_commit}:manifest.json",
        ) from None


def _agent_state(objects: ObjectStore, checkpoint: Checkpoint | Reader) -> AgentState:
    state = read_commit(objects, ObjectID(checkpoint.state_commit.encode()))
    try:
        return read(objects, state.tree)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotACheckpoint(
            f"the agent state of checkpoint '{checkpoint.id}' is damaged ({error})",
            hint=f"git show {checkpoint.state_commit}:state",
        ) from None


def read_dirty_files(objects: ObjectStore, checkpoint: Checkpoint | Reader) -> tuple[str, ...]:
    """The paths that differed from HEAD, in the worktree or in the index.

    Not written down: a list that grows with every edit would be stored with every save.
    """
    head = None
    if checkpoint.head_commit is not None:
        head = read_commit(objects, ObjectID(checkpoint.head_commit.encode())).tree
    state = read_commit(objects, ObjectID(checkpoint.state_commit.encode())).tree
    staged = lookup(objects, state, INDEX)
    found = {path for path, _, _ in diff_trees(objects, head, ObjectID(checkpoint.tree.encode()))}
    if staged is not None:
        found |= {path for path, _, _ in diff_trees(objects, head, staged.id)}
    return tuple(map(to_str, sorted(found)))


def read_nested(documents: Iterable[Any]) -> tuple[NestedState, ...]:
    """The repositories inside the worktree, as a manifest has them."""
    return tuple(
        NestedState(
            path=place_of(item),
            commit_hash=text_or_none(item["commit"]),
            branch=text_or_none(item["branch"]),
            dirty=_answer(item["dirty"]),
            checkpoint=_id_or_none(item["checkpoint"]),
            problem=text_or_none(item["problem"]),
            checkpoint_commit=_commit_or_none(item.get("checkpoint_commit")),
        )
        for item in documents
    )


def _answer(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither yes nor no")
    return value


def _id_or_none(value: object) -> str | None:
    text = text_or_none(value)
    if text is not None and not is_id(text):
        raise ValueError(f"{text!r:.40} is no id of a checkpoint")
    return text


def _commit_or_none(value: object) -> str | None:
    """The id of a commit, which a hint may tell people to type."""
    text = text_or_none(value)
    if text is not None and (len(text) not in (40, 64) or text.strip("0123456789abcdef")):
        raise ValueError(f"{text!r:.40} is no id of a commit")
    return text


def place_of(document: dict[str, Any]) -> str:
    """A path that is written to: it must lie inside the worktree."""
    path = from_json(document)
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree:
        raise ValueError(f"not a path of the worktree: {to_str(path)!r}") from None
    return to_str(path)


# -- A checkpoint as commits: what is written, and how it is read back

FORMAT = 1
MANIFEST = b"manifest.json"
INDEX = b"index"
_HEX = b"0123456789abcdefABCDEF"  # git takes both
# Those that people have and that are quick to read; ASCII is the same in all of them.
_ENCODING = re.compile(
    rb"(?mi)^encoding (iso-8859-[0-9]{1,2}|latin-?1|windows-125[0-8]|koi8-[ru]|euc-(?:jp|kr)"
    rb"|shift[_-]jis|gbk|gb2312|gb18030|big5)$"
)
_TRAILER = "Ckpt-"
_LARGEST = 8 << 20  # of a checkpoint's commit
_LONGEST_STATS = 60  # three numbers of 64 bits
_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # whatever the zone, a calendar has them
_KINDS = {kind.value: kind for kind in Kind}
_SCOPES = {scope.value: scope for scope in Scope}


class NotACheckpoint(CkptError):
    """A ref under refs/checkpoints/ whose commit ckpt did not write."""


@dataclass(frozen=True, slots=True)
class CommitData:
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
    header, _, message = objects.read(commit, b"commit").partition(b"\n\n")
    tree, *parents = _tree_and_parents(objects, commit, header)
    return CommitData(tree, tuple(parents), _text(header, message))


def _text(header: bytes, message: bytes) -> str:
    """A message, which may be in an encoding that the header names (i18n.commitEncoding)."""
    named = _ENCODING.search(header)
    try:
        return message.decode(named[1].decode() if named else "utf-8", "replace")
    except LookupError:
        return message.decode("utf-8", "replace")


def _tree_and_parents(objects: ObjectStore, commit: ObjectID, header: bytes) -> list[ObjectID]:
    """What git reads, or nobody would know which of two trees was looked over: the tree in the
    first line, the parents right after it. Their ids are printed, in commands too."""
    first, *lines = header.split(b"\n")
    found = [first[5:] if first.startswith(b"tree ") else b""]
    for line in lines:
        if not line.startswith(b"parent "):
            break
        found.append(line[7:])
    length = objects.object_format.hex_length
    if any(len(each) != length or each.strip(_HEX) for each in found):
        raise MissingObject(commit, "damaged commit")
    return [*map(ObjectID, found)]


def compose_message(checkpoint: Checkpoint) -> str:
    """The message of a checkpoint's commit."""
    subject = checkpoint.name or checkpoint.id
    trailers = "\n".join(
        f"Ckpt-{key}: {_quote(value)}" for key, value in _trailers(checkpoint) if value
    )
    return "\n\n".join(filter(None, [subject, checkpoint.description, trailers])) + "\n"


def _trailers(checkpoint: Checkpoint) -> list[tuple[str, str | None]]:
    stats = checkpoint.stats
    return [
        ("Format", str(FORMAT)),
        ("Id", checkpoint.id),
        ("Kind", checkpoint.kind.value),
        ("Trigger", checkpoint.trigger),
        ("Scope", checkpoint.scope.value),
        ("Timestamp", checkpoint.timestamp.isoformat(timespec="microseconds")),
        ("Worktree", checkpoint.worktree),
        ("Head", checkpoint.head_commit),
        ("Branch", checkpoint.branch),
        ("Session", checkpoint.session),
        ("Stats", f"{stats.files_changed} {stats.insertions} {stats.deletions}"),
        ("Partial", "yes" if checkpoint.partial else None),
        ("During-Rollback", "yes" if checkpoint.during_rollback else None),
        ("Pinned", "yes" if checkpoint.pinned else None),
        ("State", checkpoint.state_commit),
    ]


class Reader:
    """Reads the rest of a checkpoint when it is asked for.

    Not a function within one, which would hold the checkpoint that holds it: of a thousand
    such circles the garbage collector alone would take longer than all else.
    """

    __slots__ = ("_objects", "head_commit", "id", "state_commit", "tree")

    def __init__(
        self,
        objects: ObjectStore,
        checkpoint_id: str,
        tree: str,
        state_commit: str,
        head_commit: str | None,
    ) -> None:
        self._objects = objects
        self.id = checkpoint_id
        self.tree = tree
        self.state_commit = state_commit
        self.head_commit = head_commit

    def details(self) -> Details:

        return read_details(self._objects, self)

    def dirty_files(self) -> tuple[str, ...]:

        return read_dirty_files(self._objects, self)


def read_checkpoint(
    objects: ObjectStore,
    checkpoint_id: str,
    commit: ObjectID,
    lacks: Callable[[str, str], bool] | None = None,
) -> Checkpoint:
    """The checkpoint that a ref's commit tells of; its details are read when asked for. `lacks` is
    to tell of an id and a commit whether the record of those made here lacks them."""
    # Called for each of a thousand: the text is cut once and nothing made that is not kept.
    data = objects.read(commit, b"commit")
    if len(data) > _LARGEST:
        raise NotACheckpoint(
            f"the commit of '{checkpoint_id}' is too long for a checkpoint's",
            hint=f"git cat-file -s refs/checkpoints/{checkpoint_id}",
        )
    header, _, message = data.partition(b"\n\n")
    tree, *parents = map(bytes.decode, _tree_and_parents(objects, commit, header))
    subject, description, trailers = _take_apart(message.decode("utf-8", "replace"))
    _check_format(checkpoint_id, trailers)
    try:
        _check_subject(subject)
        state_commit = _state_commit(parents, trailers)
        head_commit = _head_commit(parents, trailers)
        reader = Reader(objects, checkpoint_id, tree, state_commit, head_commit)
        return Checkpoint(
            id=checkpoint_id,
            name=None if ids.is_id(subject) else subject,
            description=description,
            kind=_KINDS.get(trailers["Kind"]) or Kind(trailers["Kind"]),
            trigger=trailers.get("Trigger"),
            scope=_SCOPES.get(trailers["Scope"]) or Scope(trailers["Scope"]),
            timestamp=as_timestamp(trailers["Timestamp"]),
            commit=commit.decode(),
            tree=tree,
            state_commit=state_commit,
            worktree=trailers["Worktree"],
            session=trailers.get("Session"),
            pinned="Pinned" in trailers,
            partial="Partial" in trailers,
            during_rollback="During-Rollback" in trailers,
            head_commit=head_commit,
            branch=trailers.get("Branch"),
            stats=_stats(trailers["Stats"]),
            _details=reader.details,
            _dirty_files=reader.dirty_files,
            _lacks=lacks,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise NotACheckpoint(
            f"'{checkpoint_id}' has damaged trailers ({error!s:.200})",
            hint=f"git show --first-parent refs/checkpoints/{checkpoint_id}",
        ) from None


def _check_subject(subject: str) -> None:
    """A name with a line break in it could pass for other lines of a list, and one of megabytes
    would leave nothing else to be seen."""
    if len(subject) > ids.MAX_NAME:
        raise ValueError(f"a name of {len(subject):,} characters")
    if not subject.isprintable() and ids.has_controls(subject):
        raise ValueError("control characters in the name")


def _take_apart(message: str) -> tuple[str, str | None, dict[str, str]]:
    subject, _, rest = message.rstrip("\n").partition("\n\n")
    body, _, last = ("\n\n" + rest).rpartition("\n\n")
    return subject, body.strip("\n") or None, _plain_trailers(last) or _any_trailers(last)


def _plain_trailers(paragraph: str) -> dict[str, str] | None:
    """The same for a paragraph that nobody added to and with nothing quoted, as most are."""
    lines = paragraph[len(_TRAILER) :].split("\n" + _TRAILER)
    is_ours = paragraph.startswith(_TRAILER) and len(lines) == paragraph.count("\n") + 1
    if not is_ours or "%" in paragraph:
        return None
    try:
        trailers = dict([line.split(": ", 1) for line in lines])
    except ValueError:  # a line without a value
        return None
    return trailers if len(trailers) == len(lines) else None


def _any_trailers(paragraph: str) -> dict[str, str]:
    """What ckpt wrote, of two equal keys the first; other people's lines are passed over."""
    trailers: dict[str, str] = {}
    for line in paragraph.split("\n"):
        key, separator, value = line.partition(": ")
        if separator and key.startswith(_TRAILER):
            trailers.setdefault(key[len(_TRAILER) :], _unquote(value))
    return trailers


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


def _state_commit(parents: Sequence[str], trailers: Mapping[str, str]) -> str:
    state = trailers["State"]
    if not parents or parents[-1] != state:
        raise ValueError("the last parent is not the state commit")
    return state


def _head_commit(parents: Sequence[str], trailers: Mapping[str, str]) -> str | None:
    head = trailers.get("Head")
    if parents[:-1] != ([] if head is None else [head]):
        raise ValueError("the first parent is not HEAD's commit")
    return head


def _stats(text: str) -> Stats:
    """What was counted; a number that no repository can have would widen each row of a list."""
    if len(text) > _LONGEST_STATS or "-" in text:
        raise ValueError("stats that nobody has counted")
    return Stats(*map(int, text.split()))


def as_timestamp(text: str) -> datetime:
    """A moment that a commit can be of: git has none before 1970."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("timestamp without time zone")
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR or moment.timestamp() < 0:
        raise ValueError("timestamp of another age")
    return moment


def read_state_blob(
    objects: ObjectStore, checkpoint: Checkpoint | Reader, path: bytes
) -> bytes | None:
    """A blob of the checkpoint's state tree."""
    state = read_commit(objects, ObjectID(checkpoint.state_commit.encode()))
    entry = lookup(objects, state.tree, path)
    return None if entry is None else read_limited(objects, entry.id)


def read_json(objects: ObjectStore, checkpoint: Checkpoint | Reader, path: bytes) -> dict[str, Any]:
    """A JSON object of the state tree; empty if it is absent."""
    blob = read_state_blob(objects, checkpoint, path)
    try:
        document = jsontext.load(blob) if blob is not None else {}
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise NotACheckpoint(
            f"'{path.decode()}' of checkpoint '{checkpoint.id}' is damaged",
            hint=f"git show {checkpoint.state_commit}:{path.decode()}",
        )
    return document


def _quote(text: str) -> str:
    """Text that fits one trailer line, reversibly."""
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(map(_quote_character, raw.decode("utf-8", "surrogateescape")))


def _quote_character(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"%{code - 0xDC00:02X}"
    return f"%{code:02X}" if code < 32 or char in "%\x7f" else char


def _unquote(text: str) -> str:
    head, *parts = text.encode("utf-8", "surrogateescape").split(b"%")
    try:
        raw = head + b"".join(bytes([int(part[:2], 16)]) + part[2:] for part in parts)
    except ValueError:  # nothing that `_quote` wrote
        return text
    return raw.decode("utf-8", "surrogateescape")


# -- The record of checkpoints that were made in this repository, by whoever may read it

_NAME = "made-here"
_LARGEST_made_here = 1 << 20  # in bytes; beyond, lines of checkpoints that are gone are let go


def note(common_dir: str, checkpoint_id: str, commit: str) -> tuple[str, ...]:
    """Remember that a checkpoint was made here; not being able to is no failure.

    Returns the files that have to be flushed.
    """
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
    """Whether the commit under an id was made here; False if nobody can tell any more."""
    return _line(checkpoint_id, commit) in _read(common_dir)


def is_same(common_dir: str, checkpoint_id: str, commit: str, known: str | None) -> bool:
    """Whether the commit under an id is the one that is known of it. To pin a checkpoint makes
    another commit, which was made here too; of some, nobody noted any."""
    return known in (None, commit) or holds(common_dir, checkpoint_id, commit)


def commits_of(common_dir: str, checkpoint_id: str) -> list[str]:
    """The commits that an id had, newest first: to pin a checkpoint makes another one."""
    mark = _line(checkpoint_id, "").strip(b"\n")
    lines = reversed(_read(common_dir).splitlines())
    return [line.rpartition(mark)[2].decode("ascii", "replace") for line in lines if mark in line]


class Record:
    """The record as it is when the first question is asked: of a thousand, it is read once."""

    __slots__ = ("_common_dir", "_data", "_lines")

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir
        self._data: bytes | None = None
        self._lines: frozenset[bytes] | None = None

    def lacks(self, checkpoint_id: str, commit: str) -> bool:
        """What `holds` denies."""
        line = _line(checkpoint_id, commit)
        if self._data is None:  # a save asks of one, for which no lines need be made
            self._data = _read(self._common_dir)
            return line not in self._data
        if self._lines is None:
            self._lines = frozenset(self._data.splitlines(keepends=True))
        return line not in self._lines and line not in self._data


def tidy(common_dir: str, existing: Callable[[], Container[str]]) -> None:
    """Let go of all but the ids that exist, if the record has become long.

    What another process notes at that moment may go with them.
    """
    path = _path(common_dir)
    try:
        if os.stat(path).st_size <= _LARGEST_made_here:
            return
        ids = existing()
        lines = _read(common_dir).splitlines(keepends=True)
        kept = [line for line in lines if line.partition(b" ")[0].decode("ascii", "replace") in ids]
        disk.replace(path, b"".join(kept))
    except OSError:
        pass


def _path(common_dir: str) -> str:
    return os.path.join(common_dir, "ckpt", _NAME)


def _line(checkpoint_id: str, commit: str) -> bytes:
    return f"{checkpoint_id} {commit}\n".encode("utf-8", "surrogateescape")


def _read(common_dir: str) -> bytes:
    try:
        return disk.read_private(_path(common_dir))
    except OSError:
        return b""


# -- Agent state in the state tree: a blob for each part of it, below `state/`

STATE = b"state"
FILES = b"files"
_FILE_LIST = b"files.json"
_TRACKED = b"tracked/"
_JSON = b".json"
_OF_OLD = b"state.json"
_MOST_BYTES = 1 << 28
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

Texts = dict[bytes, bytes]  # by the path below `state/`


@dataclass(frozen=True, slots=True)
class StateFile:
    """A state file as it was: None for an entry means that nothing was there."""

    entry: TreeEntry | None
    permissions: int


@dataclass(frozen=True, slots=True)
class AgentState:
    """What a checkpoint holds besides files; `tracked` are the states of objects by name."""

    data: Any = None
    metadata: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    features: FeatureState | None = None
    tracked: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[bytes, StateFile] = field(default_factory=dict)


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
        parts["features"] = {
            "completed": list(features.completed),
            "current": features.current,
            "snapshot_path": features.snapshot_path,
        }
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
    objects: ObjectStore, texts: Texts, files: Mapping[bytes, StateFile]
) -> dict[bytes, TreeEntry]:
    """The entries of the state tree that hold all this."""
    contents = dict(texts)
    if files:
        contents[_FILE_LIST] = _dump_files(files)
    allowance = _Allowance()
    for path, text in contents.items():
        try:
            allowance.take(text)
        except ValueError as error:
            raise UsageError(
                f"'{to_str(path)}' is too much state: {error}",
                hint="keep large data in files, and name them as state files",
            ) from None
    entries = {
        STATE + b"/" + path: TreeEntry(REGULAR, objects.add(b"blob", text))
        for path, text in contents.items()
    }
    for path, file in files.items():
        if file.entry is not None:
            entries[b"/".join((STATE, FILES, path))] = file.entry
    return entries


class _Allowance:
    """How much all parts of a state may be together: as much as can be read again. One blob may
    be several of them."""

    def __init__(self) -> None:
        self._bytes = _MOST_BYTES

    def take(self, text: bytes) -> bytes:
        """The text, unless it is too much; then ValueError."""
        if len(text) > LARGEST_STATE:
            raise ValueError(f"{len(text):,} bytes, more than {LARGEST_STATE:,}")
        self._bytes -= len(text)
        if self._bytes < 0:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes together")
        return text


def read(objects: ObjectStore, state_tree: ObjectID) -> AgentState:
    """What `write` was given; ValueError, or what its kind is, if that cannot be told."""
    top = lookup(objects, state_tree, STATE)
    if top is None:
        return AgentState()
    parts = {name: TreeEntry(mode, child) for name, mode, child in read_tree(objects, top.id)}
    from ckpt import state

    take = _Allowance().take
    if _OF_OLD in parts:
        found = jsontext.load(take(read_limited(objects, parts[_OF_OLD].id)))
    else:
        names = ("data", "metadata", "context", "features")
        entries = {name: parts.get(name.encode() + _JSON) for name in names}
        found = {
            name: state.load(take(read_limited(objects, entry.id)))
            for name, entry in entries.items()
            if entry is not None
        }
    return AgentState(
        data=found.get("data"),
        metadata=_mapping(found.get("metadata")),
        context=_mapping(found.get("context")),
        features=_features(found.get("features")),
        tracked=_read_tracked(objects, parts.get(_TRACKED[:-1]), take),
        files=_files(objects, top.id, parts.get(_FILE_LIST)),
    )


def _mapping(value: Any) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata or context is no object")
    return value


def _features(document: Any) -> FeatureState | None:
    if document is None:
        return None
    from ckpt.jsontext import text_or_none

    completed = tuple(document.get("completed") or ())
    if not all(isinstance(name, str) for name in completed):
        raise ValueError("the name of a feature is no text")
    return FeatureState(
        current=text_or_none(document.get("current")),
        completed=completed,
        snapshot_path=text_or_none(document.get("snapshot_path")),
    )


def _read_tracked(
    objects: ObjectStore, folder: TreeEntry | None, take: Callable[[bytes], bytes]
) -> dict[str, Any]:
    if folder is None:
        return {}
    from ckpt import state

    return {
        _unquoted(name.removesuffix(_JSON)): state.load(take(read_limited(objects, child)))
        for name, _, child in read_tree(objects, folder.id)
    }


def _dump_files(files: Mapping[bytes, StateFile]) -> bytes:
    listed = [
        to_json(path) | {"permissions": None if file.entry is None else file.permissions}
        for path, file in sorted(files.items())
    ]
    return jsontext.dump({"files": listed})


def read_files(objects: ObjectStore, state_tree: ObjectID) -> dict[bytes, StateFile]:
    """The state files alone; ValueError as above."""
    top = lookup(objects, state_tree, STATE)
    return {} if top is None else _files(objects, top.id, lookup(objects, top.id, _FILE_LIST))


def _files(objects: ObjectStore, top: ObjectID, listed: TreeEntry | None) -> dict[bytes, StateFile]:
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
        entry = lookup(objects, top, FILES + b"/" + path)
        if entry is None or entry.mode == FOLDER:
            raise ValueError(f"state file '{to_str(path)}' is missing")
        if not isinstance(permissions, int):
            raise ValueError(f"state file '{to_str(path)}' has no permission bits")
        found[path] = StateFile(entry, permissions & 0o777)
    return found


def _quoted(name: str) -> bytes:
    """A name as one that every tree may hold."""
    return "".join(
        char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode("utf-8"))
        for char in name
    ).encode("ascii")


def is_quoted(name: str) -> bool:
    """Whether an object's name can be read from this one."""
    try:
        return _quoted(_unquoted(name.encode("ascii"))).decode() == name
    except ValueError:
        return False


def _unquoted(name: bytes) -> str:
    first, *others = name.split(b"%")
    raw = first + b"".join(bytes([int(part[:2], 16)]) + part[2:] for part in others)
    return raw.decode("utf-8")
