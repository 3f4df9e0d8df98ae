"""The patients of `Clinic` at a decision service: make its folder, then treat patients over HTTP.

    python examples/service/clinic.py make ward-7
    safespot serve ward-7
    python examples/service/clinic.py treat http://127.0.0.1:8000

The hospital knows the patients and the service knows the learner; neither knows the other's part.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from client import Service

import safespot as ss
from safespot.problems.dosing import DEATH, DOSES, DRUG_EDGES, TUMOR_EDGES

LOOK = 500  # patients between two looks at what is proven
STEPS = 14  # blocks of treatment
QUARTER = 1  # the second dose
LARGE = 0.3  # which tumors are treated at first


def make(folder: Path) -> None:
    """A durable learner that begins as the ward does: a quarter of a dose where the tumor is large, else none."""
    died = ss.gym.Ending(reward=0, constraints=1)
    edges = [list(map(float, TUMOR_EDGES)), list(map(float, DRUG_EDGES))]
    box = ss.gym.BlackBox(ss.gym.Clinic(), horizon=STEPS, states=edges, endings=died)
    interface = box.interface
    # The last entry counts fastest, and the state after all others is death.
    tumor = np.arange(interface["states"]) // (len(DRUG_EDGES) + 1)
    treated = (tumor > TUMOR_EDGES.index(LARGE)) & (np.arange(interface["states"]) != DEATH)
    baseline = np.eye(len(DOSES))[np.where(treated, QUARTER, 0)]
    # Whoever has died shows no more biomarkers; those that are seen all hint at the same tolerance.
    learner = ss.SpotEpochs(**interface, baseline=baseline, shared_threshold=True)
    ss.open(folder, learner).close()
    names = ["none", "quarter", "half", "three quarters", "full"]
    (folder / "service.toml").write_text(
        f"actions = {json.dumps(names)}\nconstraints = ['dose']\n"
        f"[observation]\ntumor = {edges[0]}\ndrug = {edges[1]}\n"
    )


def treat(service: Service, patients: int, seed: int) -> None:
    """Patients one after the other, until a policy is certified."""
    clinic = ss.gym.Clinic()
    for number in range(patients):
        treat_one(service, clinic, f"clinic-{seed}-{number}", seed * 1_000_000 + number)
        if (number + 1) % LOOK == 0 or number + 1 == patients:
            found = service.get("/certificate")["certified"]
            bounds = service.get("/evidence")["threshold_bounds"]
            known = f"patients bear {bounds[0][0]:.2f} to {bounds[1][0]:.2f} doses"
            if found is not None:
                print(f"{number + 1:,} patients; {known}; certified after {found['episode']:,}")
                return
            print(f"{number + 1:,} patients; {known}; nothing is certified yet", flush=True)


def treat_one(service: Service, clinic: ss.gym.Clinic, key: str, seed: int) -> None:
    """One patient, from admission to discharge or death."""
    begun = service.post("/episodes", key=key)
    seen, _ = clinic.reset(seed=seed)
    path, where, died = f"/episodes/{begun['episode']}", observed(seen), False
    for step in range(begun["steps"]):
        dose = service.post(f"{path}/decisions", {"step": step, **where})["action"]
        outcome: dict[str, Any] = {"reward": 0.0, "constraints": [1.0]}  # a death, as declared
        if not died:
            seen, health, died, _, info = clinic.step(dose)
            where = {"state": DEATH} if died else observed(seen)
            outcome = {"reward": float(health), "constraints": [float(info["cost"])],
                       "thresholds": [float(info["threshold"])]}  # fmt: skip
        service.post(f"{path}/outcomes", {"step": step, **outcome})
    service.post(f"{path}/end", where)


def observed(seen: Any) -> dict[str, Any]:
    """What the doctor sees, by name."""
    return {"observation": {"tumor": float(seen[0]), "drug": float(seen[1])}}


def main() -> None:
    """Make the folder, or treat."""
    parser = argparse.ArgumentParser(description="Clinic's patients at a decision service.")
    parser.add_argument("what", choices=["make", "treat"])
    parser.add_argument("where", help="the folder to make, or the address of the service")
    parser.add_argument("--patients", type=int, default=20_000, help="at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "make":
        make(Path(given.where))
    else:
        treat(Service(given.where), given.patients, given.seed)


if __name__ == "__main__":
    main()
