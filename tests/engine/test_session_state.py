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
    every_session,
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
    assert state.turn == 0
    assert [state.new_turn(), SessionState(folder, "session").new_turn()] == [1, 2]

    assert state.turn == 2


def test_one_alone_claims_a_turn_and_the_next_turn_is_free(state: SessionState) -> None:
    assert [state.claim(), state.claim()] == [True, False]
    state.new_turn()

    assert not state.is_claimed
    assert [state.claim(), state.claim()] == [True, False]


def test_a_claim_that_came_to_nothing_is_given_back(state: SessionState) -> None:
    state.new_turn()
    state.claim()
    state.unclaim()

    assert state.claim()
    assert state.turn == 1


def test_of_many_processes_one_claims(folder: str) -> None:
    code = (
        "import sys; from ckpt.engine.sessions import SessionState as S\n"
        "sys.stdin.read(1); s = S(sys.argv[1], 's'); print(s.claim())\n"
        "[s.record(b'%d' % n, __import__('ckpt').engine.sessions.NO_FILE) for n in range(20)]"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(6)
    ]
    answers = [process.communicate(b"x")[0] for process in started]

    assert [process.returncode for process in started] == [0] * 6
    assert sorted(answers) == [b"False\n"] * 5 + [b"True\n"]
    assert len(SessionState(folder, "s").writes()) == 20


def test_a_second_save_waits_and_gives_up(state: SessionState, folder: str) -> None:
    with state.saving(0), pytest.raises(Busy), SessionState(folder, "session").saving(0):
        pass
    with state.saving(0):
        assert state.claim(), "turns can be counted meanwhile"


def test_sessions_know_nothing_of_each_other(state: SessionState, folder: str) -> None:
    state.new_turn()
    state.claim()
    state.record(b"a", ONE)

    other = SessionState(folder, "other")
    assert (other.turn, other.is_claimed, other.writes()) == (0, False, {})


@pytest.mark.parametrize("name", ["../../../escaped", "/etc/passwd", "", "é\udcff\0", "x" * 5000])
def test_a_session_of_any_name_stays_in_its_folder(folder: str, name: str) -> None:
    state = SessionState(folder, name)
    state.new_turn()

    assert os.path.dirname(state.folder) == os.path.join(folder, "sessions")
    assert [state.folder] == [found.folder for found in every_session(folder)]


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
    assert expected == SessionState(folder, "session").writes()


def test_what_was_not_there_before_the_first_write_was_created(state: SessionState) -> None:
    state.foresee(b"new", is_there=False)
    state.foresee(b"old", is_there=True)
    for path in (b"new", b"old", b"new", b"old"):
        state.record(path, ONE)
        state.foresee(path, is_there=True)
    state.record(b"told", ONE, existed=False)

    created = {path: write.created for path, write in state.writes().items()}
    assert created == {b"new": True, b"old": False, b"told": True}


def test_a_write_that_never_came_is_none(state: SessionState) -> None:
    state.foresee(b"a", is_there=False)
    assert state.writes() == {}

    state.foresee(b"a", is_there=True)  # a person has made it in the meantime
    state.record(b"a", ONE)
    assert state.writes()[b"a"].created is False


def test_who_makes_anew_what_the_agent_removed_owns_it(state: SessionState) -> None:
    state.record(b"a", ONE, existed=False)
    state.record(b"a", NO_FILE)
    state.foresee(b"a", is_there=True)
    state.record(b"a", TWO)
    state.record(b"theirs", NO_FILE, existed=True)
    state.record(b"theirs", ONE, existed=False)

    assert {p: w.created for p, w in state.writes().items()} == {b"a": False, b"theirs": False}


def test_what_a_rollback_brought_back_is_the_agents_again(
    state: SessionState, tmp_path: Path
) -> None:
    for name in ("mine", "path"):
        for text in ("one", "two"):
            (tmp_path / name).write_text(text)
            state.record(name.encode(), look(tmp_path / name))
    (tmp_path / "path").write_text("one")
    (tmp_path / "mine").write_text("three")
    state.went_back(str(tmp_path), [b"path", b"mine", b"unknown"])

    writes = state.writes()
    assert writes[b"path"].content == look(tmp_path / "path")
    assert writes[b"mine"].content != look(tmp_path / "mine")
    assert b"unknown" not in writes


@pytest.mark.parametrize("tail", [b"wrote 0 1111", b"\0\0junk\0wrote x y z p\0", b"\xff" * 99])
def test_a_damaged_record_takes_no_other_with_it(state: SessionState, tail: bytes) -> None:
    state.record(b"a", ONE)
    with open(os.path.join(state.folder, "writes"), "ab") as file:
        file.write(tail)
    state.record(b"b", TWO)

    assert {b"a": Write(ONE, None, 0), b"b": Write(TWO, None, 0)} == state.writes()


@pytest.mark.parametrize("junk", [b"", b"\xff\0", b"-5 claimed", b"1" * 5000, b"x y", b"7"])
def test_a_damaged_turn_counts_as_none(state: SessionState, junk: bytes) -> None:
    state.new_turn()
    (Path(state.folder) / "turn").write_bytes(junk)

    assert (state.turn, state.is_claimed) == (0, False)
    assert state.new_turn() == 1
    assert state.claim()


def test_what_others_could_have_written_is_not_believed(state: SessionState) -> None:
    state.new_turn()
    state.record(b"a", ONE)
    for name in ("turn", "writes"):
        (Path(state.folder) / name).chmod(0o666)

    assert (state.turn, state.writes()) == (0, {})


def test_a_ledger_that_is_not_believed_is_not_written_over(state: SessionState) -> None:
    for path in (b"a", b"b"):
        state.record(path, ONE)
    ledger = Path(state.folder) / "writes"
    ledger.chmod(0o666)
    state.record(b"c", TWO)

    assert state.writes() == {}
    ledger.chmod(0o600)
    assert {p: w.content for p, w in state.writes().items()} == {b"a": ONE, b"b": ONE, b"c": TWO}


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


def test_a_session_is_forgotten_whole_and_can_begin_again(state: SessionState, folder: str) -> None:
    state.new_turn()
    state.record(b"a", ONE)
    with state.saving(0):
        state.forget()

    assert (state.turn, state.writes(), state.last_used) == (0, {}, 0.0)
    assert list(every_session(folder)) == []
    assert state.new_turn() == 1


def test_sessions_that_nobody_uses_any_more_go(state: SessionState, folder: str) -> None:
    state.new_turn()
    old = SessionState(folder, "old")
    old.record(b"a", ONE)
    for name in os.listdir(old.folder):
        os.utime(os.path.join(old.folder, name), (1, 1))
    forget_old(folder)

    assert [state.folder] == [found.folder for found in every_session(folder)]
    forget_old(folder, now=state.last_used + 40 * 86400)
    assert list(every_session(folder)) == []


def test_files_are_private(state: SessionState) -> None:
    state.record(b"a", ONE)

    assert os.stat(state.folder).st_mode & 0o777 == 0o700
    for name in os.listdir(state.folder):
        assert os.stat(os.path.join(state.folder, name)).st_mode & 0o777 == 0o600
