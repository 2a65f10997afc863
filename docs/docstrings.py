"""Docstrings as the site shows them: sections of examples, and names without the roles of Sphinx."""

import re

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?([^`]*)`")


class PlainDocstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **arguments: object) -> None:
        if obj.docstring is not None:
            text = re.sub(r"^(\s*)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = _ROLE.sub(r"`\1`", text)
