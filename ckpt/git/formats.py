# SPDX-License-Identifier: MIT
"""How a repository names its objects: SHA-1 or SHA-256, in hexadecimal or as raw bytes.

dulwich has the same values, but an unchanged save must not wait for dulwich to be imported.
"""

from __future__ import annotations

import hashlib
from binascii import hexlify
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dulwich.objects import ObjectID as ObjectID
else:
    ObjectID = bytes

NewHash = Callable[..., Any]


class ObjectFormat(NamedTuple):
    """One of the two values below."""

    name: str
    oid_length: int
    new_hash: NewHash

    @property
    def hex_length(self) -> int:
        return 2 * self.oid_length


SHA1 = ObjectFormat("sha1", 20, hashlib.sha1)
SHA256 = ObjectFormat("sha256", 32, hashlib.sha256)
_BY_NAME = {"sha1": SHA1, "sha256": SHA256}


def get_object_format(name: str) -> ObjectFormat:
    """The format that `extensions.objectFormat` names; ValueError for any other."""
    try:
        return _BY_NAME[name.lower()]
    except KeyError:
        raise ValueError(f"unknown object format '{name}'") from None


def to_hex(raw_id: bytes) -> ObjectID:
    return ObjectID(hexlify(raw_id))
