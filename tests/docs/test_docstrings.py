"""Every public name shows how it is used, and what its example prints is what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.docs.test_site import hooks

PUBLIC = [(module, name) for module, names in hooks().public_modules().items() for name in names]
# Examples that need a store do the same sweep in the same place: the first does it, the others find it done.
SWEEPING = ("experiments", "report")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_a_public_name_has_an_example_that_holds(
    module: str, name: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documented = getattr(importlib.import_module(f"safespot.{module}"), name)
    test = doctest.DocTestParser().get_doctest(documented.__doc__ or "", {}, name, None, 0)
    assert test.examples, f"the docstring of safespot.{module}.{name} has no example (>>>)"
    monkeypatch.chdir(shared if module.startswith(SWEEPING) else tmp_path)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(test, out=told.append).failed == 0, "".join(told)
