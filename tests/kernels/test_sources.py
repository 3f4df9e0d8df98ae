"""What compiled code depends on, and that it is compiled anew where that has changed and only there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

import safespot as ss
from safespot.kernels import sources
from safespot.spot import step
from tests.support.copies import copy_package
from tests.support.processes import run_python

SOURCE = Path(ss.__file__).parent
needs_compiler = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels are plain Python here"
)


def closure(module: str) -> set[str]:
    """The files of a module's import closure, as paths inside the package."""
    file = SOURCE.joinpath(*module.split(".")).with_suffix(".py")
    found = sources.closure(f"safespot.{module}", file)
    return {path.relative_to(SOURCE).as_posix() for path in found}


def test_a_loop_depends_on_what_it_plays_and_on_no_learner_or_judge() -> None:
    found = closure("training.loop")
    assert {"training/loop.py", "training/metering.py", "evidence/sequences.py"} <= found
    assert {"kernels/jit.py", "kernels/nonnegative.py", "kernels/sums.py"} <= found
    assert {path for path in found if path.startswith("learners/")} == {"learners/compiled_step.py"}
    assert not {path for path in found if path.startswith(("judging/", "report/", "cli/"))}


def test_the_step_of_spot_depends_on_the_paper_alone() -> None:
    ss.learners.find("spot")  # registers its step
    kernel: Any = step.spot_step
    assert sources.CHOSEN[step.SpotRates] == [getattr(kernel, "py_func", kernel)]
    rooms = {path.partition("/")[0] for path in closure("spot.step")}
    assert rooms == {
        "arrays.py",
        "display.py",
        "errors.py",
        "kernels",
        "spot",
        "states.py",
        "syscalls.py",
    }


def _whole(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _whole(child)


@pytest.mark.parametrize("room", sorted({path.parent for path in SOURCE.rglob("*.py")}))
def test_imports_are_those_of_the_whole_syntax_tree(room: Path) -> None:
    for path in room.glob("*.py"):
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        package = module.rpartition(".")[0]
        expected = set()
        for node in _whole(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                expected |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                parts = package.split(".")[: len(package.split(".")) + 1 - node.level]
                home = ".".join([*(parts if node.level else []), *filter(None, [node.module])])
                expected |= {f"{home}.{each.name}" for each in node.names if each.name != "*"}
                expected |= {home} if node.module else set()
        found = sources._imports(module.removesuffix(".__init__"), path)
        assert expected <= found
        ours = {name for name in found - expected if name.startswith("safespot")}
        assert not ours or path.name == "processes.py"  # which holds a program as a text


# A package with a kernel that calls one of another module, and one that the type of a record chooses.
PACKAGE = {
    "__init__": "",
    "records": """
from typing import NamedTuple
from safespot.kernels.jit import overload_inlined
from safespot.kernels.sources import chosen_by

KERNELS = {}

class Price(NamedTuple):
    cents: int

def register(record, kernel):
    KERNELS[record] = kernel
    chosen_by(record, kernel)

def worth(record):
    return KERNELS[type(record)](record)

@overload_inlined(worth)
def _worth(record):
    kernel = KERNELS[record.instance_class]
    return lambda record: kernel(record)
""",
    "outer": """
from __future__ import annotations
from typing import TYPE_CHECKING
from safespot.kernels.jit import kernel
from .called import more
from .records import worth
if TYPE_CHECKING:
    from .unrelated import NOTHING

@kernel
def outer(record):
    return worth(record) + more(record.cents)
""",
    "called": """
from safespot.kernels.jit import inlined
from . import constants
MORE = constants.MORE

@inlined
def more(x):
    return x * MORE
""",
    "constants": "MORE = 100",
    "priced": """
from safespot.kernels.jit import inlined
from .factors import FACTOR
from .records import Price, register

@inlined
def priced(record):
    return record.cents * FACTOR

register(Price, priced)
""",
    "factors": "FACTOR = 10000",
    "unrelated": "NOTHING = 0",
}
CALL = """
from tiny import outer, priced, records
print(outer.outer(records.Price(1)), sum(outer.outer.stats.cache_hits.values()))
"""


def test_a_kernel_of_ones_own_depends_on_what_its_package_imports(tmp_path: Path) -> None:
    package = tmp_path / "tiny"
    package.mkdir()
    for name, source in PACKAGE.items():
        (package / f"{name}.py").write_text(source)
    found = sources.closure("tiny.outer", package / "outer.py")
    theirs = {path.stem for path in found if path.parent == package}
    assert theirs == {"outer", "called", "constants", "records"}
    assert SOURCE / "kernels" / "jit.py" in found


@needs_compiler
def test_an_edit_compiles_anew_what_depends_on_it_and_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "tiny"
    package.mkdir()
    for name, source in PACKAGE.items():
        (package / f"{name}.py").write_text(source)

    def call() -> str:
        path = f"{tmp_path}:{SOURCE.parent}"
        caches = str(tmp_path / "caches")
        return run_python(
            CALL, PYTHONPATH=path, NUMBA_CACHE_DIR=caches, PYTHONDONTWRITEBYTECODE="1"
        )

    assert [call(), call()] == ["10100 0", "10100 1"]
    (package / "unrelated.py").write_text("NOTHING = 1")
    assert call() == "10100 1"
    (package / "constants.py").write_text("MORE = 200")  # imported by a module that it imports
    assert [call(), call()] == ["10200 0", "10200 1"]
    (package / "factors.py").write_text("FACTOR = 30000")  # of the kernel that the record chooses
    assert [call(), call()] == ["30200 0", "30200 1"]
    text = (package / "priced.py").read_text()
    (package / "priced.py").write_text(text.replace("* FACTOR", "* FACTOR + 1"))
    assert [call(), call()] == ["30201 0", "30201 1"]
    (package / "outer.py").write_text((package / "outer.py").read_text().replace(" + ", " - "))
    assert [call(), call()] == ["29801 0", "29801 1"]


@needs_compiler
def test_where_the_package_lies_does_not_matter(tmp_path: Path) -> None:
    copy_package(tmp_path)
    code = (
        "from safespot.kernels.sources import digest; from safespot.spot import step, window\n"
        "print(digest([step.spot_step.py_func]), digest([window.rebuild_tree.py_func]))"
    )
    here, there = (run_python(code, PYTHONPATH=str(path)) for path in (SOURCE.parent, tmp_path))
    assert here == there
    of_step, of_window = here.split()
    assert of_step != of_window
    (tmp_path / "safespot" / "learners" / "spot.py").write_text("")
    assert run_python(code, PYTHONPATH=str(tmp_path)) == here
    updates = tmp_path / "safespot" / "spot" / "updates.py"
    updates.write_text(updates.read_text() + "#\n")
    edited = run_python(code, PYTHONPATH=str(tmp_path)).split()
    assert edited[0] != of_step
    assert edited[1] == of_window


@needs_compiler
def test_what_was_typed_in_is_compiled_and_not_kept() -> None:
    code = (
        "from typing import NamedTuple\n"
        "from safespot.learners.compiled_step import MOVED, observe_episode, step_for\n"
        "class Rates(NamedTuple):\n    x: int\n"
        "@step_for(Rates)\n"
        "def step(rates, state, statistics, window, episode):\n    return rates.x\n"
        "assert observe_episode(Rates(3), 0, 0, 0, 0) == 3\n"
        "print(sum(observe_episode.stats.cache_hits.values()))"
    )
    assert [run_python(code), run_python(code)] == ["0", "0"]
