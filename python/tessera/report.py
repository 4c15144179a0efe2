"""Formats lists of dicts as tables; profiles."""

from __future__ import annotations

from typing import Any, Sequence


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _lines(names: Sequence[str], cells: list[list[str]], is_right: Sequence[bool]) -> str:
    """Formats cells in columns as wide as their widest cell, below their names."""
    lines = [list(names), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    return "".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_right)
        ).rstrip()
        + "\n"
        for line in lines
    )


def table(rows: list[dict]) -> str:
    """Formats rows as a table with one column per key."""
    if not rows:
        return "nothing is computed\n"
    names = list(rows[0])
    return _lines(names, [[_cell(row[name]) for name in names] for row in rows], [False] * len(names))


# ---- profiles ----

_COLUMNS = ("#", "operator", "path", "ms", "share %", "GFLOP/s", "GB/s", "limit %", "by", "in", "out",
            "reorders")  # fmt: skip
_IS_RIGHT = (True, False, False, True, True, True, True, True, False, False, False, False)


def _formats(infos: Sequence[tuple[str, str]]) -> str:
    """Returns "aBcd8b ABcd8b8a a"; consecutive equal formats become "aBcd8b x4"."""
    parts: list[list[Any]] = []
    for _, name in infos:
        if parts and parts[-1][0] == name:
            parts[-1][1] += 1
        else:
            parts.append([name, 1])
    return " ".join(name if n == 1 else f"{name} x{n}" for name, n in parts)


def _rate(value: float) -> str:
    return f"{value:.1f}" if value > 0 else "-"


def _line(row: dict) -> list[str]:
    reorders = ", ".join(
        f"{one['cause']}{' copy' if one['copy'] else ''} {one['from']}>{one['to']}"
        for one in row["reorders"]
    )
    return [
        str(row["index"]), row["operator"], row["path"], f"{row['ms']:.4f}",
        f"{100 * row['share']:.1f}", _rate(row["gflops"]), _rate(row["gbs"]),
        _rate(100 * row["limit_share"]), row["implementation"] or row["kernel"],
        _formats(row["in"]), _formats(row["out"]), reorders,
    ]  # fmt: skip


class Profile(list):
    """A list with one dict per node of a run; the dicts have the keys of `tessera profile --json`.
    str() returns the table of `tessera profile`.

    run_ms: median time of a run; runs: number of runs; slowest: the slowest node's dict.
    """

    def __init__(self, rows: list[dict], run_ms: float, runs: int):
        super().__init__(rows)
        self.run_ms = run_ms
        self.runs = runs

    @property
    def slowest(self) -> dict | None:
        return max(self, key=lambda row: row["ms"], default=None)

    def __str__(self) -> str:
        if not self:
            return "nothing is computed\n"
        row, reorders = self.slowest, [one for row in self for one in row["reorders"]]
        at = f" at {row['path']}" if row["path"] else ""
        return (
            _lines(_COLUMNS, [_line(row) for row in self], _IS_RIGHT)
            + f"\n{self.run_ms:.3f} ms an inference, median of {self.runs} runs\n"
            + f"slowest: #{row['index']} {row['operator']}{at}, {row['ms']:.4f} ms, "
            + f"{100 * row['share']:.1f} %\n"
            + f"reorders: {sum(not one['copy'] for one in reorders)}; "
            + f"copies {sum(one['copy'] for one in reorders)}; "
            + f"{sum(one['ms'] for one in reorders):.3f} ms\n"
        )
