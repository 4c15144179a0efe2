"""Exceptions. Their message comes from the library: it names the given values and the rule."""


class Error(RuntimeError):
    """Any failure of the library."""


class InvalidArgument(Error, ValueError):
    """An argument breaks a rule, e.g. a wrong shape, dtype or number of inputs."""


class Unsupported(Error, NotImplementedError):
    """Valid but not supported; the message names the missing feature."""


class OutOfMemory(Error, MemoryError):
    """The system or a limit refused memory."""


class FileError(Error, OSError):
    """The operating system could not open, read or write a file."""


class Cancelled(Error):
    """Another thread ended the call with Model.cancel."""


class LimitReached(Error, TimeoutError):
    """The call reached its limit of time or loop iterations."""


class Corrupt(Error, ValueError):
    """The bytes of a file are not valid in its format."""


def reason_of(error: BaseException) -> str:
    """Returns the first line of the original cause, which names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
