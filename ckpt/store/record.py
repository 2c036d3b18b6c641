# SPDX-License-Identifier: MIT
"""A checkpoint as commits: what is written, and how it is read back.

The checkpoint's commit has the worktree as its tree, HEAD's commit as first parent and
the state commit as last one. Its subject is the name (or the id, which no name can
look like), its body the description, its last paragraph the trailers that `list`
needs. Everything longer is in blobs of the state tree.

Format 1. A commit of a newer format is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ckpt import ids, jsontext
from ckpt.errors import CkptError, Refused
from ckpt.models import Checkpoint, Kind, Scope, Stats
from ckpt.patterns import lazy_pattern
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.refs import IDENTITY
from ckpt.store.trees import lookup, read_limited
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ckpt.models import Details

FORMAT = 1
MANIFEST = b"manifest.json"
INDEX = b"index"
_HEX = b"0123456789abcdefABCDEF"  # git takes both
# Those that people have and that are quick to read; ASCII is the same in all of them.
_ENCODING = lazy_pattern(
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


@value_class
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
        from ckpt.store.details import read_details

        return read_details(self._objects, self)

    def dirty_files(self) -> tuple[str, ...]:
        from ckpt.store.details import read_dirty_files

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
