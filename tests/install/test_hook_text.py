# SPDX-License-Identifier: MIT
"""The block in a shell script: where it may go, and that it leaves as it came."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.install import hooks
from ckpt.install.record import ConfigFile, Record

BLOCK = hooks.block("pre-commit", "/opt/a b/python")
SHELL = [
    b"#!/bin/sh\n",
    b"#!/bin/sh",
    b"#! /bin/bash -e\necho hi\n",
    b"#!/usr/bin/env bash\nset -eu\n",
    b"#!/usr/bin/env -S bash -e\nx",
    b"#!/usr/bin/dash -\n\n\n",
    b'#!/bin/sh\n. "$(dirname "$0")/h"',
    b'#!/bin/sh\nexec "$(dirname -- "$0")/real" "$@"\n',
    b'#!/bin/sh\nexec lefthook run "$(basename "$0")" "$@"\n',
]
OTHER = [
    b"",
    b"echo no first line\n",
    b"#!/usr/bin/python3\n",
    b"#!/usr/bin/env python3\n",
    b"#!/bin/sh\r\necho\r\n",
    b"#!/bin/sh -c\n",
    b"#!/bin/bash -r\n",
    b"#!/usr/bin/fish\n",
    b"#!/bin/csh -f\n",
    b"#!/usr/bin/env\n",
    b"#!\n",
    b"\x7fELF\0\0",
    b"#!/bin/sh\ntail -n +3 $0 | gunzip\n\x1f\x8b\0\0",
    b"#!/bin/sh\n'''exec' /long/python \"$0\" \"$@\"\n' '''\nimport sys\n",
    b'#!/bin/sh\n"exec" "python3" "$0" "$@"\n',
    b'#!/bin/bash\nsed -n 2,9p "${BASH_SOURCE[0]}"\n',
]


@pytest.mark.parametrize("text", SHELL)
def test_a_shell_script_takes_a_block(text: bytes) -> None:
    assert hooks.is_shell(text)


@pytest.mark.parametrize("text", OTHER)
def test_what_is_no_plain_shell_script_takes_none(text: bytes) -> None:
    assert not hooks.is_shell(text)


@given(st.binary(), st.sampled_from([b"#!/bin/sh", b"#!/bin/sh\n", b""]))
def test_a_block_leaves_every_byte_as_it_was(rest: bytes, first: bytes) -> None:
    text = first + rest
    edited = hooks.with_block(text, BLOCK)

    assert hooks.has_block(edited)
    assert hooks.without_block(edited) == text


@pytest.mark.parametrize("text", SHELL)
def test_a_second_block_takes_the_place_of_the_first(text: bytes) -> None:
    other = hooks.block("pre-commit", "/other/python")
    edited = hooks.with_block(hooks.with_block(text, BLOCK), other)

    assert edited == hooks.with_block(text, other)


@pytest.mark.parametrize("text", SHELL)
def test_what_a_user_adds_around_the_block_stays(text: bytes) -> None:
    edited = hooks.with_block(text, BLOCK) + b"\necho mine\n"

    assert hooks.without_block(edited).endswith(b"\necho mine\n")
    assert not hooks.has_block(hooks.without_block(edited))


def test_a_script_of_ours_is_told_from_one_that_was_changed() -> None:
    for wraps in (False, True):
        own = hooks.own_script("pre-push", "/p", wraps=wraps)

        assert hooks.is_own(own, "pre-push")
        assert hooks.wraps(own, "pre-push") is wraps
        assert not hooks.is_own(own + b"echo mine\n", "pre-push")
    assert not hooks.is_own(hooks.with_block(b"#!/bin/sh\n", BLOCK), "pre-commit")


def test_a_call_in_a_comment_does_not_count() -> None:
    line = hooks.line_to_add("pre-commit", "/p").encode()

    assert hooks.calls_ckpt(b"#!/bin/sh\n" + line, "pre-commit")
    assert not hooks.calls_ckpt(b"#!/bin/sh\n# " + line, "pre-commit")
    assert not hooks.calls_ckpt(b"#!/bin/sh\n" + line, "pre-push")
    assert hooks.calls_ckpt(b"git ckpt hook pre-push\n", "pre-push")


PATHS = ["/p", "/opt/a b/python", "/it's/p", "/two\nlines", "/\udcff", "/$(touch x)", "/a;b"]


@pytest.mark.parametrize("python", PATHS)
@pytest.mark.parametrize("event", ["pre-commit", "post-checkout"])
def test_our_own_words_are_known_for_any_interpreter(event: str, python: str) -> None:
    own = os.fsencode(hooks.command(event, python, "/another/ckpt/__main__.py"))
    told = os.fsencode(hooks.line_to_add(event, python))
    script = hooks.own_script(event, python, wraps=True)

    assert hooks.is_word_for_word(own, event)
    assert hooks.is_word_for_word(told + b"\n", event)
    assert hooks.is_word_for_word(hooks.our_lines(script + b"echo mine\n", event), event)


OURS = hooks.command("pre-commit", "/p")
TOLD = hooks.line_to_add("pre-commit", "/p")
PLANTED = [
    "touch x; git-ckpt hook pre-commit",
    "git ckpt hook pre-commit",
    "/p -m ckpt hook pre-commit; touch x",
    f"touch x; {OURS}",
    f"{OURS}; touch x",
    f"{OURS} #",
    OURS.replace("/p", "$(touch x)"),
    OURS.replace("/p", "'/p'"),
    OURS.replace("/p", "p"),
    OURS.replace("/p", "''"),
    OURS.replace("/p -I -m", "/other -I -m"),
    OURS.replace("import ckpt.cli", "import x"),
    OURS.replace("exit 1", "touch x"),
    OURS.replace("__main__.py", "__main__.py;x"),
    TOLD.replace("|| :", "|| touch x"),
    TOLD.replace(" </dev/null", ""),
    f"{TOLD}; {TOLD}",
    hooks.line_to_add("pre-push", "/p"),
    "if [ -x 'a",
]


@pytest.mark.parametrize("line", PLANTED)
def test_words_that_only_look_like_ours_are_not_ours(line: str) -> None:
    body = line.encode() + b"\n"
    block = BLOCK.replace(hooks.our_lines(BLOCK, "pre-commit"), body)

    assert not hooks.is_word_for_word(body, "pre-commit")
    assert hooks.our_lines(b"#!/bin/sh\n" + body, "pre-commit") == b""
    assert hooks.our_lines(b"#!/bin/sh\n" + TOLD.encode() + b"\n" + block, "pre-commit") == b""


def test_nor_are_two_lines_if_one_of_them_is_not() -> None:
    two = TOLD + "\ntouch x; git ckpt hook pre-commit\n"

    assert hooks.our_lines(two.encode(), "pre-commit") == b""
    assert hooks.our_lines(f"{TOLD}\ntouch x\n".encode(), "pre-commit") == f"{TOLD}\n".encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if [", "touch x; if ["),
        ("; :", "; touch x"),
        ("; :", ""),
        ("event = pre-commit", "event = pre-push"),
        ("event = pre-commit", "event = pre-commit\n\tcommand = touch x"),
    ],
)
def test_a_configured_hook_is_ours_only_word_for_word(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "config"
    config = ConfigFile(str(path), Record(str(tmp_path / "record")))
    hooks.put_in_config_hooks(config, "pre-commit", "/opt/a b/python")
    assert hooks.our_entries(config, "pre-commit") == config.entries()

    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert hooks.our_entries(config, "pre-commit") == []
