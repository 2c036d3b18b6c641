# SPDX-License-Identifier: MIT
"""Git counts the same lines, prints the same patches and applies ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt.engine.diff import Side, unified
from ckpt.git.linediff import count, quote_path

Content = bytes | None
File = tuple[int, Content]  # mode and content

# A git process takes longer than all the rest, so each example has many files.
with_git = settings(max_examples=25, deadline=None)


def git(*words: str, cwd: Path, stdin: bytes = b"", status: tuple[int, ...] = (0,)) -> bytes:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(cwd.parent),
        "LC_ALL": "C",
    }
    ran = subprocess.run(["git", *words], cwd=cwd, env=env, input=stdin, capture_output=True)
    assert ran.returncode in status, ran.stderr.decode()
    return ran.stdout


def put(top: Path, path: bytes, mode: int, content: bytes) -> None:
    name = os.path.join(os.fsencode(top), path)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    if mode == 0o120000:
        os.symlink(content, name)
        return
    with open(name, "wb") as file:
        file.write(content)
    os.chmod(name, mode & 0o777)


def get(top: Path, path: bytes) -> File:
    name = os.path.join(os.fsencode(top), path)
    if os.path.islink(name):
        return 0o120000, os.readlink(name)
    if not os.path.exists(name):
        return 0, None
    with open(name, "rb") as file:
        return (0o100755 if os.access(name, os.X_OK) else 0o100644), file.read()


lines = st.sampled_from([b"\n", b"a\n", b"b\n", b"{\n", b"  c\n", b"d\r\n", b"\\ x\n", b"-- e\n"])
texts = st.builds(
    lambda body, end: b"".join(body) + end,
    st.lists(lines, max_size=25),
    st.sampled_from([b"", b"", b"a", b"no newline"]),
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text and what a few edits made of it."""
    old = draw(st.lists(lines, max_size=60))
    new = old.copy()
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 3))] = draw(st.lists(lines, max_size=3))
    return b"".join(old), b"".join(new)


pairs = st.one_of(st.tuples(texts, texts), edited())


@with_git
@given(st.lists(pairs, min_size=10, max_size=20))
def test_counts_are_those_of_git(pairs: list[tuple[bytes, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for number, (old, new) in enumerate(pairs):
            put(top, b"old/%d" % number, 0o100644, old)
            put(top, b"new/%d" % number, 0o100644, new)
        options = ["--no-index", "--numstat", "--minimal", "--no-renames"]
        numstat = git("diff", *options, "old", "new", cwd=top, status=(0, 1))

    theirs = dict.fromkeys(range(len(pairs)), (0, 0))
    for line in numstat.splitlines():
        added, deleted, names = line.split(b"\t")
        theirs[int(names.split(b"/")[-1].strip(b"}"))] = int(added), int(deleted)
    assert [count(old, new) for old, new in pairs] == list(theirs.values())


PATHS = [
    b"plain",
    b"with space",
    b"trailing space ",
    b'quote"d',
    b"back\\slash",
    b"tab\there",
    b"new\nline",
    "ümläut/ß".encode(),
    b"a/b/c",
    b"-dash",
]
if sys.platform != "darwin":  # its file systems take UTF-8 only
    PATHS.append(b"not\xffutf8")
files = st.one_of(
    st.tuples(st.sampled_from([0o100644, 0o100755]), texts),
    st.tuples(st.just(0o120000), st.sampled_from([b"target", b"else/where", b"new\nline"])),
    st.just((0, None)),
)


@st.composite
def file_changes(draw: st.DrawFn) -> tuple[File, File]:
    if draw(st.booleans()):
        old, new = draw(edited())
        return (0o100644, old), (draw(st.sampled_from([0o100644, 0o100755])), new)
    return draw(files), draw(files)


def patch_of(
    path: bytes, old: File, new: File, old_id: bytes = b"1" * 40, new_id: bytes = b"2" * 40
) -> bytes:
    before, after = (old[1], old[0], old_id), (new[1], new[0], new_id)
    return unified(Side(*before, b"a/" + path), Side(*after, b"b/" + path))


@with_git
@given(st.lists(st.tuples(st.sampled_from(PATHS), file_changes()), max_size=25))
def test_git_apply_makes_new_of_old(cases: list[tuple[bytes, tuple[File, File]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        wanted, patches = {}, []
        for number, (path, (old, new)) in enumerate(cases):
            path = b"%d/%s" % (number, path)
            if old[1] is not None:
                put(top, path, old[0], old[1])
            wanted[path] = new
            patches.append(patch_of(path, old, new))
        patch = b"".join(patches)
        if patch:
            git("apply", "--whitespace=nowarn", "-", cwd=top, stdin=patch)

        assert {path: get(top, path) for path in wanted} == wanted


def blob_id(repo: Path, content: Content) -> bytes:
    return git("hash-object", "--stdin", cwd=repo, stdin=content or b"").strip()


def git_diff(repo: Path, path: bytes, old: File, new: File) -> bytes:
    """What git itself prints between two states of one path."""
    git("init", "-q", ".", cwd=repo)
    trees = []
    for mode, content in (old, new):
        entry = b""
        if content is not None:
            [blob] = git("hash-object", "-w", "--stdin", cwd=repo, stdin=content).split()
            entry = b"%o %s 0\t%s\0" % (mode, blob, path)
        git("read-tree", "--empty", cwd=repo)
        git("update-index", "-z", "--index-info", cwd=repo, stdin=entry)
        trees.append(git("write-tree", cwd=repo).decode().strip())
    config = ["-c", "core.abbrev=7", "-c", "core.quotePath=true"]
    return git(*config, "diff", "--no-renames", *trees, cwd=repo)


FUNCTIONS = b"".join(
    [
        b"import os\n\n\n",
        b"def first(one, two):\n",
        *(b"    step %d\n" % n for n in range(12)),
        b"\n\ndef second_with_a_name_so_long_that_git_cuts_it_off_" + b"x" * 60 + b"():\n",
        *(b"    move %d\n" % n for n in range(12)),
        b"\n\nclass Third:   \n",
        *(b"    rest %d\n" % n for n in range(12)),
    ]
)
EDITED = FUNCTIONS.replace(b"step 10", b"stepped").replace(b"    move 11\n", b"")
EDITED = EDITED.replace(b"rest 5\n", b"rest 5\n    and more\n")

EXAMPLES: dict[str, tuple[bytes, File, File]] = {
    "edited": (b"code.py", (0o100644, FUNCTIONS), (0o100644, EDITED)),
    "edited back": (b"code.py", (0o100755, EDITED), (0o100755, FUNCTIONS)),
    "appended": (b"log", (0o100644, b"1\n2\n3\n4\n"), (0o100644, b"1\n2\n3\n4\n5\n")),
    "prepended": (b"log", (0o100644, b"1\n2\n3\n4\n"), (0o100644, b"0\n1\n2\n3\n4\n")),
    "repeated block": (b"x", (0o100644, b"a\nb\n"), (0o100644, b"a\nb\na\nb\n")),
    "all replaced": (b"x", (0o100644, b"a\nb\n"), (0o100644, b"c\n")),
    "emptied": (b"x", (0o100644, b"a\nb\n"), (0o100644, b"")),
    "filled": (b"x", (0o100644, b""), (0o100644, b"a\n")),
    "new": (b"dir/x", (0, None), (0o100644, b"a\nb\n")),
    "new and empty": (b"x", (0, None), (0o100755, b"")),
    "new symlink": (b"x", (0, None), (0o120000, b"to/target")),
    "deleted": (b"x", (0o100755, b"a\n"), (0, None)),
    "deleted and empty": (b"x", (0o100644, b""), (0, None)),
    "mode": (b"x", (0o100644, b"a\n"), (0o100755, b"a\n")),
    "mode and content": (b"x", (0o100755, b"a\n"), (0o100644, b"b\n")),
    "symlink": (b"x", (0o120000, b"here"), (0o120000, b"there")),
    "file to symlink": (b"x", (0o100644, b"a\n"), (0o120000, b"a")),
    "symlink to file": (b"x", (0o120000, b"a"), (0o100755, b"a\n")),
    "same bytes, other type": (b"x", (0o120000, b"a"), (0o100644, b"a")),
    "no newline before": (b"x", (0o100644, b"a\nb"), (0o100644, b"a\nb\n")),
    "no newline after": (b"x", (0o100644, b"a\nb\n"), (0o100644, b"a\nb")),
    "no newline in context": (b"x", (0o100644, b"a\nb\nc"), (0o100644, b"x\nb\nc")),
    "binary": (b"x", (0o100644, b"\0\1"), (0o100644, b"\0\2")),
    "binary and mode": (b"x y", (0o100644, b"\0\1"), (0o100755, b"\0\2")),
    "binary new": (b"x", (0, None), (0o100644, b"\0\1")),
    "binary deleted": (b"\xff x", (0o100644, b"\0\1"), (0, None)),
    "space in path": (b"a b/c d", (0o100644, b"a\n"), (0o100644, b"b\n")),
    "space in new path": (b"a b/c d", (0, None), (0o100644, b"b\n")),
    "quoted path": ('ü\t"\\'.encode(), (0o100644, b"a\n"), (0o100644, b"b\n")),
    "quoted path with space": ("ü x".encode(), (0o100644, b"a\n"), (0o100644, b"b\n")),
    "carriage returns": (b"x", (0o100644, b"a\r\nb\r\n"), (0o100644, b"a\nb\r\n")),
    "unchanged": (b"x", (0o100644, b"a\n"), (0o100644, b"a\n")),
}


@pytest.mark.parametrize(("path", "old", "new"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_patch_is_byte_for_byte_git_s(tmp_path: Path, path: bytes, old: File, new: File) -> None:
    expected = git_diff(tmp_path, path, old, new)

    ids = blob_id(tmp_path, old[1]), blob_id(tmp_path, new[1])

    assert patch_of(path, old, new, *ids) == expected


def test_a_moved_gitlink_is_shown_as_git_shows_it(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    trees = []
    for commit in (b"1" * 40, b"2" * 40):
        line = b"160000 commit %s\tsub\n" % commit
        trees.append(git("mktree", cwd=tmp_path, stdin=line).decode().strip())

    old, new = ((0o160000, b"Subproject commit %s\n" % (n * 40)) for n in (b"1", b"2"))
    ours = patch_of(b"sub", old, new)

    assert ours == git("-c", "core.abbrev=7", "diff", *trees, cwd=tmp_path)


def test_paths_are_quoted_as_git_quotes_them(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    paths = sorted(b"x%cy" % byte for byte in range(1, 256) if byte != ord("/"))
    [blob] = git("hash-object", "-w", "--stdin", cwd=tmp_path).split()
    entries = b"".join(b"100644 %s 0\t%s\0" % (blob, path) for path in paths)
    git("update-index", "-z", "--index-info", cwd=tmp_path, stdin=entries)

    listed = git("-c", "core.quotePath=true", "ls-files", cwd=tmp_path).split(b"\n")[:-1]

    assert [quote_path(path) for path in paths] == listed
