"""The comment behind a field of a record is its documentation: shapes stand where the code says them."""

from __future__ import annotations

import re
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Gives an attribute without a docstring the comment behind it."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Called for every attribute that is found."""
        if attr.docstring is None and attr.lineno is not None and attr.parent.is_class:
            line = attr.lines_collection[attr.filepath][(attr.endlineno or attr.lineno) - 1]
            if comment := re.search(r"  # (?!fmt|type|noqa)(.+)$", line):
                attr.docstring = griffe.Docstring(comment[1], parent=attr)
