"""One's own model from a file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import safespot as ss
from safespot.data.model_files import read_array, read_cmdp

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
    with pytest.raises(ss.errors.InvalidFile, match=r"(?s)'reward'; did you mean"):
        read_cmdp(write_toml(tmp_path / "bad.toml", bad))


@pytest.mark.parametrize("name", ["model.npz", "model.safetensors", "model.toml"])
def test_a_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\xff not a model")
    with pytest.raises(ss.errors.InvalidFile):
        read_cmdp(tmp_path / name)


def test_no_code_is_run_from_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", **arrays(rewards=np.array([{"a": 1}], object)))
    with pytest.raises(ss.errors.InvalidFile, match="pickle"):
        read_cmdp(tmp_path / "model.npz")


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="file not found"):
        read_cmdp(tmp_path / "missing.npz")
    with pytest.raises(ss.errors.InvalidFile, match=r"ends in \.npz"):
        read_cmdp(tmp_path / "model.pickle")
    with pytest.raises(ss.errors.InvalidModel):  # the file is fine, the model is not
        read_cmdp(write_toml(tmp_path / "bad.toml", {**MODEL, "thresholds": [9.0]}))


def test_where_it_starts_is_a_state_or_chances(tmp_path: Path) -> None:
    for start, found in ((np.array(1), 1), (np.array([0.25, 0.75]), [0.25, 0.75])):
        np.savez(tmp_path / "model.npz", **arrays(start=start))
        np.testing.assert_array_equal(read_cmdp(tmp_path / "model.npz").start, found)


def test_one_number_where_one_is_expected(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", **arrays(horizon=[4]))
    assert read_cmdp(tmp_path / "model.npz").H == 4
    np.savez(tmp_path / "model.npz", **arrays(horizon=[4, 5]))
    with pytest.raises(ss.errors.InvalidFile, match=r"horizon has 2 numbers; expected one"):
        read_cmdp(tmp_path / "model.npz")


def test_the_length_of_an_episode_is_paid_for_by_every_constraint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = {**MODEL, "constraints": MODEL["constraints"] * 2, "thresholds": [1.5, 1.0]}
    for model, asked in ((MODEL, 8 * 2 * 4), (two, 8 * 2 * 2 * 4)):
        path = write_toml(tmp_path / "model.toml", model)
        monkeypatch.setenv("SAFESPOT_MEMORY", str(asked))
        assert read_cmdp(path).H == 4
        monkeypatch.setenv("SAFESPOT_MEMORY", str(asked - 1))
        with pytest.raises(ss.errors.InvalidFile, match=f"asks for {asked} bytes"):
            read_cmdp(path)


def test_the_order_of_an_array_is_its_files(tmp_path: Path) -> None:
    expected = read_cmdp(write_toml(tmp_path / "model.toml", MODEL))
    turned: Any = {name: np.array(value, order="F") for name, value in arrays().items()}
    np.savez_compressed(tmp_path / "model.npz", **turned)
    assert read_cmdp(tmp_path / "model.npz") == expected
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    with (tmp_path / "one.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=(2, 0))
    np.testing.assert_array_equal(read_array(tmp_path / "one.npy"), array)
    with (tmp_path / "three.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=(3, 0))
    with pytest.raises(ss.errors.InvalidFile, match=r"an unknown array format \(3, 0\)"):
        read_array(tmp_path / "three.npy")
    with pytest.raises(ss.errors.InvalidFile, match="cannot read"):
        read_array(tmp_path / "none.npy")


def test_an_archive_may_not_ask_for_more_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "model.npz", **arrays())
    with zipfile.ZipFile(tmp_path / "model.npz") as archive:
        asked = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setenv("SAFESPOT_MEMORY", str(asked))
    read_cmdp(tmp_path / "model.npz")
    monkeypatch.setenv("SAFESPOT_MEMORY", str(asked - 1))
    with pytest.raises(ss.errors.InvalidFile, match=f"asks for {asked:,} bytes"):
        read_cmdp(tmp_path / "model.npz")


def test_a_compression_that_numpy_does_not_use(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("rewards.npy", b"")
    with pytest.raises(ss.errors.InvalidFile, match="a compression that NumPy does not use"):
        read_cmdp(tmp_path / "model.npz")


def test_names_and_units_come_along(tmp_path: Path) -> None:
    named = {
        **MODEL,
        "state_names": ["ill", "well"],
        "units": {"reward": "days", "constraints": ["mg"]},
    }
    plain = {k: v for k, v in named.items() if k != "units"}
    write_toml(tmp_path / "model.toml", plain)
    as_arrays: Any = {k: np.array(v) for k, v in plain.items()}
    np.savez(tmp_path / "model.npz", **as_arrays)
    texts = {k: json.dumps(named[k]) for k in ("senses", "state_names", "units")}
    numbers = {k: v for k, v in arrays().items() if k != "senses"}
    save_file(numbers, tmp_path / "model.safetensors", {**texts, "note": "not for us"})
    for name in ("model.toml", "model.npz", "model.safetensors"):
        assert read_cmdp(tmp_path / name).names.states == ("ill", "well")
    assert read_cmdp(tmp_path / "model.safetensors").names.unit(0) == "mg"
