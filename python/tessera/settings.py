"""Settings of a model's contexts: threads and limits."""

from __future__ import annotations

from .errors import InvalidArgument


def settings_of(
    threads: int | None = None,
    limit_bytes: int | None = None,
    limit_seconds: float | None = None,
    limit_iterations: int | None = None,
) -> tuple[int, int, float, int]:
    """Checks the settings; None becomes 0, for which the library reads the environment."""
    return (
        _number("threads", threads, int, "an integer", 1, 2**31 - 1),
        _number("limit_bytes", limit_bytes, int, "an integer", 1, 2**63 - 1),
        float(_number("limit_seconds", limit_seconds, (int, float), "a number", 1e-9, 1e9)),
        _number("limit_iterations", limit_iterations, int, "an integer", 1, 2**63 - 1),
    )


def _number(name, value, types, kind, least, most):
    if value is None:
        return 0
    if not isinstance(value, types):
        raise TypeError(f"{name} is {value!r}, must be {kind} or None")
    if not least <= value <= most:
        bound = f"{least} or more" if not value >= least else f"at most {most}"
        raise InvalidArgument(f"{name} is {value}, must be {bound}")
    return value
