# SPDX-License-Identifier: MIT
"""Repositories with reftables, made by hand: most versions of git cannot make one.

A stack of tables is written as the format's description has it; nothing here is used
outside of tests.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from helpers import git

# An id in hexadecimal, two of them (a tag and what it peels to), "ref: NAME", or None: deleted.
Value = bytes | tuple[bytes, bytes] | None


def table(
    refs: Mapping[bytes, Value], *, hash_len: int = 20, block_size: int = 4096, per_block: int = 50
) -> bytes:
    """One table; `per_block` refs go into a block, blocks are padded unless size is 0."""
    version = b"\1" if hash_len == 20 else b"\2"
    header = b"REFT" + version + block_size.to_bytes(3, "big") + struct.pack(">QQ", 1, 1)
    header += b"s256" if hash_len == 32 else b""
    out = header
    names = sorted(refs)
    for start in range(0, len(names), per_block):
        position = len(out) if start else 0
        chosen = [(name, refs[name]) for name in names[start : start + per_block]]
        out += _block(chosen, len(out) - position)
        if block_size and start + per_block < len(names):
            out += bytes(position + block_size - len(out))
    footer = header + bytes(40)
    return out + footer + struct.pack(">I", zlib.crc32(footer))


def _block(refs: Iterable[tuple[bytes, Value]], offset: int) -> bytes:
    body, previous, restarts = b"", b"", []
    for number, (name, value) in enumerate(refs):
        shared = 0
        if number % 16:
            while shared < min(len(name), len(previous)) and name[shared] == previous[shared]:
                shared += 1
        else:
            restarts.append(offset + 4 + len(body))
        kind, content = _value(value)
        rest = name[shared:]
        body += _varint(shared) + _varint(len(rest) << 3 | kind) + rest + _varint(300) + content
        previous = name
    body += b"".join(place.to_bytes(3, "big") for place in restarts)
    body += struct.pack(">H", len(restarts))
    return b"r" + (offset + 4 + len(body)).to_bytes(3, "big") + body


def _value(value: Value) -> tuple[int, bytes]:
    if value is None:
        return 0, b""
    if isinstance(value, tuple):
        return 2, bytes.fromhex((value[0] + value[1]).decode())
    if value.startswith(b"ref: "):
        return 3, _varint(len(value) - 5) + value[5:]
    return 1, bytes.fromhex(value.decode())


def _varint(value: int) -> bytes:
    out = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        out.append(0x80 | value & 0x7F)
    return bytes(reversed(out))


def put_stack(folder: Path, *tables: bytes) -> None:
    folder.mkdir(exist_ok=True)
    names = [f"0x{number:012x}-0x{number:012x}-00000000.ref" for number in range(len(tables))]
    for name, content in zip(names, tables, strict=True):
        (folder / name).write_bytes(content)
    (folder / "tables.list").write_text("".join(name + "\n" for name in names))


def migrate(top: Path, hash_len: int = 20) -> None:
    """What `git refs migrate --ref-format=reftable` does in newer versions of git."""
    git_dir = top / ".git"
    lines = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=top).splitlines()
    refs: dict[bytes, Value] = {}
    for line in lines:
        name, value = line.encode().split(b" ")
        refs[name] = value
    refs[b"HEAD"] = (git_dir / "HEAD").read_bytes().strip()
    put_stack(git_dir / "reftable", table(refs, hash_len=hash_len))
    for line in lines:
        (git_dir / line.split(" ")[0]).unlink(missing_ok=True)
    (git_dir / "packed-refs").unlink(missing_ok=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/.invalid\n")
    git("config", "core.repositoryFormatVersion", "1", cwd=top)
    git("config", "extensions.refStorage", "reftable", cwd=top)
