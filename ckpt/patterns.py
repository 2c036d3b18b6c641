# SPDX-License-Identifier: MIT
"""Regular expressions that are compiled when they are first used.

Python compiles one in 0.2 ms on average, and there are some fifty of them; a command uses a
few. Flags are written into the expression: `(?i)`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, AnyStr


class _Pattern:
    """Has what a compiled pattern has, from the first time that one of it is asked for."""

    def __init__(self, expression: str | bytes) -> None:
        self._expression = expression

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        import re

        found = getattr(re.compile(self._expression), name)
        setattr(self, name, found)  # so that it is found without coming here again
        return found


if TYPE_CHECKING:

    def lazy_pattern(expression: AnyStr) -> re.Pattern[AnyStr]: ...

else:
    lazy_pattern = _Pattern
