"""The patients of `Clinic` at a decision service: make its folder, then treat patients over HTTP.

    python examples/service/clinic.py make ward-7
    safespot serve ward-7
    python examples/service/clinic.py treat http://127.0.0.1:8000 --patients 200

The hospital knows the patients and the service knows the learner; neither knows the other's part.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from client import Service

import safespot as ss
from safespot.problems.dosing import DEATH, DOSES, DRUG_EDGES, TUMOR_EDGES

STEPS, QUARTER = 14, 1


def make(folder: Path) -> None:
    """A durable learner that begins with a quarter of a dose for everybody, and what its numbers are called."""
    died = ss.Ending(reward=0, constraints=1)
    edges = [list(map(float, TUMOR_EDGES)), list(map(float, DRUG_EDGES))]
    box = ss.BlackBox(ss.gym.Clinic(), horizon=STEPS, states=edges, endings=died)
    interface = box.interface
    # Who has died gets nothing more: there the first action is the only one.
    allowed = np.reshape(interface["action_mask"], (-1, interface["states"], len(DOSES)))[0]
    baseline = np.eye(len(DOSES))[np.where(allowed[:, QUARTER], QUARTER, 0)]
    ss.open(folder, ss.SpotEpochs(**interface, baseline=baseline)).close()
    names = [f"{dose:g} of a dose" for dose in DOSES]
    (folder / "service.toml").write_text(
        f"actions = {json.dumps(names)}\nconstraints = ['dose']\n"
        f"[observation]\ntumor = {edges[0]}\ndrug = {edges[1]}\n"
    )


def treat(service: Service, patients: int, seed: int) -> None:
    """Patients one after the other; then what is proven."""
    clinic = ss.gym.Clinic()
    dead = {"state": DEATH}  # the state after those that are seen
    for number in range(patients):
        seen, _ = clinic.reset(seed=seed if number == 0 else None)
        begun = service.post("/episodes", key=f"clinic-{seed}-{number}")
        path, died = f"/episodes/{begun['episode']}", False
        for step in range(begun["steps"]):
            where = dead if died else observed(seen)
            dose = service.post(f"{path}/decisions", {"step": step, **where})["action"]
            outcome: dict[str, Any] = {"reward": 0.0, "constraints": [1.0]}  # a death, as declared
            if not died:
                seen, health, died, _, info = clinic.step(dose)
                outcome = {"reward": float(health), "constraints": [float(info["cost"])],
                           "thresholds": [float(info["threshold"])]}  # fmt: skip
            service.post(f"{path}/outcomes", {"step": step, **outcome})
        service.post(f"{path}/end", dead if died else observed(seen))
    with urllib.request.urlopen(f"{service.address}/certificate") as answer:
        found = json.load(answer)["certified"]
    if found is None:
        print(f"{patients} patients; nothing is certified yet")
    else:
        print(f"{patients} patients; certified after patient {found['episode']}")


def observed(seen: Any) -> dict[str, Any]:
    """What the doctor sees, by name."""
    return {"observation": {"tumor": float(seen[0]), "drug": float(seen[1])}}


def main() -> None:
    """Make the folder, or treat."""
    parser = argparse.ArgumentParser(description="Clinic's patients at a decision service.")
    parser.add_argument("what", choices=["make", "treat"])
    parser.add_argument("where", help="the folder to make, or the address of the service")
    parser.add_argument("--patients", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "make":
        make(Path(given.where))
    else:
        treat(Service(given.where), given.patients, given.seed)


if __name__ == "__main__":
    main()
