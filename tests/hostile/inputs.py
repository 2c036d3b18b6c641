# SPDX-License-Identifier: MIT
"""Hostile checkpoints by name: trees, contents, commits, states and refs.

Each is made by a function that gets a forge. What has to become of it is for the tests to say.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping

from helpers import git
from hostile.forge import ID, NULL, Forge

Make = Callable[[Forge], None]

FILE, FOLDER, LINK, GITLINK = "100644", "40000", "120000", "160000"


# -- trees -------------------------------------------------------------------------------


def named(name: bytes, mode: str = FILE) -> Make:
    """A tree with one entry of a bad name."""

    def make(forge: Forge) -> None:
        child = forge.blob()
        if mode == FOLDER:
            child = forge.tree((FILE, b"config", child), (FILE, b"x", child))
        forge.checkpoint(forge.tree((mode, name, child)))

    return make


def listing(*rows: tuple[str, bytes]) -> Make:
    """A tree of several entries in that order; folders hold a file."""

    def make(forge: Forge) -> None:
        inner = {FILE: forge.blob(), LINK: forge.blob(b"../outside")}
        inner[FOLDER] = forge.tree((FILE, b"x", inner[FILE]))
        rest = [(mode, name, inner.get(mode.lstrip("0"), inner[FILE])) for mode, name in rows]
        forge.checkpoint(forge.tree(*rest))

    return make


def deep(forge: Forge) -> None:
    forge.checkpoint(forge.chain([b"d"] * 10_000, forge.tree((FILE, b"f", forge.blob()))))


def deep_and_long(forge: Forge) -> None:
    """A file at each of many levels: twelve gigabytes of paths in a few megabytes."""
    blob = forge.blob()
    tree = forge.tree((FILE, b"f", blob))
    for _ in range(3000):
        tree = forge.tree((FOLDER, b"d" * 250, tree), (FILE, b"f", blob))
    forge.checkpoint(tree)


def wide(forge: Forge) -> None:
    """Ten times ten times … the same folder: eleven objects, ten thousand million files."""
    blob = forge.blob()
    tree = forge.tree(*((FILE, b"%d" % n, blob) for n in range(10)))
    for _ in range(9):
        tree = forge.tree(*((FOLDER, b"%d" % n, tree) for n in range(10)))
    forge.checkpoint(tree)


def wide_without_files(forge: Forge) -> None:
    """The same of folders alone, of which no file is ever found."""
    tree = forge.tree()
    for _ in range(9):
        tree = forge.tree(*((FOLDER, b"%d" % n, tree) for n in range(10)))
    forge.checkpoint(tree)


def of_kind(mode: str, kind: str) -> Make:
    """An entry that says it is one thing and names another."""

    def make(forge: Forge) -> None:
        things = {"blob": forge.blob(), "tree": forge.tree_id, "commit": forge.parents[0]}
        things |= {"nothing": "1" * 40, "zeros": NULL}
        forge.checkpoint(forge.tree((mode, b"a", things[kind])))

    return make


def top_is(kind: str) -> Make:
    def make(forge: Forge) -> None:
        things = {"blob": forge.blob(), "commit": forge.parents[0], "nothing": "1" * 40}
        forge.checkpoint(things[kind])

    return make


TREES: Mapping[str, Make] = {
    "upwards": named(b".."),
    "upwards as a folder": named(b"..", FOLDER),
    "here": named(b"."),
    "here as a folder": named(b".", FOLDER),
    "empty name": named(b""),
    "empty name as a folder": named(b"", FOLDER),
    "absolute": named(b"/etc/x"),
    "a path": named(b"../outside/x"),
    "git dir": named(b".git", FOLDER),
    "git file": named(b".git"),
    "git link": named(b".git", LINK),
    "git dir in capitals": named(b".GIT", FOLDER),
    "git dir in both": named(b".Git", FOLDER),
    "NTFS short name": named(b"git~1", FOLDER),
    "NTFS short name in capitals": named(b"GIT~1", FOLDER),
    "NTFS stream": named(b".git::$INDEX_ALLOCATION", FOLDER),
    "NTFS other stream": named(b".git:x", FOLDER),
    "NTFS dot": named(b".git.", FOLDER),
    "NTFS space": named(b".git ", FOLDER),
    "NTFS dots and spaces": named(b".git . .", FOLDER),
    "NTFS backslash": named(b".git\\config"),
    "NTFS backslash inside": named(b"a\\.git\\config"),
    "HFS+ joiner": named(".g\u200cit".encode(), FOLDER),
    "HFS+ mark": named("\ufeff.git".encode(), FOLDER),
    "HFS+ direction": named(".gi\u202et".encode(), FOLDER),
    "HFS+ capitals": named(".GI\u206fT".encode(), FOLDER),
    "a link to submodules": named(b".gitmodules", LINK),
    "a link to submodules in capitals": named(b".GitModules", LINK),
    "submodules in a folder": named(b".gitmodules", FOLDER),
    "submodules that are one": named(b".gitmodules", GITLINK),
    "NTFS short name of submodules": named(b"GITMOD~1", LINK),
    "NTFS hashed name of submodules": named(b"gi7eba~1", LINK),
    "NTFS stream of submodules": named(b".gitmodules:x", LINK),
    "HFS+ joiner in submodules": named(".git\u200cmodules".encode(), LINK),
    "link and a folder": listing((LINK, b"a"), (FOLDER, b"a")),
    "folder and a link": listing((FOLDER, b"a"), (LINK, b"a")),
    "the same twice": listing((FILE, b"a"), (FILE, b"a")),
    "twice as folders": listing((FOLDER, b"a"), (FOLDER, b"a")),
    "twice apart": listing((FILE, b"a"), (FILE, b"a.b"), (FOLDER, b"a")),
    "not sorted": listing((FILE, b"b"), (FILE, b"a")),
    "folder sorted as a file": listing((FOLDER, b"a"), (FILE, b"a.b")),
    "group may write": listing(("100664", b"a")),
    "set user id": listing(("104755", b"a")),
    "device": listing(("20666", b"a")),
    "pipe": listing(("10644", b"a")),
    "socket": listing(("140755", b"a")),
    "no mode": listing(("0", b"a")),
    "mode without end": listing(("1" * 40, b"a")),
    "mode that is no number": listing(("10x644", b"a")),
    "zero before a mode": listing(("040000", b"a")),
    "blob for a folder": of_kind(FOLDER, "blob"),
    "commit for a folder": of_kind(FOLDER, "commit"),
    "nothing for a folder": of_kind(FOLDER, "nothing"),
    "tree for a file": of_kind(FILE, "tree"),
    "commit for a file": of_kind(FILE, "commit"),
    "nothing for a file": of_kind(FILE, "nothing"),
    "tree for a link": of_kind(LINK, "tree"),
    "zeros for a submodule": of_kind(GITLINK, "zeros"),
    "blob at the top": top_is("blob"),
    "commit at the top": top_is("commit"),
    "nothing at the top": top_is("nothing"),
}


# What takes for ever, or all memory, if it is believed.
BOMBS: Mapping[str, Make] = {
    "depth of 10,000": deep,
    "deep and long": deep_and_long,
    "ten thousand million files": wide,
    "a thousand million folders": wide_without_files,
}


# -- objects that are not what they say -----------------------------------------------------

_BOMB = 1 << 26


def loose(file: bytes, mode: str = FILE) -> Make:
    """An entry whose object is that file, under a name that it does not hash to."""

    def make(forge: Forge) -> None:
        name = forge.put("ab" * 20, file)
        forge.checkpoint(forge.tree((mode, b"a", name)))

    return make


def cut_off(forge: Forge) -> None:
    tree = forge.tree((FILE, b"a", forge.blob()))
    path = forge.git_dir / "objects" / tree[:2] / tree[2:]
    path.write_bytes(path.read_bytes()[:-6])
    forge.checkpoint(tree)


def tree_bytes(data: bytes) -> Make:
    return lambda forge: forge.checkpoint(forge.object("tree", data))


OBJECTS: Mapping[str, Make] = {
    "a bomb that says it is small": loose(zlib.compress(b"blob 5\0" + bytes(_BOMB))),
    "a bomb for a folder": loose(zlib.compress(b"tree 5\0" + bytes(_BOMB)), FOLDER),
    "a crumb that says it is large": loose(zlib.compress(b"blob 1099511627776\0x")),
    "a crumb for a folder": loose(zlib.compress(b"tree 1099511627776\0x"), FOLDER),
    "a size without end": loose(zlib.compress(b"blob " + b"9" * 60 + b"\0x")),
    "a negative size": loose(zlib.compress(b"blob -1\0x")),
    "no header": loose(zlib.compress(b"x")),
    "no kind of object": loose(zlib.compress(b"toy 1\0x")),
    "no zlib": loose(b"x" * 100),
    "no byte": loose(b""),
    "another content": loose(zlib.compress(b"blob 1\0x")),
    "a tree that was cut off": cut_off,
    "a tree without ids": tree_bytes(b"100644 a\0abc"),
    "a tree without names": tree_bytes(b"100644"),
    "a tree of zeros": tree_bytes(bytes(100)),
    "a tree of text": tree_bytes(b"hello\n"),
}


# -- commits ---------------------------------------------------------------------------------


def trailer(key: str, value: str | None) -> Make:
    """One trailer of the commit with another value, or without it."""

    def make(forge: Forge) -> None:
        line = next(x for x in forge.message.split("\n") if x.startswith(f"Ckpt-{key}: "))
        new = "" if value is None else f"Ckpt-{key}: {value}\n"
        forge.checkpoint(changes=[(line + "\n", new)])

    return make


def again(key: str, value: str) -> Make:
    return lambda forge: forge.checkpoint(
        changes=[("Ckpt-Format: ", f"Ckpt-{key}: {value}\nCkpt-Format: ")]
    )


def message(text: bytes) -> Make:
    return lambda forge: forge.ref(forge.commit(forge.tree_id, forge.parents, text))


def commit_bytes(text: str) -> Make:
    def make(forge: Forge) -> None:
        filled = text.replace("TREE", forge.tree_id).replace("STATE", forge.state_id)
        filled = filled.replace("HEAD", forge.parents[0])
        whole = filled.replace("MESSAGE", forge.message.replace(forge.like, forge.id))
        forge.ref(forge.object("commit", whole.encode()))

    return make


COMMITS: Mapping[str, Make] = {
    "no message": message(b""),
    "no text": message(b"\xff\xfe\0\x80"),
    "no trailers": message(b"x\n\nhello\n"),
    "a million trailers": message(b"x\n\n" + b"Ckpt-Format: 1\n" * 1_000_000),
    "a trailer of a megabyte": trailer("Session", "x" * (1 << 20)),
    "a name of a megabyte": lambda forge: forge.checkpoint(
        changes=[("good\n\nwhy", "x" * (1 << 20) + "\n\nwhy")]
    ),
    "no kind": trailer("Kind", None),
    "an unknown kind": trailer("Kind", "evil"),
    "an unknown scope": trailer("Scope", "everything"),
    "no scope": trailer("Scope", None),
    "no time": trailer("Timestamp", "yesterday"),
    "a time without a zone": trailer("Timestamp", "2026-11-15T23:34:12.123456"),
    "the first of all times": trailer("Timestamp", "0001-01-01T00:00:00.000000+00:00"),
    "before all times": trailer("Timestamp", "0001-01-01T00:00:00.000000+14:00"),
    "before git's first time": trailer("Timestamp", "1970-01-01T00:00:00.000000+14:00"),
    "the last of all times": trailer("Timestamp", "9999-12-31T23:59:59.999999+00:00"),
    "after all times": trailer("Timestamp", "9999-12-31T23:59:59.999999-14:00"),
    "no stats": trailer("Stats", "many"),
    "endless stats": trailer("Stats", "9" * 5000 + " 0 0"),
    "large stats": trailer("Stats", "9" * 4000 + " 0 0"),
    "negative stats": trailer("Stats", "1 -5 3"),
    "too many stats": trailer("Stats", "1 2 3 4"),
    "no state": trailer("State", None),
    "the state of nothing": trailer("State", "1" * 40),
    "a newer format": trailer("Format", "2"),
    "another id": again("Id", "20200101-000000-000-aaaa"),
    "two states": again("State", "1" * 40),
    "two kinds": again("Kind", "evil"),
    "no parents": lambda forge: forge.checkpoint(parents=[]),
    "a missing HEAD": lambda forge: forge.checkpoint(
        parents=["1" * 40, forge.state_id], changes=[(forge.parents[0], "1" * 40)]
    ),
    "HEAD is a blob": lambda forge: forge.checkpoint(
        parents=[forge.blob(), forge.state_id], changes=[(forge.parents[0], forge.blob())]
    ),
    "a missing state": lambda forge: forge.checkpoint(state="1" * 40),
    "the state is a blob": lambda forge: forge.checkpoint(state=forge.blob()),
    "the state is the checkpoint's HEAD": lambda forge: forge.checkpoint(state=forge.parents[0]),
    "the state has no tree": lambda forge: forge.checkpoint(
        state=forge.object("commit", b"author x\n\nx")
    ),
    "the state's tree is a blob": lambda forge: forge.checkpoint(
        state=forge.commit(forge.blob(), [], "x\n")
    ),
    "the state's tree is missing": lambda forge: forge.checkpoint(
        state=forge.commit("1" * 40, [], "x\n")
    ),
    "no tree": commit_bytes("parent STATE\n\nMESSAGE"),
    "a tree that is no id": commit_bytes("tree ../../x\nparent STATE\n\nMESSAGE"),
    "two trees": commit_bytes(f"tree TREE\ntree {NULL}\nparent HEAD\nparent STATE\n\nMESSAGE"),
    "an empty commit": commit_bytes(""),
    "a commit of one line": commit_bytes("tree TREE"),
}


# -- states -----------------------------------------------------------------------------------


def part(key: str, content: bytes | object) -> Make:
    """One file of the state tree with another content."""

    def make(forge: Forge) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        forge.checkpoint(state=forge.state(**{key: (FILE, forge.blob(data))}))

    return make


def folder(key: str, **files: bytes) -> Make:
    """One folder of the state tree with other files, by path."""

    def make(forge: Forge) -> None:
        forge.checkpoint(state=forge.state(**{key: (FOLDER, nested(forge, files))}))

    return make


def nested(forge: Forge, files: Mapping[str, bytes]) -> str:
    """A tree of files by path."""
    rows: dict[bytes, tuple[str, bytes, str]] = {}
    inner: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        first, slash, rest = path.partition("/")
        if slash:
            inner.setdefault(first, {})[rest] = data
        else:
            rows[first.encode()] = (FILE, first.encode(), forge.blob(data))
    for name, below in inner.items():
        rows[name.encode() + b"/"] = (FOLDER, name.encode(), nested(forge, below))
    return forge.tree(*(rows[key] for key in sorted(rows)))


def manifest(**changes: object) -> Make:
    """The real manifest with other values."""

    def make(forge: Forge) -> None:
        real = json.loads(git("cat-file", "blob", f"{forge.state_tree}:manifest.json"))
        part("manifest__json", {**real, **changes})(forge)

    return make


def intended(*paths: str) -> dict[str, object]:
    """Flags of an index with paths that shall be added."""
    return {"version": 2, "intent_to_add": [{"path": p, "mode": "100644"} for p in paths]}


def inside(path: str) -> dict[str, object]:
    """A repository in the worktree, as a manifest has it."""
    rest = dict.fromkeys(("branch", "commit", "problem"))
    return {"path": path, "checkpoint": ID, "dirty": False, **rest}


def repository_inside(**facts: object) -> Make:
    """A manifest with one repository inside, of which nothing is known but these facts."""
    unknown = dict.fromkeys(("branch", "checkpoint", "commit_hash", "dirty", "problem"))
    return manifest(nested=[{"path": "sub", **unknown, **facts}])


def huge_manifest(forge: Forge) -> None:
    """Of more than a hundred megabytes, in a few kilobytes."""
    packer = zlib.compressobj(9)
    size = (128 << 20) + (1 << 20)
    digest = hashlib.sha1(b"blob %d\0" % size)
    parts = [packer.compress(b"blob %d\0" % size)]
    piece = b" " * (1 << 20)
    for _ in range(size >> 20):
        digest.update(piece)
        parts.append(packer.compress(piece))
    parts.append(packer.flush())
    name = forge.put(digest.hexdigest(), b"".join(parts))
    forge.checkpoint(state=forge.state(manifest__json=(FILE, name)))


def state_file(path: str, permissions: object = 0o644, content: bytes = b"hostile\n") -> Make:
    """A checkpoint with one state file, under a path as the list has it."""

    def make(forge: Forge) -> None:
        listed = json.dumps({"files": [{"path": path, "permissions": permissions}]}).encode()
        files = {"files.json": listed}
        if permissions is not None:
            files[f"files/{path}"] = content
        inner = nested(forge, files)
        forge.checkpoint(state=forge.state(state=(FOLDER, inner)))

    return make


DEEP_JSON = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
DEEP_LIST = b"[" * 100_000 + b"]" * 100_000
ODD = (None, True, 7, -1, 1e300, "x", [], [7], [{}], {}, {"a": 1}, [None], [["x"]])
KEYS = (
    *("empty_folders", "excludes", "include", "modes"),
    *("nested", "operation", "skipped", "unskipped"),
)

STATES: Mapping[str, Make] = {
    "no manifest": lambda forge: forge.checkpoint(state=forge.state(manifest__json=None)),
    "a manifest that is no JSON": part("manifest__json", b"{"),
    "a manifest of bytes": part("manifest__json", b"\xff\xfe\0"),
    "an empty manifest": part("manifest__json", b""),
    "a manifest that is a list": part("manifest__json", []),
    "a manifest without anything": part("manifest__json", {}),
    "a deep manifest": part("manifest__json", DEEP_JSON),
    "a manifest of lists": part("manifest__json", DEEP_LIST),
    "a number without end": part("manifest__json", b'{"modes": ' + b"9" * 1_000_000 + b"}"),
    "a manifest that is a folder": lambda forge: forge.checkpoint(
        state=forge.state(manifest__json=(FOLDER, forge.tree()))
    ),
    "modes that are no numbers": manifest(modes={"plain": "x", "executable": "y", "others": []}),
    "modes without end": manifest(
        modes={"plain": "7" * 5000, "executable": "755", "others": [], "folder": "7" * 4000}
    ),
    "folders outside": manifest(empty_folders=[{"path": "../outside/made"}]),
    "folders in the git dir": manifest(empty_folders=[{"path": ".git/made"}]),
    "an absolute folder": manifest(empty_folders=[{"path": "/tmp/hostile-made"}]),
    "a folder of no name": manifest(empty_folders=[{"path": ""}]),
    "a folder with a zero": manifest(empty_folders=[{"path": "a\0b"}]),
    "half a character": manifest(empty_folders=[{"path": "\ud800"}]),
    "nested outside": repository_inside(path="../outside", checkpoint=ID),
    "a commit inside that is a number": repository_inside(commit_hash=7),
    "a branch inside that is a number": repository_inside(branch=7),
    "a checkpoint inside that is a number": repository_inside(checkpoint=7),
    "a checkpoint inside that is no id": repository_inside(checkpoint="../x"),
    "neither changed nor clean inside": repository_inside(dirty=[]),
    "a problem inside that is a list": repository_inside(problem=[]),
    "rules without end": manifest(excludes={"global": "a*b\n" * 300_000}),
    "an operation of numbers": manifest(operation=7),
    "deep flags": part("index_flags__json", DEEP_JSON),
    "flags of lists": part("index_flags__json", DEEP_LIST),
    "flags of the wrong kind": part("index_flags__json", {"intent_to_add": 7}),
    "intended outside": part("index_flags__json", intended("../outside/x")),
    "intended in the git dir": part("index_flags__json", intended(".git/x")),
    "intended of a bad mode": part(
        "index_flags__json",
        {"version": 2, "intent_to_add": [{"path": "x", "mode": "-7777777777777"}]},
    ),
    "intended twice": part(
        "index_flags__json",
        {"version": 2, "intent_to_add": [{"path": "README.md", "mode": "100644"}] * 2},
    ),
    "intended below a file": part("index_flags__json", intended("README.md/x")),
    "intended above a file": part("index_flags__json", intended("src")),
    "intended below another": part("index_flags__json", intended("new", "new.x", "new/x/y")),
    "an index that is a file": part("index", b"x"),
    "an index with the git dir": lambda forge: forge.checkpoint(
        state=forge.state(index=(FOLDER, forge.tree((FILE, b".git", forge.blob()))))
    ),
    "an index with twins": lambda forge: forge.checkpoint(
        state=forge.state(
            index=(FOLDER, forge.tree((FILE, b"a", forge.blob()), (FILE, b"a", forge.blob())))
        )
    ),
    "an index of devices": lambda forge: forge.checkpoint(
        state=forge.state(index=(FOLDER, forge.tree(("20666", b"a", forge.blob()))))
    ),
    "an index with a link to submodules": lambda forge: forge.checkpoint(
        state=forge.state(index=(FOLDER, forge.tree((LINK, b".gitmodules", forge.blob()))))
    ),
    "an intended link to submodules": part(
        "index_flags__json",
        {"version": 2, "intent_to_add": [{"path": "a/.gitmodules", "mode": LINK}]},
    ),
    "an index with a submodule of zeros": lambda forge: forge.checkpoint(
        state=forge.state(index=(FOLDER, forge.tree((GITLINK, b"a", NULL))))
    ),
    "stages that are a file": part("stages", b"x"),
    "raw that is a file": part("raw", b"x"),
    "deep data": folder("state", **{"data.json": DEEP_JSON}),
    "data that are no JSON": folder("state", **{"data.json": b"\x80\x04."}),
    "state that is a file": part("state", b"x"),
    "state files that are no list": folder("state", **{"files.json": b"7"}),
    "deep state files": folder("state", **{"files.json": DEEP_JSON}),
    "a state file of no bits": folder(
        "state", **{"files.json": b'{"files": [{"path": "x", "permissions": "x"}]}'}
    ),
    "a state file of endless bits": state_file("x", float("inf")),
    "features of bytes": folder(
        "state", **{"features.json": b'{"current": {"$ckpt": "bytes", "value": "YQ=="}}'}
    ),
    "features of lists": folder("state", **{"features.json": b'{"completed": [[]]}'}),
    "tracked without sense": folder("state", **{"tracked.json": b"{"}),
} | {
    f"{key} is {value!r}": manifest(**{key: value})
    for number, key in enumerate(KEYS, 1)
    for value in ODD[number % 3 :: 3]
}


# Paths that are in no tree, and of which some file system takes a part for the git dir.
GIT_DIRS = ("git~1/x", "a/GIT~1", ".g\u200cit/x", ".git /x", ".git::$DATA", "a\\..\\.git")
PATHS: Mapping[str, Make] = {
    f"{what} at {path[:12]!a}": make(path)
    for path in (*GIT_DIRS, "a/" * 3000 + "a")
    for what, make in {
        "an empty folder": lambda path: manifest(empty_folders=[{"path": path}]),
        "a repository": lambda path: manifest(nested=[inside(path)]),
        "an intended file": lambda path: part("index_flags__json", intended(path)),
        "no state file": lambda path: state_file(path, None),
    }.items()
}

STATE_FILES: Mapping[str, Make] = {
    "a state file outside": state_file("../outside/x"),
    "an absolute state file": state_file("/tmp/hostile-state"),
    "a state file in the git dir": state_file(".git/hooks/post-checkout"),
    "a state file in capitals": state_file(".GIT/config"),
    "a state file of no name": state_file(""),
    "a state file here": state_file("."),
    "a state file up and down": state_file("src/../../outside/x"),
    "no state file outside": state_file("../outside/x", None),
    "no state file in the git dir": state_file(".git/config", None),
    "no state file of that place": state_file("/etc/hostname", None),
}


# -- refs -------------------------------------------------------------------------------------


def says(text: str) -> Make:
    return lambda forge: forge.ref(text)


def _tag(forge: Forge) -> None:
    commit = git_ref(forge)
    text = f"object {commit}\ntype commit\ntag x\ntagger x <x> 0 +0000\n\nx\n"
    forge.ref(forge.object("tag", text.encode()))


def git_ref(forge: Forge) -> str:
    return (forge.git_dir / "refs/checkpoints" / forge.like).read_text().strip()


REFS: Mapping[str, Make] = {
    "a link to HEAD": says("ref: HEAD"),
    "a link to a branch": says("ref: refs/heads/main"),
    "a link to itself": lambda forge: forge.ref(f"ref: refs/checkpoints/{forge.id}"),
    "a link to another checkpoint": lambda forge: forge.ref(f"ref: refs/checkpoints/{forge.like}"),
    "a link outside": says("ref: ../../../outside/x"),
    "a link to nothing": says("ref: refs/heads/none"),
    "no object": says(NULL),
    "no such object": says("1" * 40),
    "no id": says("hello"),
    "an empty ref": says(""),
    "a long ref": says("1" * 100_000),
    "a blob": lambda forge: forge.ref(forge.blob()),
    "a tree": lambda forge: forge.ref(forge.tree_id),
    "a tag": _tag,
    "HEAD's commit": lambda forge: forge.ref(forge.parents[0]),
    "the commit of another id": lambda forge: forge.ref(git_ref(forge)),
    "the state": lambda forge: forge.ref(forge.state_id),
}

# What is odd about these matters to nobody.
HARMLESS = {
    *("HEAD is a blob", "a missing HEAD", "a trailer of a megabyte"),
    *("not sorted", "folder sorted as a file"),
    *(
        "include is [['x']]",
        "include is []",
        "include is {}",
        "operation is None",
    ),
    "zero before a mode",  # as an old git wrote it
    *("modes without end", "raw that is a file", "stages that are a file"),
}
