# SPDX-License-Identifier: MIT
"""SHA-1 or SHA-256: how a repository names its objects.

A value of our own, since dulwich's comes with 40 ms of imports. Says how long an id is,
in bytes and in hexadecimal digits, and makes the hash that ids are made of.
"""

from __future__ import annotations

from ckpt.hashing import sha1, sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import _Hash

    NewHash = Callable[..., _Hash]


class ObjectFormat:
    """One of the two values below."""

    __slots__ = ("hex_length", "name", "new_hash", "oid_length")

    def __init__(self, name: str, oid_length: int, new_hash: NewHash) -> None:
        self.name = name
        self.oid_length = oid_length
        self.hex_length = 2 * oid_length
        self.new_hash = new_hash

    def __repr__(self) -> str:
        return f"ObjectFormat({self.name!r})"


SHA1 = ObjectFormat("sha1", 20, sha1)
SHA256 = ObjectFormat("sha256", 32, sha256)
_BY_NAME = {"sha1": SHA1, "sha256": SHA256}


def get_object_format(name: str) -> ObjectFormat:
    """The format that `extensions.objectFormat` names; ValueError for any other."""
    try:
        return _BY_NAME[name.lower()]
    except KeyError:
        raise ValueError(f"unknown object format '{name}'") from None
