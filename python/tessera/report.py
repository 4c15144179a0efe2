"""Rows of dicts as text."""

from __future__ import annotations

from typing import Any


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def table(rows: list[dict]) -> str:
    """Columns as wide as their widest cell, their names above."""
    if not rows:
        return "nothing is computed\n"
    names = list(rows[0])
    lines = [names] + [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n"
        for line in lines
    )
