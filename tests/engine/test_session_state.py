# SPDX-License-Identifier: MIT
"""Turns and the ledger: what the hooks of one agent session, processes each, know of each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt.engine.sessions import (
    NO_FILE,
    Content,
    SessionState,
    Write,
    forget_old,
    look,
)
from ckpt.errors import Busy

ONE = Content("11" * 32, 0o100644)
TWO = Content("22" * 32, 0o100755)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "git").mkdir()
    return str(tmp_path / "git" / "ckpt")


@pytest.fixture
def state(folder: str) -> SessionState:
    return SessionState(folder, "session")


# -- turns -----------------------------------------------------------------------


def test_turns_are_counted_across_processes(state: SessionState, folder: str) -> None:
    assert state.read().turn == 0
    assert [state.new_turn(), SessionState(folder, "session").new_turn()] == [1, 2]

    assert state.read().turn == 2


def test_a_claimed_turn_stays_claimed_until_the_next(state: SessionState) -> None:
    state.claim(0)
    assert state.read().is_claimed
    state.new_turn()

    assert not state.read().is_claimed
    state.claim(0)  # by a hook that began to save before this turn
    assert not state.read().is_claimed


def test_a_turn_can_need_another_checkpoint(state: SessionState) -> None:
    state.claim(state.new_turn())
    state.unclaim()

    assert (state.read().turn, state.read().is_claimed) == (1, False)


def test_a_turn_that_is_counted_elsewhere_is_followed_once(folder: str) -> None:
    other, here = SessionState(folder, "other"), SessionState(folder, "here")
    for _ in range(2):
        other.new_turn()
        here.follow(other)
        here.claim(here.read().turn)
        here.follow(other)

        assert here.read().is_claimed
    assert here.read().turn == 2


def test_many_processes_write_to_one_ledger(folder: str) -> None:
    code = (
        "import sys; from ckpt.engine.sessions import NO_FILE, SessionState as S\n"
        "sys.stdin.read(1); s = S(sys.argv[1], 's'); s.claim(0)\n"
        "[s.record(b'%s %d' % (sys.argv[2].encode(), n), NO_FILE) for n in range(20)]"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, folder, str(n)], stdin=subprocess.PIPE)
        for n in range(6)
    ]
    for process in started:
        process.communicate(b"x")

    assert [process.returncode for process in started] == [0] * 6
    state = SessionState(folder, "s")
    assert (state.read().is_claimed, len(state.read().writes)) == (True, 120)


def test_a_second_save_waits_and_gives_up(state: SessionState, folder: str) -> None:
    with state.saving(0), pytest.raises(Busy), SessionState(folder, "session").saving(0):
        pass
    with state.saving(0):
        state.claim(0)
    assert state.read().is_claimed


def test_sessions_know_nothing_of_each_other(state: SessionState, folder: str) -> None:
    state.new_turn()
    state.claim(1)
    state.record(b"a", ONE)

    other = SessionState(folder, "other")
    assert (other.read().turn, other.read().is_claimed, other.read().writes) == (0, False, {})


@pytest.mark.parametrize("name", ["../../../escaped", "/etc/passwd", "", "é\udcff\0", "x" * 5000])
def test_a_session_of_any_name_stays_in_its_folder(folder: str, name: str) -> None:
    state = SessionState(folder, name)
    state.new_turn()

    assert os.path.dirname(state.path) == os.path.join(folder, "sessions")
    assert os.listdir(os.path.dirname(state.path)) == [os.path.basename(state.path)]


# -- the ledger ------------------------------------------------------------------


def test_the_last_write_of_each_path_is_known(state: SessionState, folder: str) -> None:
    state.record(b"a", ONE)
    state.new_turn()
    state.record(b"caf\xe9 \n x", ONE)
    state.record(b"a", TWO)
    state.record(b"gone", NO_FILE)

    expected = {
        b"a": Write(TWO, None, 1, frozenset({ONE})),
        b"caf\xe9 \n x": Write(ONE, None, 1),
        b"gone": Write(NO_FILE, None, 1),
    }
    assert expected == SessionState(folder, "session").read().writes


def test_what_was_not_there_before_the_first_write_was_created(state: SessionState) -> None:
    state.foresee(b"new", is_there=False)
    state.foresee(b"old", is_there=True)
    for path in (b"new", b"old", b"new", b"old"):
        state.record(path, ONE)
        state.foresee(path, is_there=True)
    state.record(b"told", ONE, existed=False)

    created = {path: write.created for path, write in state.read().writes.items()}
    assert created == {b"new": True, b"old": False, b"told": True}


def test_a_write_that_never_came_is_none(state: SessionState) -> None:
    state.foresee(b"a", is_there=False)
    assert state.read().writes == {}

    state.foresee(b"a", is_there=True)  # a person has made it in the meantime
    state.record(b"a", ONE)
    assert state.read().writes[b"a"].created is False


def test_who_makes_anew_what_the_agent_removed_owns_it(state: SessionState) -> None:
    state.record(b"a", ONE, existed=False)
    state.record(b"a", NO_FILE)
    state.foresee(b"a", is_there=True)
    state.record(b"a", TWO)
    state.record(b"theirs", NO_FILE, existed=True)
    state.record(b"theirs", ONE, existed=False)

    assert {p: w.created for p, w in state.read().writes.items()} == {b"a": False, b"theirs": False}


@pytest.mark.parametrize("tail", [b"wrote 0 1111", b"\0\0junk\0wrote x y z p\0", b"\xff" * 99])
def test_a_damaged_record_takes_no_other_with_it(state: SessionState, tail: bytes) -> None:
    state.record(b"a", ONE)
    with open(state.path, "ab") as file:
        file.write(tail)
    state.record(b"b", TWO)

    assert {b"a": Write(ONE, None, 0), b"b": Write(TWO, None, 0)} == state.read().writes


def test_what_others_could_have_written_is_not_believed(state: SessionState) -> None:
    state.new_turn()
    state.record(b"a", ONE)
    os.chmod(state.path, 0o666)

    assert (state.read().turn, state.read().writes) == (0, {})


def test_a_ledger_that_is_not_believed_is_not_written_over(state: SessionState) -> None:
    for path in (b"a", b"b"):
        state.record(path, ONE)
    ledger = Path(state.path)
    ledger.chmod(0o666)
    state.record(b"c", TWO)

    assert state.read().writes == {}
    ledger.chmod(0o600)
    assert {p: w.content for p, w in state.read().writes.items()} == {
        b"a": ONE,
        b"b": ONE,
        b"c": TWO,
    }


# -- what is on disk -------------------------------------------------------------


def test_a_look_tells_content_bits_links_and_nothing(tmp_path: Path) -> None:
    file, link, sub = tmp_path / "f", tmp_path / "l", tmp_path / "d"
    file.write_bytes(b"x")
    file.chmod(0o750)
    link.symlink_to("nowhere")
    sub.mkdir()

    found = look(str(file))
    assert (found.mode & 0o777, found.is_there) == (0o750, True)
    file.write_bytes(b"y")
    assert found != look(os.fsencode(file))
    file.write_bytes(b"x")
    assert found == look(str(file))
    assert look(str(link)).is_there
    assert [look(str(p)) for p in (sub, tmp_path / "none", file / "below")] == [NO_FILE] * 3


def test_sessions_that_nobody_uses_any_more_go(state: SessionState, folder: str) -> None:
    state.new_turn()
    old = SessionState(folder, "old")
    old.record(b"a", ONE)
    os.utime(old.path, (1, 1))
    forget_old(folder)

    assert state.is_known and not old.is_known
    assert old.new_turn() == 1


def test_files_are_private(state: SessionState) -> None:
    state.record(b"a", ONE)

    assert os.stat(os.path.dirname(state.path)).st_mode & 0o777 == 0o700
    assert os.stat(state.path).st_mode & 0o777 == 0o600
