"""What calls raise: the library's message, which names what was given and the rule."""


class Error(RuntimeError):
    """Any failure of the library."""


class InvalidArgument(Error, ValueError):
    """What was given breaks a rule: another shape, dtype or number of inputs."""


class Unsupported(Error, NotImplementedError):
    """Legal, but not to be had here; the message names what is missing."""


class OutOfMemory(Error, MemoryError):
    """Memory was refused."""


class FileError(Error, OSError):
    """The operating system refused a file."""


class Cancelled(Error):
    """Another thread ended the call, by Model.cancel."""


class LimitReached(Error, TimeoutError):
    """The call reached a limit: TESSERA_LIMIT_TIME or TESSERA_LIMIT_ITERATIONS."""


class Corrupt(Error, ValueError):
    """A file's bytes contradict its format."""
