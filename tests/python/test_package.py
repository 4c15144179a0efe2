"""The content of the wheel."""

import importlib.metadata
import importlib.resources
import subprocess
import sys

import tessera


def test_the_libraries_that_run_are_the_wheel_s():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = maps.read().splitlines()
    for name in ("libdnnl", "libhwloc"):
        paths = {line.split()[-1] for line in lines if name in line}
        assert paths and all("/tessera.libs/" in path for path in paths), paths


def test_types_are_told():
    files = importlib.resources.files(tessera)
    assert (files / "py.typed").is_file()
    stub = (files / "_native.pyi").read_text()
    assert "-> tessera.report.Profile" in stub
    assert "class Model" in stub and "def save(self, path: str | bytes | os.PathLike) -> None" in stub


def test_version_is_the_library_s():
    assert tessera.__version__ == importlib.metadata.version("tessera")
    assert tessera.onednn_version[0].isdigit() and tessera.isa


def test_importing_tessera_imports_no_pytorch():
    code = "import sys, tessera; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _undocumented(owner, prefix):
    """Returns public names of a module or class that have no docstring."""
    for name, value in vars(owner).items():
        is_of_package = (getattr(value, "__module__", None) or "").startswith("tessera")
        is_public = not name.startswith("_") or name == "__call__"
        if not is_public or not (is_of_package or isinstance(value, property)):
            continue
        if not (getattr(value, "__doc__", None) or "").strip():
            yield f"{prefix}.{name}"
        if isinstance(value, type):
            yield from _undocumented(value, f"{prefix}.{name}")


def test_all_that_is_public_is_documented():
    import tessera.pytorch

    modules = (tessera, tessera._native, tessera.errors, tessera.pytorch, tessera.session)
    missing = [name for module in modules for name in _undocumented(module, module.__name__)]
    assert not missing
    assert all(module.__doc__ for module in modules)
