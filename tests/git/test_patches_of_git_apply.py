# SPDX-License-Identifier: MIT
"""Whatever git writes as a patch, our reader makes the same bytes of; and damage is refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers import git
from hypothesis import given
from hypothesis import strategies as st

from ckpt.git.linediff import FilePatch, parse
from ckpt.git.objects import DamagedObject

_LINES = st.sampled_from([b"one", b"two", b"three", b"", b"\r", b"-- x", b"\\ No", b"@@ -1 +1 @@"])
_TEXTS = st.builds(
    lambda lines, end: b"\n".join(lines) + end,
    st.lists(_LINES, max_size=40),
    st.sampled_from([b"", b"\n", b"\r\n"]),
)
_BINARY = st.builds(
    lambda start, middle, end: start * 40 + middle + b"\0" + end * 40,
    st.binary(max_size=30),
    st.binary(max_size=120),
    st.binary(max_size=30),
)
_CONTENTS = _TEXTS | _BINARY | st.binary(max_size=80)
_CONTEXTS = st.sampled_from(["-U0", "-U1", "-U3", "-U20"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("patches")


def patch_between(folder: Path, before: bytes, after: bytes, *options: str) -> bytes:
    """The patch of one file, `name`, whose content changes."""
    (folder / "old").write_bytes(before)
    (folder / "new").write_bytes(after)
    words = ["git", "diff", "--no-index", "--binary", *options, "--", "old", "new"]
    made = subprocess.run(words, cwd=folder, capture_output=True, env={**os.environ})
    assert made.returncode in (0, 1) and not made.stderr
    return made.stdout.replace(b"a/old b/new\n", b"a/name b/name\n", 1)


@given(_CONTENTS, _CONTENTS, _CONTEXTS)
def test_a_patch_of_git_gives_the_bytes_that_git_saw(
    folder: Path, before: bytes, after: bytes, context: str
) -> None:
    patches = parse(patch_between(folder, before, after, context))

    assert len(patches) == (before != after)
    assert all(p.apply(before) == after for p in patches)


@given(_CONTENTS, _CONTENTS, st.data())
def test_a_damaged_patch_is_refused_or_still_a_patch(
    folder: Path, before: bytes, after: bytes, data: st.DataObject
) -> None:
    patch = bytearray(patch_between(folder, before, after))
    for _ in range(data.draw(st.integers(1, 4))):
        if patch:
            place = data.draw(st.integers(0, len(patch) - 1))
            patch[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))

    try:
        patches = parse(bytes(patch))
        for each in patches:
            each.apply(before)
    except DamagedObject:
        return
    assert all(isinstance(each, FilePatch) for each in patches)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_patch_or_refused(noise: bytes) -> None:
    for start in (b"", b"diff --git a/name b/name\n", b"diff --git a/n b/n\nindex 1234..5678\n"):
        try:
            parse(start + noise)
        except DamagedObject:
            pass


@given(st.binary(min_size=1, max_size=40).filter(lambda name: name.strip(b"\0/.") == name))
def test_a_path_is_read_as_git_quotes_it(folder: Path, name: bytes) -> None:
    if b"\0" in name or b"/" in name or name.lower() == b".git":
        return
    top = folder / "names"
    if not top.exists():
        top.mkdir()
        git("init", "-q", cwd=top)
    blob = git("hash-object", "-w", "--stdin", cwd=top).strip()
    tree = git("mktree", "-z", cwd=top, stdin=f"100644 blob {blob}\t{os.fsdecode(name)}\0").strip()
    words = ["git", "diff-tree", "-p", "--binary", "-r", git("mktree", cwd=top).strip(), tree]
    patch = subprocess.run(words, cwd=top, capture_output=True, check=True).stdout

    assert [(p.old_path, p.new_path) for p in parse(patch)] == [(None, name)]
