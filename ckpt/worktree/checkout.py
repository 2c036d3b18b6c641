# SPDX-License-Identifier: MIT
"""What git writes to disk for a blob, by the rules in force: the recipe for it.

The other direction, `convert`, has the bytes on disk to look at. Here there are none: what
stood there was taken away, and git is about to write it again.
"""

from __future__ import annotations

from ckpt.worktree.attributes import Attributes
from ckpt.worktree.convert import Conversion, LineEndings, is_binary, is_on
from ckpt.worktree.encodings import exact

_LF_ONLY = "input"
_BYTE_ORDER = b"\xff\xfe\0\0"  # which git and most programs write where it is left open


def checkout_recipe(
    asked: Conversion,
    attributes: Attributes,
    blob: bytes,
    *,
    autocrlf: str | None,
    eol: str | None,
    ident: bytes,
    encoding: str | None = None,
) -> str:
    """The steps from a blob to the bytes on disk; empty if they are the same.

    `ident` is the id that `$Id$` shall name, and `encoding` what is known of the byte order.
    """
    steps = []
    if asked.ident and b"$Id" in blob:
        steps.append(f"ident={ident.decode()}")
    if _gets_crlf(asked, attributes, blob, autocrlf, eol):
        steps.append("eol=crlf")
    if asked.encoding is not None and blob:
        steps.append(f"encoding={encoding or exact(asked.encoding, _BYTE_ORDER)}")
    return " ".join(steps)


def _gets_crlf(
    asked: Conversion, attributes: Attributes, blob: bytes, autocrlf: str | None, eol: str | None
) -> bool:
    if asked.line_endings is LineEndings.KEEP or b"\n" not in blob:
        return False
    if not _wants_crlf(attributes, autocrlf, eol):
        return False
    return asked.line_endings is LineEndings.TEXT or not (b"\r" in blob or is_binary(blob))


def _wants_crlf(attributes: Attributes, autocrlf: str | None, eol: str | None) -> bool:
    named = attributes.get(b"eol")
    if named in (b"lf", b"crlf"):
        return named == b"crlf"
    text = attributes.get(b"text")
    if text not in (True, False, b"auto", b"input"):
        text = attributes.get(b"crlf")
    if text == b"input" or (autocrlf or "").lower() == _LF_ONLY:
        return False
    return is_on(autocrlf) or (eol or "").lower() == "crlf"
