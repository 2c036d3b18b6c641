# SPDX-License-Identifier: MIT
"""The same hashes with and without OpenSSL, which is loaded for large amounts only."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from ckpt import hashing


@pytest.fixture(autouse=True)
def nothing_hashed(monkeypatch) -> None:
    monkeypatch.setattr(hashing, "_amount", 0)
    monkeypatch.setattr(hashing, "_makers", {})


@pytest.mark.parametrize("name", ["sha1", "sha256"])
@pytest.mark.parametrize("size", [0, 1, 1000, hashing.MUCH - 1, hashing.MUCH, hashing.MUCH + 1])
def test_a_hash_does_not_depend_on_who_computes_it(name: str, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    digest = hashlib.new(name, data[:size]).hexdigest()
    streamed = hashing.new(name, expected=size)
    streamed.update(data[:size])

    assert hashing.new(name, data[:size]).hexdigest() == digest
    assert hashing.new(name, memoryview(data)[:size]).hexdigest() == digest
    assert streamed.hexdigest() == digest
    assert getattr(hashing, name)(data[:size]).digest().hex() == digest


@pytest.mark.parametrize(
    ("calls", "loaded"),
    [
        ("sha1(b'a'); sha256(b'a'); sha1(b'b')", False),
        ("sha1(expected=100)", False),
        ("sha1(expected=1 << 18)", True),
        ("sha1()", True),
        ("sha1(bytes(1 << 18))", True),
        ("[sha1(bytes(1 << 17)) for _ in 'ab']", True),
    ],
)
def test_openssl_is_loaded_for_large_amounts_only(calls: str, loaded: bool) -> None:
    code = f"import sys; from ckpt.hashing import *; {calls}; print('_hashlib' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout

    assert told.split() == [str(loaded).encode()]


@pytest.mark.parametrize("name", ["sha1", "sha256"])
def test_openssl_steps_in_where_python_brings_no_hash(name: str, monkeypatch) -> None:
    monkeypatch.setattr(hashing, "_PLAIN_MODULES", {name: ("_no_such_module",)})

    assert hashing.new(name, b"a").hexdigest() == hashlib.new(name, b"a").hexdigest()
