"""How a file spells what it imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from gradlint.syntax import TextError, parse


@lru_cache(maxsize=8)
def imports(text: str) -> Mapping[str, str]:
    """How a file spells the modules it imports in its body, the shortest path first: torch.nn before torch."""
    found: dict[str, str] = {}
    try:
        tree = parse(text)
    except TextError:
        return found
    lost = {
        target.id
        for statement in tree.body
        for target in ast.walk(statement)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname is not None:
                    found.setdefault(alias.name, alias.asname)
                else:
                    top = alias.name.split(".")[0]
                    found.setdefault(top, top)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                found.setdefault(f"{statement.module}.{alias.name}", alias.asname or alias.name)
    kept = {module: name for module, name in found.items() if name not in lost}
    return dict(sorted(kept.items(), key=lambda item: -item[0].count(".")))


def binds(text: str, name: str) -> bool:
    """Whether the text of a function (or of anything) gives ``name`` a meaning, be it as a parameter."""
    assigned = rf"(?:^|[^\w.]){name}\b\s*(?:=[^=]|,[^()]*=[^=]|:\s*\w)"
    parameter = rf"\bdef\b[^)]*[(,]\s*\*{{0,2}}{name}\b"
    bound = rf"\b(?:for|as|import)\s+{name}\b"
    return re.search(f"{assigned}|{parameter}|{bound}", text) is not None
