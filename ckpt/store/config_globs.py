# SPDX-License-Identifier: MIT
"""The globs in the conditions of git's conditional includes.

Apart from config_sources.py, because few configurations have a condition and `re` takes
longer to import than most of them to read. Left out: named classes such as [[:alpha:]].
"""

from __future__ import annotations

import re
from re import escape as escape

_GLOB = re.compile(
    r"(?P<folders>(?<![^/])\*\*/)|(?P<all>(?<![^/])\*\*\Z)|(?P<star>\*+)|(?P<one>\?)"
    r"|(?P<set>\[(?P<negated>[!^]?)(?P<members>\]?(?:\\.|[^\]\\])*)\])"
    r"|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_GLOB_EXPRESSIONS = {"folders": "(?:.*/)?", "all": ".*", "star": "[^/]*", "one": "[^/]"}


def matches(expression: str, text: str, *, ignore_case: bool = False) -> bool:
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    try:
        return re.fullmatch(expression, text, flags) is not None
    except re.error:  # a set such as [z-a], which matches nothing
        return False


def expression_of(pattern: str, *, below: bool = True) -> str:
    """The regular expression of a glob; `below` lets a slash at its end mean all below."""
    if below and pattern.endswith("/"):
        pattern += "**"
    return "".join(map(_token_expression, _GLOB.finditer(pattern)))


def _token_expression(token: re.Match[str]) -> str:
    kind = token.lastgroup or "plain"
    if kind == "set":
        members = re.sub(r"\\?([][&~|])", r"\\\1", token["members"])
        return f"(?!/)[{'^' if token['negated'] else ''}{members}]"
    return _GLOB_EXPRESSIONS.get(kind) or re.escape(token[kind])
