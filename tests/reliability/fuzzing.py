"""A fuzzer of every file that safespot reads.

    python -m tests.reliability.fuzzing --mutations 10000 [--seed 0] [--only journal …]

Valid files are mutated at random. Half of the mutants go in as they are; of the other half the checksum is made right
again, or what the file says is changed and not its bytes, so that the parsers behind the checksum are reached. Every
mutant must load as an equal object or be refused by one of our errors. A mutant whose checksum is right may say
something else: then what was loaded must be what it says, and be usable.

The process gives itself a limit of memory, so that an unbounded allocation shows as a `MemoryError`, and an audit hook,
so that running code from a file shows. Kernels run as plain Python, whose arrays have bounds.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

import safespot as ss
from safespot import files
from safespot.data.model_files import read_cmdp
from safespot.experiments import read_spec
from safespot.experiments import worker as work
from safespot.experiments.checkpoints import Checkpoint
from safespot.storage import journal
from tests.support.episodes import random_episode
from tests.support.sweeping import tiny

MEMORY = 2**29  # bytes that loading may take beyond what the process has
ASKED = (
    2**20
)  # bytes that a file may ask for beyond its length; to use what it says takes many times as many
FORBIDDEN = (
    "exec", "pickle.find_class", "marshal.load", "os.system", "os.exec", "os.posix_spawn", "subprocess", "ctypes"
)  # fmt: skip
Random = random.Random


@dataclass(frozen=True)
class Target:
    """A kind of file: a valid one, how it is loaded, and what must then hold."""

    name: str
    data: bytes
    load: Callable[[Path], Any]
    same: Callable[[Any], bool]  # whether it equals what the valid file holds
    right: Callable[[Any, bytes], None]  # asserts that it is what the mutant says, and usable
    mend: Callable[[bytes], bytes | None]  # with the right checksum; None: it cannot be parsed
    retell: Callable[[bytes, Random], bytes]  # says something else
    suffix: str = ""
    share: int = 1  # of the mutations


# --- Mutations


NUMBERS = [
    0,
    1,
    2,
    7,
    8,
    *(2**k - 1 for k in (7, 8, 31, 32, 63, 64)),
    *(2**k for k in (7, 8, 15, 16, 31, 53, 62)),
]
DOUBLES = [0.0, -0.0, 1.0, -1.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan")]
WORDS = [
    b"nan", b"inf", b"-1", b"1e999", b"9" * 30, b"[" * 2000, b"{", b"null", b"true", b'""', b"\\ud800", b"\xff", b"\0",
    b"__class__", b"1_000", b"0x7f", b"[[]]",
]  # fmt: skip
STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 10**9, 10**18, 10**30, -(10**30), 0.5, -0.5, 1e308, 1e-320, float("inf"),
    float("nan"), "", "inf", "nan", "spot", ">=", "<=", "x" * 1000, [], [0], [[0, 1]], [0, 1], ["<="], {}, {"a": 1},
    [0] * 1000, [[[[[]]]]],
]  # fmt: skip


def mutate(data: bytes, rng: Random) -> bytes:
    """One to three random changes."""
    mutant = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        size = len(mutant)
        at = rng.randrange(size + 1)
        n = min(rng.choice((1, 2, 4, 8, 16, 100)), size - at)
        match rng.randrange(10):
            case 0 if at < size:
                mutant[at] ^= 1 << rng.randrange(8)
            case 1 if at < size:
                mutant[at] = rng.randrange(256)
            case 2:
                mutant[at : at + n] = rng.randbytes(n)
            case 3:
                del mutant[at : at + n]
            case 4:
                mutant[at:at] = rng.randbytes(n)
            case 5:
                del mutant[at:]
            case 6:
                other = rng.randrange(size + 1)
                mutant[at : at + n] = mutant[other : other + n]
            case 7:
                mutant[at : at + 8] = struct.pack("<Q", rng.choice(NUMBERS))
            case 8:
                mutant[at : at + 8] = struct.pack("<d", rng.choice(DOUBLES))
            case _:
                mutant[at:at] = rng.choice(WORDS)
    return bytes(mutant)


def strange(value: Any, rng: Random) -> Any:
    """The same tree of lists and dicts with one leaf or branch changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        match rng.randrange(12):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return {**value, "strange": rng.choice(STRANGE)}
        return {**value, key: strange(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        k = rng.randrange(len(value))
        return [*value[:k], strange(value[k], rng), *value[k + 1 :]]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice((-2, -1, 1, 2))
    return rng.choice(STRANGE)


def strange_array(array: Any, rng: Random) -> Any:
    """An array with other entries, shape or type."""
    copy = np.array(array)
    match rng.randrange(10):
        case 0:
            types = (np.float32, np.int32, np.int64, np.uint8, np.bool_, np.float64)
            with np.errstate(all="ignore"):
                return copy.astype(rng.choice(types))
        case 1:
            return copy.reshape(-1)
        case 2:
            return copy[None]
        case 3 if copy.ndim:
            return copy[:-1]
        case 4 if copy.ndim:
            return np.concatenate([copy, copy])
    if copy.size:
        k = rng.randrange(copy.size)
        if copy.dtype.kind in "iu":
            bits = np.iinfo(copy.dtype)
            near = int(copy.reshape(-1)[k]) + rng.choice((-2, -1, 1, 2))
            number = rng.choice((near, rng.choice(NUMBERS), bits.max, bits.min))
            copy.reshape(-1)[k] = min(max(number, bits.min), bits.max)
        elif copy.dtype.kind == "f":
            copy.reshape(-1)[k] = rng.choice((*DOUBLES, 0.25))
        else:
            copy.reshape(-1)[k] = not copy.reshape(-1)[k]
    return copy


# --- Files of arrays


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Arrays and header of a file; None: it cannot be parsed."""
    try:
        arrays = load(data)
        whole = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        header = json.loads(whole["__metadata__"]["safespot"])
        header.pop("blake2b", None)
        return arrays, header
    except Exception:
        return None


def pack(arrays: dict[str, Any], header: dict[str, Any]) -> bytes:
    """A file with the right checksum."""
    header = {**header, "blake2b": files.checksum(arrays, header)}
    data: bytes = save(
        {k: np.asarray(v, order="C") for k, v in arrays.items()}, {"safespot": json.dumps(header)}
    )
    return data


def mend_arrays(data: bytes) -> bytes | None:
    parts = unpack(data)
    return None if parts is None or not isinstance(parts[1], dict) else pack(*parts)


def retell_arrays(data: bytes, rng: Random) -> bytes:
    parts = unpack(data)
    assert parts is not None
    arrays, header = parts
    if not arrays or rng.random() < 0.5:
        return pack(arrays, {**header, "about": strange(header["about"], rng)})
    name = rng.choice(sorted(arrays))
    match rng.randrange(8):
        case 0:
            del arrays[name]
        case 1:
            arrays[rng.choice(("strange", "window.strange", "option.strange"))] = arrays[name]
        case 2:
            arrays[name] = arrays[rng.choice(sorted(arrays))]
        case _:
            arrays[name] = strange_array(arrays[name], rng)
    return pack(arrays, header)


# --- What is loaded, and what must hold


def learner_target(folder: Path, name: str, variant: str) -> Target:
    from tests.support.contract import Subject

    subject = Subject(name, variant)
    learner = subject.run(subject.make(), 1, 12)
    path = folder / "valid"
    learner.save(path)
    before = files.checksum(learner.arrays(), {})
    configuration = repr(learner.options)

    def right(found: ss.Learner, data: bytes) -> None:
        parts = unpack(data)
        assert parts is not None
        for key, array in found.arrays().items():
            np.testing.assert_array_equal(array, parts[0][key], strict=True)
        f = found.interface
        units = f.units
        for t in range(2):
            e = random_episode(np.random.default_rng(t), f.mask, f.m, start=f.start)
            played = ss.Episode(
                e.states,
                e.actions,
                units.reward.outside(e.rewards),
                units.constraints.outside(e.constraints),
                units.constraints.outside(e.thresholds),
            )
            # Options may be as large as they like, and T as small.
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "an episode goes beyond the learner's T")
                found.observe(played)
        np.testing.assert_allclose(found.policy.sum(axis=2), 1.0, rtol=0, atol=1e-9)

    return Target(
        f"learner {name}", path.read_bytes(), ss.learners.load,
        lambda found: files.checksum(found.arrays(), {}) == before and repr(found.options) == configuration,
        right, mend_arrays, retell_arrays
    )  # fmt: skip


def cmdp_target(folder: Path, *, sparse: bool) -> Target:
    from tests.support.trails import example

    cmdp = example(sparse=sparse, units=True, mask="states", start=[0.5, 0.25, 0.25, 0.0]).cmdp
    path = folder / "valid"
    cmdp.save(path)
    return Target(
        "CMDP, sparse" if sparse else "CMDP", path.read_bytes(), ss.CMDP.load, lambda found: found == cmdp,
        lambda found, _: usable_cmdp(found), mend_arrays, retell_arrays
    )  # fmt: skip


def usable_cmdp(cmdp: ss.CMDP) -> None:
    mask = np.broadcast_to(cmdp.model.mask.reshape(-1, cmdp.S, cmdp.A), (cmdp.H, cmdp.S, cmdp.A))
    found = ss.evaluate(cmdp, mask / mask.sum(axis=2, keepdims=True))
    low, high = cmdp.reward_range
    assert cmdp.H * low - 1e-6 * (high - low) <= found.value <= cmdp.H * high + 1e-6 * (high - low)


def certificate_target(folder: Path) -> Target:
    problem = ss.problems.make("machine")
    made = ss.certify(problem, ss.solve(problem.cmdp).policy, episodes=50)
    path = folder / "valid"
    made.save(path)

    def right(found: ss.Certificate, data: bytes) -> None:
        parts = unpack(data)
        assert parts is not None
        assert found.as_dict() == {
            k: v for k, v in parts[1]["about"].items() if k in found.as_dict()
        }
        assert 0.0 < found.confidence < 1.0
        assert str(found)
        if found.doubts:
            assert set(found.verdict) == {"unknown"}

    return Target(
        "certificate", path.read_bytes(), ss.Certificate.load, lambda found: found.as_dict() == made.as_dict(), right,
        mend_arrays, retell_arrays
    )  # fmt: skip


def checkpoint_target(folder: Path) -> Target:
    run = tiny()[0]
    store = ss.experiments.Store.create(folder / "store")
    checkpoint = Checkpoint(store.checkpoints, run.id)
    training = work.fresh(run)
    training.advance(20)
    training.advance(20)
    checkpoint.save(training.arrays(), training.learner.episode - 1)
    path = checkpoint.paths[0]
    before = files.checksum(training.arrays(), {})

    def load_checkpoint(mutant: Path) -> Any:
        mutant.replace(path)
        notes: list[str] = []
        if not list(Checkpoint(store.checkpoints, run.id).found(notes)):
            raise ss.errors.InvalidFile(notes[0])
        found, notes = work.begin(run, Checkpoint(store.checkpoints, run.id))
        if notes:
            raise ss.errors.InvalidFile(notes[0])
        return found

    def right(found: Any, data: bytes) -> None:
        parts = unpack(data)
        assert parts is not None
        for key, array in found.arrays().items():
            np.testing.assert_array_equal(array, parts[0][key], strict=True)
        with np.errstate(all="ignore"):
            found.advance(2)

    return Target(
        "checkpoint", path.read_bytes(), load_checkpoint, lambda found: files.checksum(found.arrays(), {}) == before,
        right, mend_arrays, retell_arrays
    )  # fmt: skip


def journal_target(folder: Path) -> Target:
    from tests.support.contract import Subject

    subject = Subject("spot", "masked")
    journal.RECORDS = 6
    with ss.open(folder / "learner", subject.make()) as learner:
        for t in range(4):
            learner.observe(subject.episode(np.random.default_rng(t)))
    path = journal.place(folder / "learner", 0)
    data = path.read_bytes()
    original = journal.read(path)
    start, length = journal.HEAD.size + journal.CHECK, original.records.dtype.itemsize
    count = [0]

    def load_journal(mutant: Path) -> journal.Journal:
        found = journal.read(mutant)
        count[0] += 1
        if count[0] % 50 == 0:  # as a user does, too
            mutant.replace(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ss.open(folder / "learner").close()
        return found

    def same(found: journal.Journal) -> bool:
        if found.lost is None:
            return found.records.tobytes() == original.records.tobytes()
        return original.records.tobytes().startswith(
            found.records.tobytes() if len(found.records) else b""
        )

    def mend(mutant: bytes) -> bytes:
        whole = bytearray(mutant)
        if len(whole) >= start:
            whole[start - journal.CHECK : start] = journal.checksum(
                bytes(whole[: start - journal.CHECK])
            )
        for place in range(start, len(whole) - length + 1, length):
            if whole[place : place + length].strip(b"\0"):
                end = place + length
                whole[end - journal.CHECK : end] = journal.checksum(
                    bytes(whole[place : end - journal.CHECK]),
                    bytes(whole[start - journal.CHECK : start]),
                )
        return bytes(whole)

    def right(found: journal.Journal, _: bytes) -> None:
        for k in range(len(found.records)):
            try:
                found.episode(k)
            except ss.errors.InvalidEpisode:
                return

    def retell(data: bytes, rng: Random) -> bytes:
        whole = bytearray(data)
        at = rng.choice((*range(8, start, 4), *range(start, start + 4 * length, 4)))
        number = rng.choice(
            (
                struct.pack("<I", rng.choice(NUMBERS) % 2**32),
                struct.pack("<d", rng.choice(DOUBLES)),
            )
        )
        whole[at : at + len(number)] = number
        return mend(bytes(whole))

    return Target("journal", data, load_journal, same, right, mend, retell, share=10)


SWEEP = b"""# A sweep.
episodes = [60, 100]
seeds = 2
record = "log"
[problem]
name = "random"
options = { states = 3, actions = 2, horizon = 3 }
[problem.signals.rewards]
law = "beta"
concentration = 2.5
[problem.grid]
successors = [1, 2]
[[learners]]
name = "spot"
options = { rho = "slater", bonus_scale = 0.01 }
grid = { stance = [0.0, 0.5, "optimistic"] }
"""
MODEL = b"""horizon = 2
start = [0.5, 0.5]
senses = "<="
reward_range = [0, 2]
transitions = [[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.25, 0.75]]]
rewards = [[1.0, 0.5], [0.0, 2.0]]
constraints = [[[0.5, 0.0], [1.0, 0.25]]]
thresholds = [0.75]
actions = [[true, true], [true, false]]
"""


def retell_text(data: bytes, rng: Random) -> bytes:
    """A number, string or name exchanged for another one."""
    words = list(re.finditer(rb"[A-Za-z_]+|-?[0-9.]+|\"[^\"]*\"|[\[\]{}=,]", data))
    word = rng.choice(words)
    others = [*(w.group() for w in words), *WORDS, b"1e9", b"100000", b"nan", b'"inf"', b"[]"]
    return data[: word.start()] + rng.choice(others) + data[word.end() :]


def spec_target() -> Target:
    def right(found: Any, _: bytes) -> None:
        lengths = found.episodes if isinstance(found.episodes, list) else [found.episodes]
        many = found.seeds if isinstance(found.seeds, int) else len(found.seeds)
        if many * len(lengths) < 1000:
            assert all(run.id for run in found.runs())

    return Target(
        "sweep", SWEEP, read_spec, lambda found: False, right, lambda data: data, retell_text, ".toml", share=3
    )  # fmt: skip


def model_target(suffix: str) -> Target:
    import tomllib

    content = {k: np.array(v) for k, v in tomllib.loads(MODEL.decode()).items() if k != "senses"}
    content["constraint_ranges"] = np.array([[0.0, 1.0]])

    def as_npz(arrays: dict[str, Any]) -> bytes:
        file = io.BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    def retell(_: bytes, rng: Random) -> bytes:
        name = rng.choice(sorted(content))
        changed = strange_array(content[name], rng)
        return (
            as_npz({**content, name: changed})
            if suffix == ".npz"
            else save({**content, name: changed})
        )

    data = {".toml": MODEL, ".npz": as_npz(content), ".safetensors": save(content)}[suffix]
    return Target(
        f"model {suffix}", data, read_cmdp, lambda found: False, lambda found, _: usable_cmdp(found),
        lambda data: data, retell_text if suffix == ".toml" else retell, suffix,
    )  # fmt: skip


def targets(folder: Path) -> list[Target]:
    """Every kind of file."""
    return [
        learner_target(folder, "spot", "masked"),
        learner_target(folder, "opt-cmdp", "default"),
        cmdp_target(folder, sparse=False),
        cmdp_target(folder, sparse=True),
        certificate_target(folder),
        checkpoint_target(folder),
        journal_target(folder),
        spec_target(),
        *(model_target(suffix) for suffix in (".toml", ".npz", ".safetensors")),
    ]


# --- The fuzzer


def fuzz(target: Target, mutations: int, seed: int, path: Path) -> dict[str, Any]:
    """How the mutants fared; `wrong` describes those that must not have."""
    rng, fared, wrong = Random(f"{seed} {target.name}"), Counter[str](), []
    began = time.perf_counter()
    for number in range(mutations):
        checked = number % 2 == 0
        if checked:
            mutant = mutate(target.data, rng)
        elif rng.random() < 0.5:
            mutant = target.mend(mutate(target.data, rng)) or target.data
        else:
            mutant = target.retell(target.data, rng)
        path.write_bytes(mutant)
        try:
            found = target.load(path)
            if target.same(found):
                fared["equal"] += 1
            elif checked and target.mend(b"") != b"":
                raise AssertionError(
                    "another object, though the checksum is that of the valid file"
                )
            else:
                target.right(found, mutant)
                fared["other"] += 1
        except ss.SafespotError as problem:
            fared["refused" if len(str(problem)) > 10 else "wrong"] += 1
        except BaseException as problem:
            fared["wrong"] += 1
            last = traceback.extract_tb(problem.__traceback__)[-1]
            wrong.append(
                f"{number}: {type(problem).__name__}: {problem} ({Path(last.filename).name}:{last.lineno})"[
                    :300
                ]
            )
            if isinstance(problem, KeyboardInterrupt):
                raise
    return {
        **fared,
        "mutations": mutations,
        "seconds": time.perf_counter() - began,
        "samples": wrong[:12],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    given = parser.parse_args()
    warnings.simplefilter("error")
    os.environ["SAFESPOT_MEMORY"] = str(ASKED)
    scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=scratch))
    heard: list[str] = []
    limits = resource.getrlimit(resource.RLIMIT_AS)
    try:
        every = [t for t in targets(folder) if not given.only or t.name.split()[0] in given.only]
        paths = {target.name: folder / f"mutant{target.suffix}" for target in every}
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, limits[1]))
        for target in every:  # what is imported on first use is imported now
            fuzz(target, 60, -1, paths[target.name])
        armed = [True]

        def listen(event: str, arguments: Any) -> None:
            if armed and event.startswith(FORBIDDEN):
                heard.append(f"{event}: {arguments!r}"[:200])

        sys.addaudithook(listen)
        shares = sum(target.share for target in every)
        found = {
            target.name: fuzz(
                target, given.mutations * target.share // shares, given.seed, paths[target.name]
            )
            for target in every
        }
        armed.clear()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        shutil.rmtree(folder)
    print(json.dumps({"targets": found, "executed": heard[:12]}, indent=1))
    sys.exit(1 if heard or any("wrong" in result for result in found.values()) else 0)


if __name__ == "__main__":
    main()
