"""One's own model from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import safespot as ss
from safespot.data.model_files import read_cmdp

MODEL: dict[str, Any] = {
    "transitions": [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]],
    "rewards": [[0.0, 1.0], [0.5, 0.25]],
    "constraints": [[[0.0, 1.0], [0.25, 0.5]]],
    "thresholds": [1.5],
    "senses": "<=",
    "start": 1,
    "horizon": 4,
}


def arrays(**changes: Any) -> dict[str, Any]:
    return {name: np.array(value) for name, value in {**MODEL, **changes}.items()}


def write_toml(path: Path, content: dict[str, Any]) -> Path:
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in content.items()))
    return path


def test_every_kind_of_file_gives_the_same_model(tmp_path: Path) -> None:
    expected = ss.solve(ss.CMDP(**MODEL))
    np.savez(tmp_path / "model.npz", **arrays())
    numbers = {k: v for k, v in arrays().items() if k != "senses"}
    save_file(numbers, tmp_path / "plain.safetensors", {"senses": json.dumps(MODEL["senses"])})
    ss.CMDP(**MODEL).save(tmp_path / "own.safetensors")
    write_toml(tmp_path / "model.toml", MODEL)
    for name in ("model.npz", "plain.safetensors", "own.safetensors", "model.toml"):
        cmdp = read_cmdp(tmp_path / name)
        assert (cmdp.H, cmdp.senses, cmdp.start) == (4, ("<=",), 1), name
        assert ss.solve(cmdp).value == pytest.approx(expected.value, abs=1e-12)


def test_what_a_file_lacks_or_has_too_much_is_named_at_once(tmp_path: Path) -> None:
    bad = {k: v for k, v in MODEL.items() if k != "thresholds"} | {"reward": 1, "color": 2}
    with pytest.raises(
        ss.InvalidFile,
        match=r"(?s)'reward'; did you mean `rewards`.*'color'.*'thresholds' is missing",
    ):
        read_cmdp(write_toml(tmp_path / "bad.toml", bad))


@pytest.mark.parametrize("name", ["model.npz", "model.safetensors", "model.toml"])
def test_a_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\xff not a model")
    with pytest.raises(ss.InvalidFile):
        read_cmdp(tmp_path / name)


def test_no_code_is_run_from_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", **arrays(rewards=np.array([{"a": 1}], object)))
    with pytest.raises(ss.InvalidFile, match="pickle"):
        read_cmdp(tmp_path / "model.npz")


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidFile, match="file not found"):
        read_cmdp(tmp_path / "missing.npz")
    with pytest.raises(ss.InvalidFile, match=r"ends in \.npz"):
        read_cmdp(tmp_path / "model.pickle")
    with pytest.raises(ss.InvalidModel):  # the file is fine, the model is not
        read_cmdp(write_toml(tmp_path / "bad.toml", {**MODEL, "thresholds": [9.0]}))
