# SPDX-License-Identifier: MIT
"""A journal comes back whole or not at all, and so does the memory behind undo."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from byhand import files_below
from hypothesis import given, settings
from hypothesis import strategies as st
from seam import failing, observed

from ckpt import disk
from ckpt.engine import journal
from ckpt.engine.changes import Action, FileState, HeadMove, Origin
from ckpt.engine.journal import Journal, LastRollback, WorktreePlace
from ckpt.errors import Refused
from ckpt.git.formats import ObjectID
from ckpt.git.refs import Head
from ckpt.git.trees import EXECUTABLE, REGULAR, SYMLINK, TreeEntry

ONE, TWO = ObjectID(b"1" * 40), ObjectID(b"2" * 64)
WRITTEN = Action(b"a", None, FileState(TreeEntry(REGULAR, ONE), 0o640))
REMOVED = Action(b"caf\xe9", FileState(TreeEntry(SYMLINK, TWO), 0), None)
CHANGED = Action(b"deep/b", WRITTEN.after, FileState(TreeEntry(EXECUTABLE, ONE), 0o755))
MOVE = HeadMove(Head(b"refs/heads/caf\xe9", ONE), Head(None, TWO), None)
FULL = Journal(
    target="20261115-233412-123-k7pq",
    safety="20261115-233413-456-abcd",
    paths=(b"a", b"\xff"),
    actions=(WRITTEN, REMOVED, CHANGED),
    make_folders=(b"new", b"\xfe"),
    remove_folders=(b"old",),
    index=False,
    unstaged={b"\xff": "ignored"},
    head=MOVE,
    asked_index=False,
    asked_head=True,
    family="0123456789abcdef",
    worktree=WorktreePlace(b"../caf\xe9", 1, 2),
)
BARE = Journal("target", "safety", (), ())
LAST = LastRollback(
    *("target", "safety", (b"\xff",)),
    index=False,
    head=True,
    target_commit="1" * 40,
    safety_commit="2" * 40,
    worktree=WorktreePlace(b"../caf\xe9", 1, 2),
)


@pytest.fixture
def private(tmp_path: Path) -> str:
    return str(tmp_path / "ckpt")


def flip(data: bytes, position: int, bits: int) -> bytes:
    return data[:position] + bytes([data[position] ^ bits]) + data[position + 1 :]


@pytest.mark.parametrize(
    "before", [FULL, BARE, replace(FULL, head=replace(MOVE, after=Head(None, None)))]
)
def test_a_journal_comes_back(before: Journal, private: str) -> None:
    journal.write(private, before)

    assert journal.exists(private)
    assert journal.read(private) == before


@pytest.mark.parametrize("origin", [None, Origin(TWO, True), Origin(TWO, False)])
def test_a_journal_says_where_converted_bytes_come_from(
    origin: Origin | None, private: str
) -> None:
    state = FileState(TreeEntry(REGULAR, ONE), 0o644, origin)
    journal.write(private, replace(BARE, actions=(Action(b"a", None, state),)))
    (found,) = journal.read(private).actions

    assert found.after is not None
    assert found.after.origin == origin
    assert found.after.git_entry == TreeEntry(REGULAR, ONE if origin is None else TWO)


def test_states_with_the_same_bytes_are_the_same_wherever_these_come_from() -> None:
    entry = TreeEntry(REGULAR, ONE)

    assert FileState(entry, 0o644, Origin(TWO, "ident")) == FileState(entry, 0o644)


states = st.none() | st.builds(
    FileState,
    st.builds(TreeEntry, st.sampled_from([REGULAR, EXECUTABLE, SYMLINK]), st.just(ONE)),
    st.integers(0, 0o777),
)
paths = st.lists(st.binary(max_size=5), max_size=3).map(tuple)


@given(
    actions=st.lists(st.builds(Action, st.binary(max_size=5), states, states)).map(tuple),
    limits=paths,
    make=paths,
    remove=paths,
)
@settings(max_examples=25)
def test_paths_of_any_bytes_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    actions: tuple[Action, ...],
    limits: tuple[bytes, ...],
    make: tuple[bytes, ...],
    remove: tuple[bytes, ...],
) -> None:
    private = str(tmp_path_factory.mktemp("private"))
    before = Journal("t", "s", limits, actions, make, remove)
    journal.write(private, before)

    assert journal.read(private) == before


def test_a_journal_is_durable_and_private(private: str) -> None:
    with observed() as seen:
        journal.write(private, FULL)

    operations = [operation for operation, _ in seen]
    assert operations[-5:] == ["create", "write", "fsync", "rename", "fsync-dir"]
    assert Path(private, "journal").stat().st_mode & 0o777 == 0o600
    assert Path(private).stat().st_mode & 0o777 == 0o700


def test_a_journal_that_cannot_be_written_is_none(private: str) -> None:
    journal.remember(private, LAST)
    for operation in ("create", "write", "fsync", "rename"):
        with failing(operation), pytest.raises(OSError):
            journal.write(private, FULL)

        assert not journal.exists(private)
        assert files_below(Path(private)) == ["last-rollback"]


def test_a_journal_is_removed_durably(private: str) -> None:
    journal.write(private, FULL)
    with observed() as seen:
        journal.remove(private)
        journal.remove(private)

    assert not journal.exists(private)
    assert [operation for operation, _ in seen] == ["unlink", "fsync-dir", "unlink"]


def test_without_a_journal_no_rollback_was_interrupted(private: str) -> None:
    assert not journal.exists(private)
    with pytest.raises(Refused, match="no rollback was interrupted"):
        journal.read(private)


# Damage


def test_every_damaged_byte_is_noticed(private: str) -> None:
    journal.write(private, replace(BARE, actions=(REMOVED,)))
    path = Path(private, "journal")
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(flip(data, position, 1 << position % 8))
        with pytest.raises(Refused, match="is damaged"):
            journal.read(private)


def test_half_a_journal_is_noticed(private: str) -> None:
    journal.write(private, FULL)
    path = Path(private, "journal")
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(Refused, match="is damaged"):
            journal.read(private)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    private = tmp_path_factory.mktemp("private")
    (private / "journal").write_bytes(data)
    (private / "last-rollback").write_bytes(data)

    with pytest.raises(Refused, match="is damaged"):
        journal.read(str(private))
    assert journal.last_rollback(str(private)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"format": None},
        {"actions": None},
        {"actions": [7]},
        {"actions": [{"path": "a", "before": None}]},
        {"actions": [{"path": "a", "before": ["100644"], "after": None}]},
        {"actions": [{"path": "a", "before": ["x", "y", "z"], "after": None}]},
        {"actions": [{"path": "a", "before": ["100644", 7, "0644"], "after": None}]},
        {"paths": [{}]},
        {"make_folders": 7},
        {"head": {}},
        {"head": {"before": 7, "after": None, "branch_before": None}},
        {"worktree": {"path": ".."}},
        {"family": True},
        {"edits": [1]},
        {"edits_commit": {}},
        {"target_commit": 7},
        {"safety_commit": []},
    ],
)
def test_a_journal_of_another_shape_is_refused(change: dict[str, object], private: str) -> None:
    """With a checksum that is right."""
    journal.write(private, FULL)
    document = journal._fetch(private, "journal")
    journal._store(private, "journal", document | change)

    with pytest.raises(Refused, match="is damaged"):
        journal.read(private)


def test_a_journal_of_a_newer_format_is_not_called_damaged(private: str) -> None:
    journal.write(private, FULL)
    document = journal._fetch(private, "journal")
    journal._store(private, "journal", document | {"format": journal.FORMAT + 1})

    with pytest.raises(journal.NewerJournal, match="newer than this ckpt"):
        journal.read(private)


@pytest.mark.parametrize("key", ["format", "target", "safety", "paths", "actions", "index", "head"])
def test_a_journal_that_lacks_a_part_is_refused(key: str, private: str) -> None:
    journal.write(private, FULL)
    document = journal._fetch(private, "journal")
    del document[key]
    journal._store(private, "journal", document)

    with pytest.raises(Refused, match="is damaged"):
        journal.read(private)


def test_what_an_older_ckpt_did_not_note_is_not_missed(private: str) -> None:
    journal.write(private, FULL)
    journal.remember(private, LAST)
    for name in ("journal", "last-rollback"):
        document = journal._fetch(private, name)
        del document["worktree"]
        journal._store(private, name, document)

    assert journal.read(private) == replace(FULL, worktree=None)
    assert journal.last_rollback(private) == replace(LAST, worktree=None)


OTHERS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("journal.real"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_file_is_refused_without_waiting_for_it(kind: str, private: str) -> None:
    journal.write(private, FULL)
    Path(private, "journal").rename(Path(private, "journal.real"))
    for name in ("journal", "last-rollback"):
        OTHERS[kind](Path(private, name))

    with pytest.raises(Refused, match="is damaged"):
        journal.read(private)
    assert journal.last_rollback(private) is None


def test_a_folder_in_the_place_of_the_memory_is_noticed_at_the_start(private: str) -> None:
    journal.check_memory(private)
    journal.remember(private, LAST)
    journal.check_memory(private)
    Path(private, "last-rollback").unlink()
    Path(private, "last-rollback").mkdir()

    with pytest.raises(Refused, match="last-rollback' is a folder"):
        journal.check_memory(private)


def test_the_hint_says_how_to_get_out(private: str) -> None:
    journal.write(private, FULL)
    Path(private, "journal").write_bytes(b"garbage")

    with pytest.raises(Refused) as caught:
        journal.read(private)
    assert "git ckpt list --kind safety" in (caught.value.hint or "")
    assert "'git ckpt doctor'" in (caught.value.hint or "")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_other_users_could_have_written_is_refused_until_it_is_closed(
    mode: int, private: str
) -> None:
    journal.write(private, FULL)
    journal.remember(private, LAST)
    for name, read in (("journal", journal.read), ("last-rollback", journal.last_rollback)):
        path = os.path.join(private, name)
        os.chmod(path, mode)
        with pytest.raises(journal.Doubtful, match="other users could have written") as caught:
            read(private)
        assert (caught.value.hint or "").endswith(f": chmod 600 {path}")
        os.chmod(path, 0o600)
        assert read(private) in (FULL, LAST)
    assert files_below(Path(private)) == ["journal", "last-rollback"]


def test_what_others_could_only_read_is_believed(private: str) -> None:
    journal.write(private, FULL)
    os.chmod(os.path.join(private, "journal"), 0o644)

    assert journal.read(private) == FULL


def test_so_is_a_journal_on_a_file_system_that_has_no_bits_of_files(
    private: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(private, FULL)
    os.chmod(os.path.join(private, "journal"), 0o666)
    create = disk.create

    def with_all_bits(path: disk.Path, mode: int = 0, *, dir_fd: int | None = None) -> int:
        fd = create(path, 0o600, dir_fd=dir_fd)
        os.fchmod(fd, 0o777)
        return fd

    monkeypatch.setattr(disk, "create", with_all_bits)
    assert journal.read(private) == FULL
    assert files_below(Path(private)) == ["journal"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_what_belongs_to_another_user_is_refused_and_that_of_the_git_dirs_owner_is_not(
    private: str,
) -> None:
    journal.write(private, FULL)
    path, git_dir = os.path.join(private, "journal"), os.path.dirname(private)
    os.chown(path, 65534, 65534)
    with pytest.raises(journal.Doubtful, match=f"'{path}' belongs to ") as caught:
        journal.read(private)
    assert f": sudo chown root {path} && chmod 600 {path}" in (caught.value.hint or "")
    os.chown(git_dir, 65534, 65534)
    try:
        assert journal.read(private) == FULL
    finally:
        os.chown(git_dir, 0, 0)


def test_a_document_nested_without_end_is_refused(private: str) -> None:
    data = b"[" * 100_000
    Path(private).mkdir()
    Path(private, "journal").write_bytes(journal._checksum(data) + b"\n" + data)

    with pytest.raises(Refused, match="is damaged"):
        journal.read(private)


# What undo remembers


@pytest.mark.parametrize("before", [LAST, LastRollback("a", "b")])
def test_the_last_rollback_is_remembered(before: LastRollback, private: str) -> None:
    assert journal.last_rollback(private) is None
    journal.remember(private, before)

    assert journal.last_rollback(private) == before


def test_a_memory_of_an_older_ckpt_has_no_commits(private: str) -> None:
    journal.remember(private, LAST)
    document = journal._fetch(private, "last-rollback")
    del document["target_commit"], document["safety_commit"]
    journal._store(private, "last-rollback", document)

    known = replace(LAST, target_commit=None, safety_commit=None)
    assert journal.last_rollback(private) == known


def test_a_damaged_memory_is_none(private: str) -> None:
    journal.remember(private, LAST)
    path = Path(private, "last-rollback")
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(flip(data, position, 1 << position % 8))
        assert journal.last_rollback(private) is None


def test_a_rollback_that_is_taken_back_leaves_the_memory_as_it_was(private: str) -> None:
    journal.remember(private, LAST)
    journal.write(private, FULL)
    journal.remember(private, LastRollback("other", "safety"))
    journal.take_back(private)

    assert journal.last_rollback(private) == LAST
    assert not journal.exists(private)


def test_a_first_rollback_that_is_taken_back_leaves_no_memory(private: str) -> None:
    journal.write(private, FULL)
    journal.remember(private, LAST)
    journal.take_back(private)

    assert files_below(Path(private)) == []


def test_a_damaged_memory_does_not_stop_a_rollback(private: str) -> None:
    Path(private).mkdir()
    Path(private, "last-rollback").write_bytes(b"garbage")
    journal.write(private, FULL)

    assert journal.read(private) == FULL


def test_an_action_is_reversed_end_for_end() -> None:
    assert CHANGED.reversed() == Action(CHANGED.path, CHANGED.after, CHANGED.before)
    assert CHANGED.reversed().reversed() == CHANGED
