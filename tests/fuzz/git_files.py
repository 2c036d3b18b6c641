# SPDX-License-Identifier: MIT
"""The files that git writes and ckpt reads by itself, and what filters answer.

The samples are made by git where it is quick about it. The checksums at the end of packs and
indexes are left out or made right, as the reader does not look at them or would go no further.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha1
from pathlib import Path

from byhand import object_store, pack
from fuzz.parsers import Read, Samples, parser
from helpers import git
from reftables import put_stack, table

from ckpt.errors import CkptError
from ckpt.git import bundle
from ckpt.git import config as config_globs
from ckpt.git import index as index_glance
from ckpt.git import rules as attributes
from ckpt.git import rules as ignore
from ckpt.git.config import ConfigError, GitConfig, parse_environment, parse_file
from ckpt.git.formats import SHA1, ObjectID
from ckpt.git.index import CorruptIndex
from ckpt.git.loose import DamagedObject, parse_loose
from ckpt.git.objects import MissingObject
from ckpt.git.pack_writer import make_delta
from ckpt.git.packs import (
    DamagedIndex,
    MultiPackIndex,
    apply_delta,
    load_pack_index,
    object_size,
    parse_entry,
)
from ckpt.git.refs import PackedRefs
from ckpt.git.reftable import CorruptReftable, read_stack
from ckpt.git.repository import read_format
from ckpt.install import record

LOW, HIGH = bytes(20), b"\xff" * 20
CONTENTS = (b"one " * 40, b"one " * 40 + b"two", b"three")
PATHS = [b"a", b"b/c", b"b/d"]


@contextmanager
def _repository(folder: Path) -> Iterator[Path]:
    git("init", "-q", cwd=folder)
    for path in PATHS:
        place = folder / os.fsdecode(path)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(path)
    git("add", ".", cwd=folder)
    yield folder / ".git"


# -- the index -------------------------------------------------------------------------


@parser(CorruptIndex)
def an_index_that_is_glanced_at(folder: Path) -> tuple[Samples, Read]:
    with _repository(folder) as git_dir:
        tree = git("write-tree", cwd=folder).strip().encode()
        right = (git_dir / "index").read_bytes()
    assert index_glance.glance(right, 1, PATHS, tree, 20) is not None

    def read(data: bytes) -> object:
        found = index_glance.glance(data, 1, PATHS, tree, 20)
        return None if found is None else ([*found.at(PATHS)], [*found.sizes()])

    return [right], read


# -- objects ---------------------------------------------------------------------------


@parser(DamagedObject)
def a_loose_object(folder: Path) -> tuple[Samples, Read]:
    return [zlib.compress(b"blob 160\0" + CONTENTS[0])], parse_loose


@parser(DamagedObject)
def the_header_of_a_loose_object(folder: Path) -> tuple[Samples, Read]:
    return [b"blob 160\0" + CONTENTS[0]], lambda data: parse_loose(zlib.compress(data, 0))


@parser(DamagedObject)
def an_entry_of_a_pack(folder: Path) -> tuple[Samples, Read]:
    name = pack(folder, *CONTENTS, deltify=True)
    return [name.read_bytes()[12:-20]], lambda data: (
        object_size(data, 0, 20),
        parse_entry(data, 12, 20),
    )


@parser(DamagedObject)
def a_delta(folder: Path) -> tuple[Samples, Read]:
    base = CONTENTS[0]
    return [make_delta(base, CONTENTS[1])], lambda data: apply_delta(base, data)


@parser(MissingObject)
def a_pack(folder: Path) -> tuple[Samples, Read]:
    name = pack(folder, *CONTENTS, deltify=True)
    with closing(object_store(folder)) as store:
        ids = [store.hash(b"blob", content) for content in CONTENTS]

    def read(data: bytes) -> object:
        name.write_bytes(data)
        with closing(object_store(folder)) as store:
            store.sizes(ids), [(store.size(each), store.kind(each)) for each in ids]
            [[*store.pieces(each)] for each in ids if store.has(each)]
            return [store.read(each, b"blob") for each in ids]

    return [name.read_bytes()], read


@parser(DamagedIndex)
def the_index_of_a_pack(folder: Path) -> tuple[Samples, Read]:
    """Of both versions: git still reads the first."""
    name = pack(folder, *CONTENTS)
    second = name.with_suffix(".idx").read_bytes()
    git("index-pack", "--index-version=1", "-o", folder / "first.idx", name)

    def read(data: bytes) -> object:
        (folder / "x.idx").write_bytes(data)
        found = load_pack_index(str(folder / "x.idx"), 20, SHA1.name)
        some = [LOW, HIGH, sha1(b"blob 5\0three").digest()]
        return (
            [found.find(each) for each in some],
            found.find_many(some),
            [*found.between(LOW, HIGH)],
            [*found.offsets()],
        )

    return [second, (folder / "first.idx").read_bytes()], read


@parser()
def packs_whose_index_is_damaged(folder: Path) -> tuple[Samples, Read]:
    name = pack(folder, *CONTENTS)
    git("index-pack", "--index-version=1", "-o", folder / "first.idx", name)
    index = name.with_suffix(".idx")
    second = index.read_bytes()

    def read(data: bytes) -> object:
        index.write_bytes(data)
        with closing(object_store(folder)) as store:
            some = [store.hash(b"blob", content) for content in CONTENTS]
            found = store.beginning_with(some[0][:4]), store.missing(some), store.sizes(some)
            return found, [store.has(each) for each in some]

    return [second, (folder / "first.idx").read_bytes()], read


@parser(DamagedIndex)
def an_index_of_many_packs(folder: Path) -> tuple[Samples, Read]:
    with _repository(folder) as git_dir:
        for content in CONTENTS:
            pack(git_dir / "objects", content)
        git("multi-pack-index", "write", cwd=folder)
        right = (git_dir / "objects/pack/multi-pack-index").read_bytes()

    def read(data: bytes) -> object:
        found = MultiPackIndex(data, 20)
        some = [LOW, HIGH, sha1(b"blob 5\0three").digest()]
        return [found.find(each) for each in some], found.find_many(some)

    return [right], read


@parser(CkptError)
def a_bundle(folder: Path) -> tuple[Samples, Read]:
    with closing(object_store(folder / "objects")) as store:
        ids = [store.add(b"blob", content) for content in CONTENTS]
        store.flush()
        path = folder / "x.bundle"
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        bundle.write(store, fd, bundle.Header((ids[0],), {b"refs/x": ids[1]}), ids)
        os.close(fd)
    right = path.read_bytes()[:-20]

    def read(data: bytes) -> object:
        start = max(data.find(b"\n\nPACK"), 0) + 2
        path.write_bytes(data + sha1(data[start:]).digest())
        fd = os.open(path, os.O_RDONLY)
        try:
            with closing(object_store(folder / "others")) as store:
                header = bundle.read_header(fd, store)
                bundle.read_pack(fd, header.size, store)
                store.discard()
        finally:
            os.close(fd)
        return header

    return [right], read


# -- refs ------------------------------------------------------------------------------


@parser(CkptError)
def packed_refs(folder: Path) -> tuple[Samples, Read]:
    some = b"refs/heads/main", b"refs/checkpoints/x"

    def read(data: bytes) -> object:
        refs = PackedRefs(data, 40)
        told = [refs.obstacle_to(ref) for ref in some], refs.below("refs/"), refs.without(some[0])
        added = refs.with_refs({some[1]: ObjectID(b"3" * 40)}, some[:1])
        return told, refs.has_any(some), added, refs.clash(some), [refs.get(ref) for ref in some]

    text = (
        b"# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/main\n%s refs/tags/a\n^%s\n"
    )
    return [text % (b"1" * 40, b"2" * 40, b"1" * 40)], read


@parser(CorruptReftable)
def reftables(folder: Path) -> tuple[Samples, Read]:
    one = ObjectID(b"1" * 40)
    whole = table({b"refs/heads/%d" % number: one for number in range(9)}, per_block=4)

    def read(data: bytes) -> object:
        put_stack(folder, data)
        return read_stack(str(folder), 20)

    return [whole], read


# -- config ----------------------------------------------------------------------------

CONFIG = b"""\
[core]
\trepositoryformatversion = 1
\tbare = false ; why
[remote "a \\"b\\""]
\turl = "with \\t # \\
more" rest
\tpromisor
[extensions]
\tobjectFormat = sha1
[ckpt "retention.auto"]
\tlast = 5
"""


@parser(CkptError)
def the_config_of_a_repository(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        config = GitConfig(parse_file(data, "config"), {})
        config.get_bool("core.bare", False)
        return read_format(config, "config"), config.items("ckpt")

    return [CONFIG], read


@parser(ConfigError)
def the_condition_of_an_include(folder: Path) -> tuple[Samples, Read]:
    """A glob and a URL."""

    def read(data: bytes) -> object:
        glob, _, url = os.fsdecode(data).partition("\n")
        return config_globs.matches(glob, url), config_globs.matches(glob, url, ignore_case=True)

    return [b"https://**/[[:alpha:]]*a*b?[!x-z]\\]/**/c\nhttps://example.com/aabc]/c"], read


@parser(ConfigError)
def a_config_that_is_edited(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        longer = record.with_section(data, "ckpt", "a b", [("key", "value ;")])
        return record.without_entries(longer, lambda key, value: key.startswith("ckpt."))

    return [CONFIG], read


@parser(ConfigError)
def config_in_the_environment(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        names = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0")
        values = data.decode("utf-8", "surrogateescape").split("\n")
        env = dict(zip((*names, "GIT_CONFIG_PARAMETERS"), values, strict=False))
        return [*parse_environment(env)]

    return [b"1\ncore.bare\nfalse\n'core.a'='b c' 'x.y=z'"], read


# -- files of the worktree -------------------------------------------------------------


@parser()
def gitignore(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        rules = ignore.parse(data, b"b", ignore_case=True)
        return [rules.decide(path, is_dir) for path in (b"b/c.log", b"b/x/y") for is_dir in (0, 1)]

    return [b"# why\n*.log\n!/keep.log\nbuild/\n**/x[a-z!]/**\na\\ \\*\n[[:alpha:]]?\n"], read


@parser()
def gitattributes(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        attributes.asks_for_conversion(data)
        tree = attributes.AttributeTree(lambda path: data, info=data, user=data)
        return [tree.attributes(path) for path in (b"a.txt", b"b/c.bin", b"b/c")]

    return [
        b'[attr]mine text -diff\n*.txt mine eol=crlf\n"b\\tc" !text filter=x\n*.bin binary\n'
    ], read
