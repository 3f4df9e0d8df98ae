"""`make test-matrix`: a fast part of the tests with the lowest declared and the newest versions, on each Python.

    python -m tests.support.matrix                              all that are found here
    python -m tests.support.matrix newest-3.13 lowest-3.11      these

A wheel is built for Python 3.11, and one for all Pythons from 3.12 on (the stable ABI) by the first of these that is
here. Each is installed into an environment of its own, ``.matrix/<name>``, by uv, which can resolve to the lowest
versions. Kernels compile anew in each, so the part holds what touches other packages, and few
kernels; what is compared with quantecon or needs the data of icu-sepsis is left out. Warnings are no errors here: other
versions have others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
EXTRAS = "cluster,report"  # `icu` has one version, and what it depends on has no wheels
TOOLS = ("pytest>=8.3", "hypothesis>=6.100", "pandas>=2.2")
TESTS = (
    "tests/test_errors.py", "tests/test_files.py", "tests/test_syscalls.py", "tests/test_units.py",
    "tests/planning/test_simplex.py", "tests/planning/test_columns.py",
    "tests/model/test_cmdp.py", "tests/model/test_oracle.py",
    "tests/gym/test_spaces.py", "tests/gym/test_problem_env.py",
    "tests/data/test_model_files.py",
    "tests/experiments/test_spec.py", "tests/experiments/test_store.py",
    *(
        f"tests/cli/test_cli.py::{name}"
        for name in (
            "test_every_subcommand_explains_itself_with_examples", "test_the_list_of_problems",
            "test_one_problem", "test_solve", "test_wrong_input",
            "test_errors_on_one_screen_and_a_traceback_only_when_asked_for",
        )
    ),
)  # fmt: skip


def main(names: list[str]) -> int:
    """Run the jobs that are named; without a name, every one whose Python is here. Returns how many failed."""
    jobs = {f"{kind}-{version}": (kind, version) for version in PYTHONS for kind in RESOLUTIONS}
    for name in names:
        if name not in jobs:
            sys.exit(f"unknown job {name!r}. Expected some of: {', '.join(jobs)}.")
    found = {version: interpreter(version) for version in PYTHONS}
    chosen = names or list(jobs)
    wanted = {jobs[name][1] for name in chosen}
    wheels = {"3.11": build("3.11", found["3.11"])} if "3.11" in wanted and found["3.11"] else {}
    stable = next((version for version in PYTHONS[1:] if found[version]), None)
    if stable and wanted - {"3.11"}:
        wheels |= dict.fromkeys(PYTHONS[1:], build(stable, found[stable]))

    def run(name: str) -> str:
        kind, version = jobs[name]
        python, began = found[version], time.monotonic()
        if python is None:
            return f"not run: no Python {version} is installed here"
        passed = passes(name, kind, python, wheels[version])
        return f"{'passed' if passed else 'FAILED'} ({time.monotonic() - began:.0f} s)"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = dict(zip(chosen, pool.map(run, chosen), strict=True))
    print("\n".join(f"{name}: {outcome}" for name, outcome in outcomes.items()), flush=True)
    return sum(outcome.startswith("FAILED") for outcome in outcomes.values())


def interpreter(version: str) -> Path | None:
    """A Python of that version: on the path, of pyenv, or of uv; shims that lead nowhere are passed over."""
    for candidate in _candidates(version):
        asked: list[str | Path] = [
            candidate,
            "-c",
            "import sys; print('%d.%d' % sys.version_info[:2])",
        ]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    managed = Path.home() / ".local/share/uv/python"
    yield from sorted(managed.glob(f"cpython-{version}.*/bin/python"), reverse=True)


def build(version: str, python: Path | None) -> Path:
    """Build the wheel as it would be published, with this Python."""
    target = FOLDER / f"dist-{version}"
    shutil.rmtree(target, ignore_errors=True)
    uv("build", "--quiet", "--wheel", "--python", str(python), "--out-dir", target, ROOT)
    (wheel,) = target.glob("*.whl")
    return wheel


def passes(name: str, kind: str, python: Path, wheel: Path) -> bool:
    """Install the versions and run the tests with them; what they say is printed in one piece."""
    env = FOLDER / name
    uv("venv", "--quiet", "--clear", "--python", python, env)
    uv(
        "pip", "install", "--quiet", "--python", env, "--resolution", RESOLUTIONS[kind],
        "--only-binary", ":all:", f"safespot[{EXTRAS}] @ {wheel.as_uri()}", *TOOLS,
    )  # fmt: skip
    asked: list[str | Path] = [
        _python(env), "-m", "pytest", "-q", "-m", "not slow", "-W", "default", "--disable-warnings",
        "-p", "no:cacheprovider", "-k", "not quantecon and not icu", *TESTS,
    ]  # fmt: skip
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"{name}, {python}:\n{told.stdout}{told.stderr}", flush=True)
    return told.returncode == 0


def uv(*arguments: str | Path) -> None:
    """Run uv with the certificates of the system, which it does not look at by itself."""
    found = shutil.which(
        "uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        sys.exit("uv is not installed: pip install uv.")
    settings = {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1"}  # its older and its newer name
    subprocess.run([found, *arguments], check=True, env={**os.environ, **settings})


def _python(env: Path) -> Path:
    return env / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
