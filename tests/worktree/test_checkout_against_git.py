# SPDX-License-Identifier: MIT
"""What we say that git writes to disk for a blob, beside what it does write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers import git

from ckpt.git.rules import AttributeTree
from ckpt.worktree.filters import checkout, conversion

CONTENTS = {
    "lf": b"one\ntwo\n",
    "crlf": b"one\r\ntwo\r\n",
    "mixed": b"one\r\ntwo\n",
    "cr": b"one\rtwo\n",
    "binary": b"one\0two\n",
    "one-line": b"one",
    "empty": b"",
    "id": b"$Id$ and $Id: other $\n$Id: two words $\n",
    "unicode": "n\u00e4me\n".encode(),
}
RULES = [
    *("text", "-text", "text=auto", "text=input", "!text", "crlf", "-crlf", "crlf=input"),
    *("eol=lf", "eol=crlf", "text=auto eol=lf", "text=auto eol=crlf", "-text eol=crlf"),
    *("text eol=lf", "text=input eol=crlf", "binary eol=crlf", "working-tree-encoding=UTF-8"),
]


@pytest.mark.parametrize("eol", [None, "lf", "crlf", "native"])
@pytest.mark.parametrize("autocrlf", [None, "true", "input", "false"])
def test_git_writes_what_we_say(repo: Path, autocrlf: str | None, eol: str | None) -> None:
    for name, value in {"core.autocrlf": autocrlf, "core.eol": eol}.items():
        if value is not None:
            git("config", name, value)
    attributes = "".join(f"/{n}-* {rule}\n" for n, rule in enumerate(RULES))
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/attributes").write_text(attributes)
    blobs = {name: _blob(content) for name, content in CONTENTS.items()}
    paths = {f"{n}-{name}": name for n in range(len(RULES) + 1) for name in CONTENTS}
    entries = "".join(f"100644 {blobs[name]}\t{path}\n" for path, name in paths.items())
    git("update-index", "--index-info", stdin=entries)
    git("checkout-index", "--all", "--force")

    tree = AttributeTree(lambda _: None, info=attributes.encode())
    for path, name in paths.items():
        content = CONTENTS[name]
        said = tree.attributes(path.encode())
        asked = conversion(said, autocrlf, eol)
        given = content if asked is None else checkout(asked, content)
        assert (path, given) == (path, (repo / path).read_bytes())


def _blob(content: bytes) -> str:
    words = ["git", "hash-object", "-w", "--stdin", "--no-filters"]
    made = subprocess.run(words, input=content, capture_output=True, check=True)
    return made.stdout.decode().strip()
