# SPDX-License-Identifier: MIT
"""ckpt's conversions against git's own: `git add` one way, a checkout the other.

Each folder has attributes of its own, so that a few git processes answer for hundreds of files.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import pytest
from helpers import git

from ckpt.git.rules import AttributeTree
from ckpt.worktree.filters import Unconvertible, checkout, clean, conversion

ATTRIBUTES = [
    *("text", "-text", "text=auto", "eol=crlf", "eol=lf", "text=auto eol=crlf", "text=auto eol=lf"),
    *("text eol=crlf", "ident", "ident text", "text=auto ident", "crlf", "-crlf", "crlf=input"),
    *("crlf=auto", "-text eol=crlf", "text=input", "text=junk", "!text crlf", "ident eol=crlf"),
    *("eol=junk text", "diff"),
]
ENCODINGS = ["UTF-16", "utf16", "UTF-16LE-BOM", "UTF-32", "UTF-8", "latin1"]
WORDS = [
    *(b"a", b"\n", b"\r\n", b"\n", b"\r\n", b"$Id$", b"$Id: x $", b"$Id: x y$", b"$Id:$", b"$Id"),
    *(b"$Id: \n$", b" $ ", b"$Id: " + b"0" * 40 + b" $", b"word ", b"\xc3\xa9", b"$Id:ab$"),
]
RARE = [b"\r", b"\0", b"\x01", b"\x1a", b"\xff", b"\x7f", b"\r\r\n"]


def content(chance: random.Random) -> bytes:
    lines = [b"a", b"$Id$ "]
    words = chance.choice(
        [WORDS, [*lines, b"\n"], [*lines, b"\r\n"], [b"a" * 130, b"\x01", b"\r\n"], WORDS + RARE]
    )
    return b"".join(chance.choices(words, k=chance.randint(0, 14)))


def encoded(chance: random.Random, encoding: str) -> bytes:
    text = "".join(chance.choices(["a", "\n", "\r\n", "é", "$Id$ "], k=chance.randint(0, 8)))
    codec = {"UTF-16LE-BOM": "UTF-16"}.get(encoding, encoding)
    return text.encode(codec)


def blob_id(blob: bytes) -> bytes:
    return sha1(b"blob %d\0%s" % (len(blob), blob)).hexdigest().encode()


class Scene:
    """A repository of many folders, and what ckpt says of each file in them."""

    def __init__(self, top: Path, chance: random.Random, settings: dict[str, str]) -> None:
        self.top, self.chance = top, chance
        git("init", "-q", str(top))
        for key, value in {"core.safecrlf": "false", **settings}.items():
            git("config", key, value, cwd=top)
        self.encodings: dict[bytes, str | None] = {}
        self.texts = dict(self.folder(number) for number in range(60))
        self.settings = settings.get("core.autocrlf"), settings.get("core.eol")
        self.tree = AttributeTree(self.texts.get)
        self.index: dict[bytes, bytes] = {}

    def folder(self, number: int) -> tuple[bytes, bytes]:
        name = b"%d" % number
        words = self.chance.choice(ATTRIBUTES)
        encoding = self.chance.choice(ENCODINGS) if self.chance.random() < 0.3 else None
        if encoding is not None:
            words += f" working-tree-encoding={encoding}"
        self.encodings |= {name + b"/%d" % file: encoding for file in range(4)}
        text = f"[0-9] {words}\n".encode()
        (self.top / os.fsdecode(name)).mkdir()
        (self.top / os.fsdecode(name) / ".gitattributes").write_bytes(text)
        return name, text

    def fill(self) -> dict[bytes, bytes]:
        """New contents for every file, those left out that git would refuse to add."""
        files = {}
        for path, encoding in self.encodings.items():
            data = content(self.chance) if encoding is None else encoded(self.chance, encoding)
            (self.top / os.fsdecode(path)).write_bytes(data)
            files[path] = data
        return {path: data for path, data in files.items() if self.cleaned(path, data) is not None}

    def cleaned(self, path: bytes, data: bytes) -> bytes | None:
        asked = conversion(self.tree.attributes(path), *self.settings)
        try:
            return data if asked is None else clean(asked, data, lambda: self.index.get(path))
        except Unconvertible:
            return None

    def added(self, paths: list[bytes]) -> dict[bytes, bytes]:
        """The ids in git's index after `git add`."""
        stdin = "\n".join(map(os.fsdecode, paths))
        git("add", "--pathspec-from-file=-", cwd=self.top, stdin=stdin)
        rows = git("ls-files", "-s", "-z", cwd=self.top).split("\0")[:-1]
        ids = {os.fsencode(row.split("\t")[1]): row.split()[1].encode() for row in rows}
        return {path: ids[path] for path in paths}


SETTINGS = [
    {},
    {"core.autocrlf": "true"},
    {"core.autocrlf": "input", "core.eol": "crlf"},
    {"core.autocrlf": "false", "core.eol": "crlf"},
]


@pytest.mark.parametrize("seed", range(len(SETTINGS)))
def test_files_are_cleaned_as_git_add_does_and_written_as_a_checkout_does(
    tmp_path: Path, seed: int
) -> None:
    scene = Scene(tmp_path / "repo", random.Random(seed), SETTINGS[seed])
    for _ in range(2):  # the second time with something in the index
        files = scene.fill()
        blobs = {path: scene.cleaned(path, data) or b"" for path, data in files.items()}
        ids = scene.added(list(files))
        assert ids == {path: blob_id(blob) for path, blob in blobs.items()}
        scene.index |= blobs

    for path in scene.encodings:
        (scene.top / os.fsdecode(path)).unlink()
    git("checkout-index", "-a", "-f", cwd=scene.top)
    converted = 0
    for path, blob in blobs.items():
        data = (scene.top / os.fsdecode(path)).read_bytes()
        if data == blob:
            continue
        asked = conversion(scene.tree.attributes(path), *scene.settings)
        assert asked is not None
        with suppress(Unconvertible):
            assert checkout(asked, blob) == data
            converted += 1
    assert converted > 3
