"""Constants whose data stand apart from them, at the end of a file.

`dense_resource<name>` and `{-# dialect_resources: ... #-}` are how torch-mlir and others write
weights. XLA takes constants that hold their data themselves.
"""

from __future__ import annotations

import re

from dtensor.dialect.diagnostics import LocatedError, Place

_USED = re.compile(r'dense_resource<(?:"([^"]*)"|([^>"]*))>')
_SECTION = re.compile(r"\{-#\s*dialect_resources\b.*#-\}\s*\Z", re.DOTALL)
_BLOB = re.compile(r'(?:"([^"]*)"|([\w.$\-]+))\s*:\s*"0x([0-9A-Fa-f]*)"')
_ALIGNMENT = 8  # hexadecimal digits, in front of the data, that say how to align them


def inline_resources(text: str, filename: str) -> str:
    """The text of a module with the data of constants in them, on the same lines.

    Args:
        text: a module's text.
        filename: what messages call it.

    Raises:
        LocatedError: the text lacks the data of a constant.
    """
    if "dense_resource<" not in text:
        return text
    section = _SECTION.search(text)
    blobs = {a or b: data for a, b, data in _BLOB.findall(section[0])} if section else {}

    def with_data(use: re.Match[str]) -> str:
        name = use[1] or use[2]
        if name in blobs:
            return f'dense<"0x{blobs[name][_ALIGNMENT:]}">'
        before = text[: use.start()]
        if "//" in before[before.rfind("\n") + 1 :]:  # a comment
            return use[0]
        place = Place(filename, before.count("\n") + 1, use.start() - before.rfind("\n"))
        raise LocatedError(
            place,
            f"the data of this constant, resource {name}, are not in the file; write it with its "
            "dialect_resources, none left out",
        )

    return _USED.sub(with_data, text)
