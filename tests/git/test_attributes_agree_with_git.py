# SPDX-License-Identifier: MIT
"""ckpt.git.rules against `git check-attr`, over files of random lines."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ckpt.git.rules import CONVERTING, AttributeTree

NAMES = sorted(CONVERTING)
# Read in another way by git before 2.52; see wildmatch.py.
MISREAD = re.compile(rb"[^*?\[\\/]\*\*+(/|\\/|$)")

GLOBS = [
    *(b"*", b"**", b"a", b"b", b"A", b"*.b", b"a*", b"?b", b"[ab]", b"[!a]", b"/a", b"a/b", b"a/*"),
    *(
        b"**/b",
        b"a/**",
        b"a/**/b",
        b"a/",
        b"!a",
        b"\\!a",
        b"\\a",
        b"#a",
        b"[a",
        b"a\\",
        b"\xc3\xa9",
    ),
]
PATTERN = st.one_of(
    st.sampled_from(GLOBS), st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3).map(b"".join)
).filter(lambda glob: not MISREAD.search(glob))
WORDS = [
    *(b"text", b"-text", b"!text", b"text=auto", b"text=", b"eol=lf", b"eol=crlf"),
    *(b"!eol", b"ident", b"-ident", b"filter=x", b"filter", b"!filter", b"crlf", b"crlf=input"),
    *(
        b"binary",
        b"-binary",
        b"!binary",
        b"mine",
        b"-mine",
        b"other",
        b"diff",
    ),
    b"working-tree-encoding=UTF-16",
]


def quoted(pattern: bytes) -> bytes:
    return b'"%s"' % pattern.replace(b"\\", b"\\\\").replace(b"\xc3", b"\\303")


FIRST = st.one_of(
    PATTERN,
    PATTERN.map(quoted),
    st.sampled_from([b"[attr]mine", b"[attr]other", b"[attr]binary"]),
)
LINE = st.tuples(
    st.sampled_from([b"", b" ", b"\t", b"\xef\xbb\xbf", b"# "]),
    FIRST,
    st.sampled_from([b" ", b"\t", b" \r "]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(b" ".join),
    st.sampled_from([b"", b" ", b"\r"]),
).map(b"".join)
TEXT = st.lists(LINE, max_size=5).map(b"\n".join)
FOLDERS = [b"", b"a", b"b", b"a/b", b"A", b"a/a"]
PATHS = [
    b"/".join(filter(None, (folder, name)))
    for folder in (*FOLDERS, b"a/b/a", b"b/b")
    for name in (b"a.b", b"b", b"ab", b"!a", b"#a", b"\xc3\xa9", b"B", b"a\\", b"*")
]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("attributes")
    run(top, "init", "-q")
    (top / ".git/info").mkdir(exist_ok=True)
    for folder in FOLDERS:
        (top / os.fsdecode(folder)).mkdir(exist_ok=True)
    return top


def run(top: Path, *words: str, stdin: bytes = b"") -> bytes:
    env = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1"}
    ran = subprocess.run(["git", *words], cwd=top, input=stdin, capture_output=True, env=env)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def by_git(top: Path, ignore_case: bool, paths: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    user = f"core.attributesFile={top / '.git/user'}"
    case = f"core.ignoreCase={'true' if ignore_case else 'false'}"
    words = ("-c", user, "-c", case, "check-attr", "-z", "--stdin", *map(os.fsdecode, NAMES))
    fields = iter(run(top, *words, stdin=b"".join(path + b"\0" for path in paths)).split(b"\0"))
    found: dict[bytes, dict[bytes, bytes]] = {}
    for path, name, value in zip(fields, fields, fields, strict=False):
        found.setdefault(path, {})[name] = value
    return found


def by_us(tree: AttributeTree, path: bytes) -> Mapping[bytes, object]:
    words = {True: b"set", False: b"unset", None: b"unspecified"}
    found = tree.attributes(path)
    return {name: words.get(found.get(name), found.get(name)) for name in NAMES}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(st.sampled_from(FOLDERS), TEXT, max_size=4),
    info=TEXT,
    user=TEXT,
    ignore_case=st.booleans(),
)
@example({b"": b"* text binary\nb binary text"}, b"", b"", False)
@example({b"": b"[attr]mine text", b"a": b"[attr]mine -text\n* mine"}, b"", b"", False)
@example({b"": b"* binary"}, b"b -binary", b"[attr]binary ident", False)
@example(
    {b"": b"[attr]mine ident other text=auto\n[attr]other -ident -text eol=lf\n* eol=crlf mine"},
    b"b mine eol",
    b"[attr]other mine",
    False,
)
def test_attributes_are_those_that_git_sees(
    top: Path, files: dict[bytes, bytes], info: bytes, user: bytes, ignore_case: bool
) -> None:
    for folder in FOLDERS:
        (top / os.fsdecode(folder) / ".gitattributes").write_bytes(files.get(folder, b""))
    (top / ".git/info/attributes").write_bytes(info)
    (top / ".git/user").write_bytes(user)
    tree = AttributeTree(files.get, info=info, user=user, ignore_case=ignore_case)

    assert by_git(top, ignore_case, PATHS) == {path: by_us(tree, path) for path in PATHS}
