"""HTML from values: whatever is not markup already is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: object) -> Html:
    """An element with what it holds.

    Args:
        name: such as `td`.
        children: text, which is escaped, or Html.
        attributes: `class_="bytes"` and `data_value=3` are `class="bytes"` and `data-value="3"`;
            None leaves one out, and True gives it no value.
    """
    words = [name]
    for key, value in attributes.items():
        shown = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(shown)
        elif value is not None and value is not False:
            words.append(f'{shown}="{escape(str(value))}"')
    return Html(f"<{' '.join(words)}>{join(children)}</{name}>")


def join(parts: Sequence[str], between: str = "") -> Html:
    """Text and Html after one another, as Html."""
    return Html(escape(between).join(p if isinstance(p, Html) else escape(p) for p in parts))


def table(heads: Sequence[str], rows: Sequence[Html], **attributes: object) -> Html:
    """A table; a head that ends in `#` is that of a column of numbers."""
    cells = [
        tag("th", head.rstrip("#"), scope="col", class_="number" if head.endswith("#") else None)
        for head in heads
    ]
    return tag(
        "table",
        tag("thead", tag("tr", *cells)),
        tag("tbody", *rows),
        **attributes,
    )
