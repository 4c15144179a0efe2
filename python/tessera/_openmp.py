"""Sets OpenMP variables, which OpenMP reads when it is loaded."""

from __future__ import annotations

import os


def _is_loaded() -> bool:
    try:
        with open("/proc/self/maps") as maps:
            return any(os.path.basename(line.split()[-1]).startswith("libgomp.so") for line in maps)
    except OSError:
        return True


def shorten_spin() -> None:
    """Makes OpenMP's threads spin for microseconds, not milliseconds, after a oneDNN primitive. Otherwise
    they occupy cores that the library's own threads need. Changes nothing if the user set one of the
    variables, or if another package has loaded OpenMP already."""
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ or _is_loaded():
        return
    os.environ["GOMP_SPINCOUNT"] = "2000"


shorten_spin()
