# SPDX-License-Identifier: MIT
"""SHA-1 and SHA-256, for a little and for a lot.

OpenSSL's are eight times as quick as the ones that Python brings along, but they take 4 ms to
load, as long as Python's take for a megabyte. So a process that hashes little in all does
without OpenSSL. Where Python was built without its own, there is only OpenSSL.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` takes 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import _Hash

MUCH = 1 << 18  # bytes: what Python takes a millisecond for; most likely there is more to come

_PLAIN_MODULES = {"sha1": ("_sha1",), "sha256": ("_sha256", "_sha2")}  # _sha2 since Python 3.12
_makers: dict[str, Callable[[bytes | memoryview], _Hash]] = {}
_amount = 0


def sha1(data: bytes | memoryview = b"", *, expected: int | None = None) -> _Hash:
    """`expected` is how many bytes there will be in all, where that is known."""
    return new("sha1", data, expected=expected)


def sha256(data: bytes | memoryview = b"", *, expected: int | None = None) -> _Hash:
    return new("sha256", data, expected=expected)


def new(name: str, data: bytes | memoryview = b"", *, expected: int | None = None) -> _Hash:
    global _amount
    if _amount < MUCH:
        _amount += (len(data) or MUCH) if expected is None else expected
        if _amount >= MUCH:
            _makers.clear()
    maker = _makers.get(name)
    if maker is None:
        maker = _makers[name] = _plain(name) if _amount < MUCH else _openssl(name)
    return maker(data)


def _plain(name: str) -> Callable[[bytes | memoryview], _Hash]:
    for module in _PLAIN_MODULES[name]:
        try:
            maker: Callable[[bytes | memoryview], _Hash] = getattr(__import__(module), name)
            return maker
        except ImportError:
            continue
    return _openssl(name)


def _openssl(name: str) -> Callable[[bytes | memoryview], _Hash]:
    import hashlib

    return {"sha1": hashlib.sha1, "sha256": hashlib.sha256}[name]
