# SPDX-License-Identifier: MIT
"""Git's gc has counted what is garbage, and takes it away only when a save or rollback is done.

A content that was staged or committed once may be in a pack, and nothing names it any more. By the
time at which a new checkpoint does, git may have decided on it: here it stands still in between.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import ckpt_here, fsck, git, verified

LINES = "".join(f"line {number}\n" for number in range(2000))
LARGE = os.urandom(3 << 20).hex()
# Packs what it shall, says so, and waits before anything is taken away.
GIT = """\
#!/bin/sh
{git} "$@"
code=$?
if [ "$1" = pack-objects ]; then
    touch {folder}/counted
    until [ -e {folder}/go ]; do sleep 0.01; done
fi
exit $code
"""
COLLECTIONS = {
    "gc": ["gc", "-q"],
    "repack": ["repack", "-adq"],
    "gc that prunes at once": ["gc", "-q", "--prune=now"],
    "gc that is told so": ["-c", "gc.pruneExpire=now", "gc", "-q"],
    "gc of seconds": ["gc", "-q", "--prune=1.second.ago"],
}
BACK = {"save": ["rollback", "x"], "rollback": ["undo"]}


@contextmanager
def standing_still(folder: Path, *words: str) -> Iterator[None]:
    """Run git until it has counted; it goes on, to its end, after what is done meanwhile."""
    folder.mkdir()
    program = shutil.which("git")
    assert program is not None
    script = GIT.format(git=shlex.quote(program), folder=shlex.quote(str(folder)))
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    process = subprocess.Popen([program, *words], env={**os.environ, "GIT_EXEC_PATH": str(folder)})
    try:
        while not (folder / "counted").exists() and process.poll() is None:
            time.sleep(0.005)
        yield
    finally:
        (folder / "go").touch()
        assert process.wait() == 0


def checkpoints() -> str:
    return git("for-each-ref", "refs/checkpoints/")


def until_named(*words: str) -> subprocess.Popen[str]:
    """Start a command and wait until it has made a checkpoint: beside a gc that prunes at once it
    waits in turn."""
    before = checkpoints()
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "ckpt", *words], stdout=subprocess.PIPE, text=True
    )
    while checkpoints() == before and process.poll() is None:
        time.sleep(0.005)
    return process


@pytest.fixture
def packed(repo: Path) -> Path:
    """`notes` are as they were when they were staged, and no ref or index names that."""
    (repo / "notes").write_text("earlier\n")
    (repo / "large").write_text("earlier\n")
    ckpt_here("save", "earlier", code=0)
    (repo / "notes").write_text(LINES)
    (repo / "large").write_text(LARGE)
    git("add", "notes", "large")
    git("gc", "-q")
    git("reset", "-q")
    for pack in (repo / ".git/objects/pack").iterdir():
        os.utime(pack, (0, 0))
    return repo


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("words", [["save", "x"], ["rollback", "earlier"]], ids=" ".join)
def test_what_only_garbage_held_is_in_the_checkpoint(
    packed: Path, tmp_path: Path, words: list[str], collection: str
) -> None:
    with standing_still(tmp_path / "still", *COLLECTIONS[collection]):
        process = until_named(*words)
        if "prune" not in " ".join(COLLECTIONS[collection]):  # which is not waited for
            process.wait()
    process.communicate()

    assert process.returncode == 0
    assert fsck(packed) == []
    assert verified(packed) == []
    if words[0] == "save":
        (packed / "notes").unlink()
        (packed / "large").unlink()
    ckpt_here(*BACK[words[0]], code=0)
    assert (packed / "notes").read_text() == LINES
    assert (packed / "large").read_text() == LARGE
