# SPDX-License-Identifier: MIT
"""What can be done to a function of ckpt, by its structure and not by its text.

Each of these gives a change, which edits the parsed function and returns how many places of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

Change = Callable[[ast.FunctionDef], int]
NOTHING = "__import__('contextlib').nullcontext()"


class Stale(Exception):
    """A row of the table that does not fit ckpt any more."""


def BODY(source: str) -> Change:
    """It does this and nothing else."""

    def change(function: ast.FunctionDef) -> int:
        function.body = ast.parse(source).body
        return 1

    return change


def RETURNS(value: str) -> Change:
    return BODY(f"return {value}")


def WITHOUT(name: str, value: str = NOTHING) -> Change:
    """What has this name is not called, raised or read: a value takes its place, or nothing."""

    def change(function: ast.FunctionDef) -> int:
        remover = _Remover(name, ast.parse(value, mode="eval").body)
        function.body = [remover.visit(node) for node in function.body]
        return remover.count

    return change


def SWAPPED(first: str, second: str) -> Change:
    """The two statements that call these functions change places."""

    def change(function: ast.FunctionDef) -> int:
        for node in ast.walk(function):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                ones = [at for at, each in enumerate(body) if _calls(each, first)]
                others = [at for at, each in enumerate(body) if _calls(each, second)]
                if ones and others and ones[0] != others[0]:
                    one, other = ones[0], others[0]
                    body[one], body[other] = body[other], body[one]
                    return 1
        return 0

    return change


def BOTH(first: Change, second: Change) -> Change:
    return lambda function: first(function) and second(function)


class _Remover(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value, self.count = name, value, 0

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace what is called or read; statements that raise it do nothing."""
        named = node.exc if isinstance(node, ast.Raise) else node
        named = named.func if isinstance(named, ast.Call) else named
        if _name(named) != self.name or isinstance(getattr(named, "ctx", None), ast.Store):
            return self.generic_visit(node)
        self.count += 1
        return ast.Pass() if isinstance(node, ast.Raise) else self.value


def _name(node: ast.AST | None) -> str | None:
    """The last part of a name."""
    return getattr(node, "id", None) or getattr(node, "attr", None)


def _calls(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and _name(n.func) == name for n in ast.walk(node))


def changed(source: str, name: str, change: Change) -> str:
    """The source of a module in which a function is changed, or a method with or without its
    class."""
    module = ast.parse(source)
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    places = [("", module), *((f"{each.name}.", each) for each in classes)]
    functions = [(start + getattr(f, "name", ""), f) for start, place in places for f in place.body]
    found = [function for full, function in functions if f".{full}".endswith(f".{name}")]
    if len(found) != 1:
        raise Stale(f"there are {len(found)} of '{name}'")
    if not change(found[0]):
        raise Stale(f"nothing in '{name}' can be changed so")
    return ast.unparse(ast.fix_missing_locations(module))
