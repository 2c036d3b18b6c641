# SPDX-License-Identifier: MIT
"""Whatever git packs, ckpt reads as git reads it; damage is an error."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from byhand import MOMENT
from helpers import fsck, git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seam import SETUP

from ckpt.git import record
from ckpt.git.objects import FORMATS as OBJECT_FORMATS
from ckpt.git.objects import SHA1, MissingObject, ObjectID, ObjectStore
from ckpt.git.trees import REGULAR, TreeEntry, write_tree

FORMATS = ["sha1", "sha256"]


def history(top: Path, object_format: str = "sha1", commits: int = 12, seed: int = 0) -> Path:
    """A repository with versions of files and folders, of which git makes deltas."""
    chance = random.Random(seed)
    git("init", "-q", f"--object-format={object_format}", str(top))
    lines = [f"line {chance.random()}\n" for _ in range(400)]
    for number in range(commits):
        for _ in range(10):
            lines[chance.randrange(len(lines))] = f"{number} {chance.random()}\n"
        for name in ("a", "b/c", "b/d/e"):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text("".join(lines[len(name) :]))
        (top / f"file-{number}").write_text("few bytes"[:number])
        git("add", ".", cwd=top)
        git("commit", "-q", "-m", f"{number}", cwd=top)
    git("tag", "-a", "-m", "a tag", "tag", cwd=top)
    return top


def opened(top: Path, object_format: str = "sha1") -> ObjectStore:
    return ObjectStore(str(top / ".git/objects"), OBJECT_FORMATS[object_format])


def listed(top: Path) -> dict[ObjectID, tuple[bytes, int]]:
    """Kind and size of every object, as git tells."""
    text = git("cat-file", "--batch-all-objects", "--batch-check", cwd=top)
    rows = (line.encode().split() for line in text.splitlines())
    return {ObjectID(name): (kind, int(size)) for name, kind, size in rows}


def check_all(top: Path, object_format: str = "sha1") -> None:
    """Every answer about every object is git's; `read` itself compares the ids."""
    known = listed(top)
    with closing(opened(top, object_format)) as store:
        for name, (kind, size) in known.items():
            assert store.has(name)
            assert (store.kind(name), store.size(name)) == (kind, size)
            assert len(store.read(name, kind)) == size
        assert store.missing([*known, absent(store)]) == {absent(store)}
        for name in list(known)[::7]:
            same = {other for other in known if other.startswith(name[:4])}
            assert store.beginning_with(name[:4]) == same
            assert store.beginning_with(name) == {name}


def absent(store: ObjectStore) -> ObjectID:
    return ObjectID(b"f00" * 30)[: store.object_format.hex_length]


def only_packs(top: Path) -> None:
    git("prune-packed", cwd=top)
    assert not list((top / ".git/objects").glob("[0-9a-f][0-9a-f]/*"))


# Every form


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize(
    "words",
    [
        ["repack", "-adfq", "--depth=50"],
        ["repack", "-adfq", "--window=0"],
        ["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=50"],
        ["-c", "pack.packSizeLimit=8k", "repack", "-adfq"],
        ["repack", "-dq"],
    ],
    ids=["deltas", "plain", "deltas by id", "several packs", "as it is"],
)
def test_objects_are_read_as_git_reads_them(
    words: list[str], object_format: str, tmp_path: Path
) -> None:
    top = history(tmp_path / "repo", object_format)
    check_all(top, object_format)
    git(*words, cwd=top)
    only_packs(top)

    check_all(top, object_format)


@pytest.mark.parametrize("object_format", FORMATS)
def test_packs_beside_a_multi_pack_index_are_read(object_format: str, tmp_path: Path) -> None:
    top = history(tmp_path / "repo", object_format)
    git("-c", "pack.packSizeLimit=8k", "repack", "-adfq", cwd=top)
    git("multi-pack-index", "write", cwd=top)
    check_all(top, object_format)
    (top / "new").write_text("in a pack that is not in the index\n")
    git("add", "new", cwd=top)
    git("repack", "-dq", cwd=top)
    check_all(top, object_format)


def test_what_a_killed_process_leaves_of_a_pack_is_cleared_by_gc(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    git("init", "-q", str(top))
    script = (
        SETUP + "import os; from ckpt.git.objects import ObjectStore;"
        "from ckpt.git.objects import SHA1;"
        "store = ObjectStore(sys.argv[1], SHA1);"
        "seam.observe(lambda what, path: what == 'rename' and os._exit(0));"
        "[store.add(b'blob', b'%d' % n) for n in range(500)]; store.flush()"
    )
    subprocess.run([sys.executable, "-c", script, str(top / ".git/objects")], check=True)
    assert {path.name[:4] for path in (top / ".git/objects/pack").iterdir()} == {"tmp_"}
    git("gc", "-q", "--prune=now", cwd=top)

    assert [*(top / ".git/objects/pack").iterdir()] == []


def test_an_index_with_offsets_of_64_bits_is_read(tmp_path: Path) -> None:
    top = history(tmp_path / "repo")
    git("-c", "pack.indexVersion=2", "repack", "-adfq", cwd=top)
    (path,) = (top / ".git/objects/pack").glob("*.pack")
    path.with_suffix(".idx").unlink()
    git("index-pack", "--index-version=2,0x100", str(path), cwd=top)
    only_packs(top)

    check_all(top)


# Borrowed objects


def test_alternates_may_be_relative_and_lead_round_in_a_circle(tmp_path: Path) -> None:
    top = history(tmp_path / "lender")
    other = history(tmp_path / "borrower", commits=1, seed=1)
    for one, two in ((other, "lender"), (top, "borrower")):
        (one / ".git/objects/info/alternates").write_text(
            f"# a comment\n\n../../../{two}/.git/objects\n/nowhere/at/all\n"
        )

    assert len(listed(other)) > 50
    check_all(other)


# Packs of our own


def written(top: Path, object_format: str, count: int) -> list[ObjectID]:
    """Blobs, the trees that hold them, and a commit, flushed at once."""
    with closing(opened(top, object_format)) as store:
        entries = {
            b"%d/%d" % (number % 9, number): TreeEntry(
                REGULAR, store.add(b"blob", b"%d\n" % number * (number % 70))
            )
            for number in range(count)
        }
        tree = write_tree(store, entries)
        commit = record.write_commit(store, tree, (), "a commit\n", MOMENT)
        names = store.flush()
    git("update-ref", f"refs/heads/made-{count}", commit.decode(), cwd=top)
    return sorted(names)


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize("count", [250, 1000])
def test_git_takes_our_packs_for_its_own(count: int, object_format: str, tmp_path: Path) -> None:
    top = tmp_path / "repo"
    git("init", "-q", f"--object-format={object_format}", str(top))
    names = written(top, object_format, count)
    (path,) = (top / ".git/objects/pack").glob("*.pack")

    listing = git("verify-pack", "-v", str(path), cwd=top)
    assert {i for i in names if i.decode() in listing} == set(names)
    index = path.with_suffix(".idx").read_bytes()
    words = ["index-pack", "--strict", f"--object-format={object_format}", "--no-rev-index"]
    git(*words, "-o", str(tmp_path / "by-git.idx"), str(path), cwd=tmp_path)
    assert (tmp_path / "by-git.idx").read_bytes() == index
    assert fsck(top) == []
    check_all(top, object_format)
    git("repack", "-adfq", cwd=top)
    git("gc", "-q", "--prune=now", cwd=top)
    assert not path.exists()
    check_all(top, object_format)


# Damage


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(place=st.integers(0, 1 << 16), bits=st.integers(1, 255), data=st.data())
def test_a_changed_byte_anywhere_is_never_taken_for_content(
    place: int, bits: int, data: st.DataObject, packed: Path, tmp_path: Path
) -> None:
    names = ["multi-pack-index", *(path.name for path in packed.glob("*.pack"))]
    names += [path.name for path in packed.glob("*.idx")]
    name = data.draw(st.sampled_from(sorted(names)))
    folder = tmp_path / "objects"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(packed, folder / "pack")
    content = bytearray((folder / "pack" / name).read_bytes())
    content[place % len(content)] ^= bits
    (folder / "pack" / name).chmod(0o644)
    (folder / "pack" / name).write_bytes(content)
    with closing(ObjectStore(str(folder), SHA1)) as store:
        for object_id, (kind, size) in KNOWN.items():
            store.size(object_id)
            try:
                assert len(store.read(object_id, kind)) == size
            except MissingObject:
                continue
        store.missing(KNOWN)


KNOWN: dict[ObjectID, tuple[bytes, int]] = {}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small packs with deltas, and a multi-pack index."""
    top = history(tmp_path_factory.mktemp("damage") / "repo", commits=4)
    git("-c", "pack.packSizeLimit=8k", "repack", "-adfq", cwd=top)
    git("multi-pack-index", "write", cwd=top)
    KNOWN.update(listed(top))
    return top / ".git/objects/pack"
