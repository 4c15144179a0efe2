"""Runs the Python blocks of each page of the guide in order, in one namespace. A text block after one
is its expected output; "..." matches any text. The model smollm2.gguf is the one of tools/models."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SMOLLM2 = ROOT / "build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PAGES = {
    page: blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "python" in dict(blocks := BLOCK.findall(page.read_text(encoding="utf-8")))
}


def matches(printed, wanted):
    pattern = ".*".join(re.escape(part) for part in wanted.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def test_some_page_has_python():
    assert ROOT / "docs" / "python.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "smollm2.gguf" in page.read_text(encoding="utf-8"):
        if not SMOLLM2.exists():
            pytest.skip("needs tools/models")
        (tmp_path / "smollm2.gguf").symlink_to(SMOLLM2)
    names, printed = {"__name__": "page"}, None
    for language, text in PAGES[page]:
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(page), "exec"), names)
            printed = out.getvalue()
        elif language == "text" and printed is not None:
            assert matches(printed, text), f"wanted:\n{text}\nprinted:\n{printed}"
            printed = None
        else:
            printed = None
