"""Pictures in a terminal, with rich."""

from __future__ import annotations

from dtensor.dialect.errors import NotFoundError
from dtensor.dialect.pictures.picture import Picture
from dtensor.dialect.pictures.svg import INK, color


def print_picture(title: str, picture: Picture) -> None:
    """Print a picture on stdout: in colours where that is a terminal.

    Raises:
        NotFoundError: rich is not installed.
    """
    try:
        from rich import box
        from rich.align import Align
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        raise NotFoundError(
            "visualize prints with rich, of the extra tools, which is not installed; install it "
            "with pip install rich"
        ) from None
    console = Console(highlight=False, markup=False, emoji=False)
    rows, columns = picture.rows, picture.columns
    console.print(title, soft_wrap=True)
    down, right = "\N{DOWNWARDS ARROW}", "\N{RIGHTWARDS ARROW}"
    if console.options.ascii_only:  # where rich, too, draws with what ASCII has
        down, right = "v", ">"
    if rows is not None:
        console.print(f"{down} {rows.text}", soft_wrap=True)
    if columns is not None:
        console.print(f"{right} {columns.text}", soft_wrap=True)
    table = Table(box=box.SQUARE, show_lines=True, padding=0, show_header=columns is not None)
    if rows is not None:
        table.add_column(justify="right")
    for tick in columns.ticks if columns is not None else ("",):
        table.add_column(Text(f" {tick} "), justify="center")
    for i, row in enumerate(picture.cells):
        head = [] if rows is None else [Text(f" {rows.ticks[i]} ")]
        cells = [
            Align.center(Text("..."))
            if cell is None
            else Align.center(Text(f" {cell.text} "), style=f"{INK} on {color(cell.shard)}")
            for cell in row
        ]
        table.add_row(*head, *cells)
    console.print(table)
    for note in picture.notes:
        console.print(note, soft_wrap=True)
