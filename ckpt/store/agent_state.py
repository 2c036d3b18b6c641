# SPDX-License-Identifier: MIT
"""Agent state in the state tree: a blob for each part of it, below `state/`.

`data.json`, `metadata.json`, `context.json`, `features.json`, one blob for every tracked
object below `tracked/`, and the state files as they were on disk below `files/`, with
their permission bits in `files.json`. Parts that are equal in two checkpoints are one blob. A
checkpoint from before there were parts has them in `state.json`, as plain JSON.
"""

from __future__ import annotations

from ckpt import jsontext
from ckpt.errors import UsageError
from ckpt.models import FeatureState
from ckpt.paths import from_json, to_json, to_str
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.trees import (
    FOLDER,
    LARGEST_STATE,
    REGULAR,
    TreeEntry,
    check_name,
    lookup,
    read_limited,
    read_tree,
)
from ckpt.values import field, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

STATE = b"state"
FILES = b"files"
_FILE_LIST = b"files.json"
_TRACKED = b"tracked/"
_JSON = b".json"
_OF_OLD = b"state.json"
MOST_VALUES = 2_000_000  # in all parts together
_MOST_BYTES = 1 << 28
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

Texts = dict[bytes, bytes]  # by the path below `state/`


@value_class
class StateFile:
    """A state file as it was: None for an entry means that nothing was there."""

    entry: TreeEntry | None
    permissions: int


@value_class
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
        self._bytes, self._values = _MOST_BYTES, MOST_VALUES

    def take(self, text: bytes) -> bytes:
        """The text, unless it is too much; then ValueError."""
        if len(text) > LARGEST_STATE:
            raise ValueError(f"{len(text):,} bytes, more than {LARGEST_STATE:,}")
        self._bytes -= len(text)
        if self._bytes < 0:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes together")
        self._values -= jsontext.count(text, self._values)
        if self._values < 0:
            raise ValueError(f"more than {MOST_VALUES:,} values together")
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
