"""The comment behind a field of a record documents it: shapes stand where the code says them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Lists the fields of a class that have a comment behind them, in its docstring."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called for every class, once its fields are known."""
        lines = [
            f"    {name}: {comment}"
            for name, field in cls.attributes.items()
            if not name.startswith("_") and (comment := _comment(field))
        ]
        if lines and cls.docstring is not None:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(lines)


def _comment(field: griffe.Attribute) -> str:
    if (
        field.docstring is not None
        or field.endlineno is None
        or not isinstance(field.filepath, Path)
    ):
        return ""
    line = field.lines_collection[field.filepath][field.endlineno - 1]
    found = re.search(r"  # (?!fmt|type|noqa)(.+)$", line)
    return re.sub(r"(\[[^\]]*\])", r"`\1`", found[1]) if found else ""
