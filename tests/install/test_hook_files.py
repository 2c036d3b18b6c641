# SPDX-License-Identifier: MIT
"""A hook's file: whatever it was, it comes back, and no kill leaves it not run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import tree_state
from hypothesis import example, given
from hypothesis import strategies as st
from seam import observe

from ckpt import disk
from ckpt.install import hooks
from ckpt.install.hooks import has_block
from ckpt.install.record import Record

EVENT = "pre-commit"
FIRST = [b"#!/bin/sh\n", b"#!/bin/sh", b"#!/usr/bin/env python3\n", b"#!/bin/bash -e\n\n", b""]
MODES = [0o755, 0o700, 0o775, 0o644, 0o555]


class Killed(BaseException):
    pass


def private(path: Path) -> str:
    return str(path.parent.with_name(f"{path.parent.name} private"))


def put_in(path: Path) -> str:
    return hooks.put_in(str(path), EVENT, "/opt/python", private(path)).action


def take_out(path: Path) -> None:
    hooks.take_out(str(path), EVENT, private(path))


def make(path: Path, kind: str) -> None:
    if kind == "link":
        path.symlink_to("nowhere")
    elif kind != "none":
        path.write_bytes({"shell": b"#!/bin/sh\nexit 3\n", "python": b"#!/bin/python\n"}[kind])
        path.chmod(0o755)


@example(first=FIRST[0], rest=b"# Made by 'git ckpt install'.\n", mode=0o755)
@given(first=st.sampled_from(FIRST), rest=st.binary(), mode=st.sampled_from(MODES))
def test_any_file_comes_back_with_its_bytes_and_bits(
    tmp_path_factory: pytest.TempPathFactory, first: bytes, rest: bytes, mode: int
) -> None:
    folder = tmp_path_factory.mktemp("hooks")
    (folder / EVENT).write_bytes(first + rest)
    (folder / EVENT).chmod(mode)
    before = tree_state(folder)

    assert put_in(folder / EVENT) == "added"
    installed = tree_state(folder)
    assert put_in(folder / EVENT) == "kept"
    assert tree_state(folder) == installed
    take_out(folder / EVENT)
    assert tree_state(folder) == before


@pytest.mark.parametrize("kind", ["none", "shell", "python", "link"])
@pytest.mark.parametrize("act", [put_in, take_out])
def test_a_kill_at_any_step_loses_no_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, act: Callable[[Path], object]
) -> None:
    step = 0
    while True:
        folder = tmp_path / str(step)
        folder.mkdir()
        make(folder / EVENT, kind)
        before = tree_state(folder)
        if act is take_out:
            put_in(folder / EVENT)
        finished = not killed_at(step, lambda path=folder / EVENT: act(path), monkeypatch)
        check_still_run(folder, before)
        put_in(folder / EVENT)
        assert has_block((folder / EVENT).read_bytes())
        take_out(folder / EVENT)
        assert tree_state(folder) == before
        if finished:
            break
        step += 1
    assert step > 0


def killed_at(step: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    left = [step]

    def count(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    observe(count)
    try:
        act()
    except Killed:
        return True
    finally:
        observe(None)
    return False


def check_still_run(folder: Path, before: dict[bytes, tuple[str, int, bytes]]) -> None:
    """What was there is under its name, or ours is, and runs it."""
    if not before:
        return
    [there] = before.values()
    now = tree_state(folder)
    wrapped = now.get(EVENT.encode() + b".ckpt-wrapped")
    mine = now[EVENT.encode()]
    assert mine == there or wrapped == there or has_block((folder / EVENT).read_bytes())


def test_a_line_that_somebody_has_added_counts(tmp_path: Path) -> None:
    (tmp_path / EVENT).write_bytes(b"#!/bin/sh\ngit ckpt hook pre-commit\n")
    (tmp_path / EVENT).chmod(0o755)
    before = tree_state(tmp_path)

    assert put_in(tmp_path / EVENT) == "kept"
    assert tree_state(tmp_path) == before


def test_a_record_goes_with_its_last_note_and_takes_its_folders_along(tmp_path: Path) -> None:
    record = Record(str(tmp_path / "a/share/ckpt/installed.json"))
    record.put("a", "x", [1, "two"])
    record.put("b", "y", True)

    again = Record(record.path)
    assert (again.get("a"), again.get("b"), again.get("c")) == ({"x": [1, "two"]}, {"y": True}, {})
    assert os.stat(record.path).st_mode & 0o777 == 0o600
    again.put("a", "x", None)
    again.put("b", "y", None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 2, "parts": {"a": {}}}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, damage: bytes) -> None:
    record = Record(str(tmp_path / "installed.json"))
    disk.replace(record.path, damage)

    assert record.get("a") == {}
    record.put("a", "x", 1)
    assert record.get("a") == {"x": 1}
