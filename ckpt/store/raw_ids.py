# SPDX-License-Identifier: MIT
"""Object ids as the bytes that trees and packs hold, half as long as in hexadecimal.

For those who keep a great many of them.
"""

from __future__ import annotations

from binascii import Error as NotHexadecimal
from binascii import hexlify, unhexlify

from ckpt.store.objects import ObjectID


def to_hex(raw_id: bytes) -> ObjectID:
    return ObjectID(hexlify(raw_id))


def to_raw(object_id: bytes) -> bytes | None:
    """None for what is no id."""
    try:
        return unhexlify(object_id)
    except NotHexadecimal:
        return None
