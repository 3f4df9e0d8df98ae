"""The site builds without a warning, reads offline, shows everything public; its pictures are the package's."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import safespot as ss

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


FETCHED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"
}  # fmt: skip


class Assets(HTMLParser):
    """What a browser fetches by itself when it shows a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        wanted = given.get(FETCHED.get(tag, ""))
        if wanted and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(wanted)
        self.found += re.findall(r"url\(([^)]+)\)", given.get("style") or "")


def test_the_site_builds_and_reads_offline(tmp_path: Path) -> None:
    """One test, since the build is what takes its time."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 40

    for path, page in pages.items():
        for asset in Assets(page).found:
            assert not re.match(r"(https?:)?//", asset), f"{path.name} fetches {asset}"
            if path.name != "404.html" and not asset.startswith(("data:", "#")):
                assert (path.parent / asset.partition("?")[0].partition("#")[0]).exists(), asset
        mathematics = "".join(re.findall(r"<math.*?</math>", page, re.DOTALL))
        assert "arithmatex" not in page, path
        assert not re.search(r">\\|<mi>&(amp;)?</mi>", mathematics), (
            f"{path.name}: LaTeX is left over"
        )
    for sheet in (tmp_path / "site").rglob("*.css"):
        for asset in re.findall(r"url\(['\"]?([^)'\"]+)", sheet.read_text(encoding="utf-8")):
            assert not re.match(r"(https?:)?//", asset), f"{sheet.name} fetches {asset}"

    listed = zlib.decompress(
        (tmp_path / "site" / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]
    )
    shown = {line.split(" ")[0] for line in listed.decode().splitlines()}
    rooms = [
        "errors",
        "experiments",
        "gym",
        "learners",
        "logs",
        "problems",
        "signals",
        "theory",
        "training",
    ]
    absent = {f"safespot.{name}" for name in ss.__all__} - shown
    assert absent <= {f"safespot.{room}" for room in rooms}
    for module in hooks().MODULES:
        assert any(name.startswith(f"safespot.{module}.") for name in shown), module


def test_the_reference_has_every_public_name() -> None:
    modules = hooks().public_modules()
    names = {name for names in modules.values() for name in names}
    assert set(ss.__all__) <= names | set(modules)
    shown = set()
    for module, found in modules.items():
        home = importlib.import_module(f"safespot.{module}")
        for name in found:
            assert (getattr(home, name).__doc__ or "").strip(), f"{module}.{name} says nothing"
            shown.add(getattr(home, name))
    for module in hooks().MODULES:
        home = importlib.import_module(f"safespot.{module}")
        for name in hooks()._public(home):
            assert getattr(home, name) in shown, f"{module}.{name} is on no page"


def test_the_command_page_has_every_option() -> None:
    from typer.main import get_command

    from safespot.cli import app

    page = "\n".join(hooks().made_pages()["reference/command.md"].splitlines())
    command = get_command(app)
    for name, sub in command.commands.items():  # type: ignore[attr-defined]
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, name
        for parameter in sub.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}`" in section, f"{name} {option}"
            assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} <= listed


def test_pictures_are_what_the_package_draws(tmp_path: Path) -> None:
    """Same words, same shapes; a point may be off by a pixel where another machine rounds otherwise."""
    loaded("pictures").main(tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 3
    for picture in drawn:
        words, numbers = taken_apart(picture)
        expected_words, expected = taken_apart(DOCS / "figures" / picture.name)
        say = f"run `python docs/pictures.py`: {picture.name} is out of date"
        assert words == expected_words, say
        np.testing.assert_allclose(numbers, expected, atol=1.5, err_msg=say)


def hooks() -> Any:
    return loaded("hooks")


def loaded(name: str) -> Any:
    """A module of docs/, which is no package."""
    return SimpleNamespace(**runpy.run_path(str(DOCS / f"{name}.py")))


def taken_apart(picture: Path) -> tuple[list[str], np.ndarray]:
    """What is no number, and the numbers."""
    text = picture.read_text(encoding="utf-8")
    number = r"-?\d+\.\d+"
    return re.split(number, text), np.array([float(found) for found in re.findall(number, text)])
