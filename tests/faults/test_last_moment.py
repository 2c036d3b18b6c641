# SPDX-License-Identifier: MIT
"""Somebody writes to a file in the very moment in which a rollback replaces or removes it.

Between the last look and the change there are microseconds, in which the edit here is made. And
it may be killed in the next moment: then the edit is in a file that has lost its name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import Scene, checkpoints, whole
from faults.striking import Blow, Driver, Sweep, kill
from helpers import git

Record = Callable[[str, object], None]

WAYS = ["--continue", "--abort"]
BY_HAND = "by hand"
PUT = "echo by hand"

# Of files that are replaced, made and removed: at which operation the name changes hands, and
# which is the next if it is given back.
FILES = {
    "src/edited": (("rename", "edited", 1), ("rename", "edited", 2)),
    "was-link": (("rename", "was-link", 1), ("rename", "was-link", 2)),
    "src/deep/down/file": (("rename", "file", 1), None),
    "src/deleted": (("unlink", "deleted", 1), ("rename", "deleted", 1)),
    "new/staged": (("unlink", "staged", 1), ("rename", "staged", 1)),
}


def late(path: str, top: Path, how: str) -> Blow:
    """The edit of a path, just before it changes."""
    operation, name, nth = FILES[path][0]
    command = {
        "in place": f"{PUT} > {path}",
        "another": f"{PUT} > new-one; mv -f new-one {path}",
    }[how]
    return Blow(nth, operation, name, command=("sh", "-c", f"cd '{top}'; {command}"))


def saved(scene: Scene, top: Path) -> list[str]:
    """What new checkpoints hold, file by file."""
    new = checkpoints(top).keys() - scene.checkpoints.keys()
    return [git("show", f"{ref}:{path}", cwd=top) for ref in new for path in _paths(top, ref)]


def _paths(top: Path, ref: str) -> list[str]:
    listed = git("ls-tree", "-r", "-z", "--name-only", ref, cwd=top).split("\0")
    return [path for path in listed if path in FILES]


@pytest.mark.parametrize("how", ["in place", "another"])
def test_it_is_saved_before_it_goes(
    how: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = whole(tmp_path / "before")

    with Sweep(record_property) as sweep:
        for path in FILES:
            with sweep.trying(path):
                sweep.count("edits in the moment of a change")
                top = scene.copy()
                ended = driver.run(top, *scene.words, blow=late(path, top, how))
                assert ended.code == 0, ended
                assert f"{BY_HAND}\n" in saved(scene, top)
                scene.check(top, scene.after)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["in place", "another"])
def test_it_is_saved_also_after_a_kill_in_the_next_moment(
    how: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = whole(tmp_path / "before")

    with Sweep(record_property) as sweep:
        for path, (_, given_back) in FILES.items():
            if given_back is None:
                continue
            operation, name, nth = given_back
            with sweep.trying(path):
                sweep.count("edits in the moment of a change")
                top = scene.copy()
                blows = [late(path, top, how), kill(nth, operation, name)]
                struck = driver.run(top, *scene.words, blow=blows)
                assert struck.killed, struck
                sweep.count("kills survived")

                recovered = driver.run(top, "rollback", way)

                assert recovered.code == 0, recovered
                assert f"{BY_HAND}\n" in saved(scene, top)
                scene.check(top, scene.after if way == "--continue" else scene.before)


# Opens a file, and writes to it when its name is another's, or nobody's.
WRITER = """if True:
    import os, sys, time
    with open(sys.argv[1], "r+b") as file:
        print(flush=True)
        def is_named():
            return os.path.exists(sys.argv[1]) and os.path.sameopenfile(
                file.fileno(), os.open(sys.argv[1], os.O_RDONLY)
            )
        while is_named():
            time.sleep(0.001)
        file.truncate()
        file.write(b"by hand\\n")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writers")
@pytest.mark.parametrize("path", ["src/edited", "src/deleted"])
def test_what_is_written_through_an_open_file_is_saved_too(
    path: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    command = [sys.executable, "-c", WRITER, str(top / path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        ended = driver.run(top, *scene.words)

    assert ended.code == 0, ended
    assert f"{BY_HAND}\n" in saved(scene, top)
    scene.check(top, scene.after)


@pytest.mark.parametrize("way", WAYS)
def test_where_the_name_is_in_use_again_by_then_both_stay(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    edit = late("src/edited", top, "in place")
    assert driver.run(top, *scene.words, blow=[edit, kill(2, "rename", "edited")]).killed
    (top / "src/edited").write_text("later\n")

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    assert "later\n" in saved(scene, top)
    (left,) = (top / "src").glob(".ckpt-tmp-*")
    assert left.read_text() == f"{BY_HAND}\n"


@pytest.mark.parametrize("way", WAYS)
def test_so_they_do_if_it_is_a_folder_by_then(way: str, driver: Driver, tmp_path: Path) -> None:
    """What is no file has no content that could be compared with that of none."""
    scene = whole(tmp_path / "before")
    top = scene.copy()
    edit = late("src/deleted", top, "in place")
    assert driver.run(top, *scene.words, blow=[edit, kill(1, "rename", "deleted")]).killed
    (top / "src/deleted").mkdir()
    (top / "src/deleted/mine").write_text("later\n")

    driver.run(top, "rollback", way)

    kept = {path.name: path.read_text() for path in (top / "src").glob("**/*") if path.is_file()}
    assert kept["mine"] == "later\n"
    assert (top / "src/deleted").is_dir()
    (left,) = (top / "src").glob(".ckpt-tmp-*")
    assert left.read_text() == f"{BY_HAND}\n"
