# SPDX-License-Identifier: MIT
"""The block in a shell script: where it may go, and that it leaves as it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.install import hooks

BLOCK = hooks.block("pre-commit", "/opt/a b/python")
SHELL = [
    b"#!/bin/sh\n",
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
    b"#!/bin/sh\n'''exec' /long/python \"$0\" \"$@\"\n' '''\nimport sys\n",
    b'#!/bin/sh\n"exec" "python3" "$0" "$@"\n',
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


def test_a_call_in_a_comment_does_not_count() -> None:
    line = hooks.command("pre-commit", "/p").encode()

    assert hooks.calls_ckpt(b"#!/bin/sh\n" + line, "pre-commit")
    assert not hooks.calls_ckpt(b"#!/bin/sh\n# " + line, "pre-commit")
    assert not hooks.calls_ckpt(b"#!/bin/sh\n" + line, "pre-push")
    assert hooks.calls_ckpt(b"git ckpt hook pre-push\n", "pre-push")
