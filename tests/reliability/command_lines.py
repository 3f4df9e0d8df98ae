"""A fuzzer of the command line: random commands, options and values.

    python -m tests.reliability.command_lines --calls 1000 [--seed 0]

Whatever is asked for, the command answers, or says in words what is wrong, and ends with 0, 1 or 2: no traceback, no
other error. Runs are done in this process, which gives itself a limit of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import safespot as ss
from safespot import cli
from safespot.experiments import sweeping
from tests.support.contract import Subject
from tests.support.sweeping import Inline

MEMORY = 2**31  # bytes that a command may take beyond what the process has
SECONDS = 120  # that a command may take

PROBLEMS = [
    "machine",
    "random",
    "triage",
    "queue",
    "inventory",
    "media",
    "grid",
    "nonsense",
    "",
    "file",
]
NUMBERS = [
    "0", "1", "2", "3", "-1", "0.5", "nan", "inf", "-inf", "1e308", "5e-324", "1e400", "9" * 400, "9" * 5000, "2**63",
    "9223372036854775808", "true", "x", "", " ", "[]", "[1]", "[[1,2],[3]]", "{}", "[" * 2000, '"text"', "'", "0x10",
    "1_000", "é", "\x7f", "null", "slater", "known", "optimal", "inf",
]  # fmt: skip
OPTIONS = [
    "states", "actions", "horizon", "seed", "successors", "name", "path", "size", "options", "endings", "senses",
    "stationary", "thresholds", "constraints", "start", "action_mask", "ranges", "x", "", "problem", "self",
]  # fmt: skip
LEARNER_OPTIONS = [
    "rho", "slack", "stance", "window", "delta", "episodes", "estimator", "bonus", "policy_step", "dual_step", "replan",
    "baseline", "policy", "thresholds", "name", "interface", "states", "clip_thresholds", "bonus_scale", "x", "",
    "self",
]  # fmt: skip
LEARNERS = [*ss.learners.names(), "nonsense", ""]
EPISODES = [
    "1",
    "5",
    "12",
    "1e1",
    "0",
    "-1",
    "1.5",
    "x",
    "1e400",
    "9" * 400,
    "",
    "1k5",
    "nan",
    "0.001k",
    "1,0",
]
COUNTS = ["1", "1", "2", "0", "-1", "x", "1.5", "9" * 30, ""]
SQUARE = "0,0,0,0,1.0,0.5,0.2,0\n0,1,0,0,1.0,0.5,0.2,0\n"
LOG = "episode,step,state,action,reward,constraint_0,threshold_0,next_state\n" + SQUARE
MODEL = "transitions = [[[1.0]]]\nrewards = [[0.5]]\nconstraints = [[[0.5]]]\nthresholds = [0.5]\nhorizon = 2\n"
SWEEP = 'episodes = 5\nseeds = 1\n[problem]\nname = "machine"\n[[learners]]\nname = "spot"\noptions = { rho = 1.0 }\n'


def make_files(folder: Path) -> list[str]:
    """Targets of every kind, right and wrong."""
    (folder / "log.csv").write_text(LOG)
    (folder / "bad.csv").write_text("a,b\n1\n2,3,4\n")
    (folder / "empty.csv").write_text("")
    (folder / "model.toml").write_text(MODEL)
    (folder / "bad.toml").write_text(MODEL.replace("0.5", "nan"))
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "wrong.toml").write_text(SWEEP.replace("machine", "nonsense").replace("rho", "rhoo"))
    (folder / "bomb.toml").write_text(MODEL.replace("horizon = 2", "horizon = 99999999999"))
    (folder / "garbage.npz").write_bytes(os.urandom(100))
    (folder / "garbage.safetensors").write_bytes(os.urandom(100))
    (folder / "garbage.parquet").write_bytes(b"PAR1" + os.urandom(100))
    (folder / "folder.csv").mkdir()
    (folder / "x[1]").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "thing").touch()
    (folder / "notastore").mkdir()
    (folder / "notastore" / "store.json").write_text('{"store": [1]}')
    np.savez(folder / "model.npz", **_arrays())
    ss.problems.make("machine").cmdp.save(folder / "cmdp.safetensors")
    subject = Subject("spot", "default")
    seen = [subject.episode(np.random.default_rng(t)) for t in range(3)]
    ss.write_log(folder / "log.parquet", seen)
    return [
        *(path.name for path in folder.iterdir()),
        "absent.csv",
        "absent",
        "/dev/null",
        "/proc/self/mem",
        "x" * 400,
    ]


def _arrays() -> dict[str, Any]:
    return {
        "transitions": np.ones((1, 1, 1)), "rewards": np.ones((1, 1)), "constraints": np.ones((1, 1, 1)),
        "thresholds": np.ones(1), "horizon": np.array(2),
    }  # fmt: skip


def command(rng: random.Random, files: list[str]) -> list[str]:
    """A command with some options."""

    def pairs(names: list[str]) -> str:
        return f"{rng.choice(names)}={rng.choice(NUMBERS)}"

    outs = ["store", "store", "fresh", "x[1]/s", "a=1/s", *files]
    match rng.choice(("problems", "solve", "run", "run", "run", "sweep", "sweep", "report", "odd")):
        case "problems":
            words = [
                "problems",
                rng.choice(PROBLEMS),
            ]  # the list of all takes a while where nothing is compiled
            words += [x for _ in range(rng.randrange(3)) for x in ("-o", pairs(OPTIONS))]
        case "solve":
            words = ["solve", rng.choice([*PROBLEMS, *files])]
            words += [x for _ in range(rng.randrange(3)) for x in ("-o", pairs(OPTIONS))]
            if rng.random() < 0.3:
                words += ["--policy", rng.choice(outs)]
        case "run":
            # One thing is wrong at a time as often as several, so that what lies behind is reached.
            odd = set(rng.sample(range(5), rng.choice((0, 1, 1, 1, 2, 5))))
            words = ["run", rng.choice([*PROBLEMS, *files]) if 0 in odd else "machine"]
            words += ["--episodes", rng.choice(EPISODES) if 1 in odd else "5"]
            words += ["--seeds", rng.choice(COUNTS) if 2 in odd else "1"]
            words += ["--out", rng.choice(outs) if 3 in odd else "store"]
            if 4 in odd:
                words += ["-o", pairs(OPTIONS)]
            words += [x for _ in range(rng.randrange(3)) for x in ("-l", pairs(LEARNER_OPTIONS))]
            if rng.random() < 0.3:
                words += ["--stance", rng.choice(NUMBERS)]
            if rng.random() < 0.5:
                words += ["--learner", rng.choice(LEARNERS)]
            if rng.random() < 0.3:
                words += ["--workers", rng.choice(COUNTS)]
        case "sweep":
            words = ["sweep", rng.choice(files), "--out", rng.choice(outs)]
            if rng.random() < 0.2:
                words += ["--engine", rng.choice(["local", "x"])]
            if rng.random() < 0.2:
                words += ["--scheduler", "tcp://127.0.0.1:1"]
        case "report":
            words = ["report", rng.choice(outs)]
            if rng.random() < 0.2:
                words += ["--figures", rng.choice(["svg", "x"])]
        case _:
            words = rng.choice(
                [["report", "store", "--figures", "gif"], [], ["x"], ["--version"],
                 ["report"], ["--x"], ["run"], ["sweep", "sweep.toml"], ["-h"]]
            )  # fmt: skip
    if words and rng.random() < 0.3:
        words.append("--json")
    return words


class TooSlow(BaseException):
    """A command took longer than any user would wait."""


def call(words: list[str]) -> tuple[int | None, str, str]:
    """Its exit code (None: it raised), and what went to the standard streams."""

    def late(*_: Any) -> None:
        raise TooSlow

    before = sys.argv, sys.stdout, sys.stderr
    files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
    # The command may put another file in the place of its standard output: its descriptor is a copy.
    copies = [os.fdopen(os.dup(f.fileno()), "wb") for f in files]
    streams = [io.TextIOWrapper(copy, "utf-8", "surrogateescape") for copy in copies]
    handler = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    code: int | None = None
    try:
        sys.argv, (sys.stdout, sys.stderr) = ["safespot", *words], streams
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        with contextlib.suppress(ValueError):
            streams[1].write(traceback.format_exc())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        sys.argv, sys.stdout, sys.stderr = before
    texts = []
    for stream, file in zip(streams, files, strict=True):
        stream.close()
        file.seek(0)
        texts.append(file.read().decode("utf-8", "replace"))
        file.close()
    return code, texts[0], texts[1]


@contextlib.contextmanager
def in_this_process() -> Iterator[None]:
    """Sweeps are done here, without workers."""

    def engine(store: Path, workers: int) -> Inline:
        return Inline(ss.experiments.Store(store))

    with mock.patch.object(sweeping, "LocalEngine", engine):
        yield


def fuzz(calls: int, seed: int) -> dict[str, Any]:
    """How the commands fared; `samples` are those that must not have."""
    rng, fared, wrong = random.Random(seed), Counter[str](), []
    folder, here = Path(tempfile.mkdtemp()), Path.cwd()
    began = time.perf_counter()
    try:
        os.chdir(folder)
        files = make_files(folder)
        with in_this_process():
            for _ in range(calls):
                words = command(rng, files)
                code, out, err = call(words)
                fared[f"{words[0] if words else 'nothing'}: {code}"] += 1
                fine = code in (0, 1, 2) and "Traceback" not in out + err
                if fine and code == 0 and "--json" in words and words[0] not in ("-h", "--version"):
                    fine = _is_json(out)
                if fine and code != 0:
                    fine = len(err.strip()) > 10  # it says why
                if not fine:
                    shown = [word[:60] for word in words]
                    wrong.append(f"{shown}: {code}: …{(err or out)[-600:]}")
                if fared.total() % 50 == 0:  # stores are filled anew
                    shutil.rmtree(folder / "store", ignore_errors=True)
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "fared": fared,
        "calls": calls,
        "seconds": time.perf_counter() - began,
        "samples": wrong[:12],
    }


def _is_json(text: str) -> bool:
    with contextlib.suppress(ValueError):
        json.loads(text)
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    found = fuzz(given.calls, given.seed)
    print(json.dumps(found, indent=1))
    sys.exit(bool(found["samples"]))


if __name__ == "__main__":
    main()
