"""The service as one application: what is read of it, and its OpenAPI."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from .. import __version__
from ..report.live import learner_document, live_page
from ..storage.durable import DurableLearner
from ..storage.following import Metered
from . import ledger
from .desk import Desk
from .document import EXAMPLES, add_episodes
from .http import FAILED, App, Service, as_error, check_read, check_right
from .metrics import as_text
from .refused import Refused
from .tokens import ADMINISTER

AUDIT = 1_000  # lines of the audit trail, at most


class Health(BaseModel):
    """Whether requests are taken."""

    status: str = Field(examples=["ok"])
    episodes: int = Field(description="how many are counted", examples=[412])
    open: int = Field(description="how many are open", examples=[3])
    held_back: int = Field(
        description="how many have ended and wait for one that began before them", examples=[1]
    )


class PolicyAnswer(BaseModel):
    """The policy that an episode plays that begins now."""

    digest: str = Field(examples=["891f9768fbcea5b5…"])
    episodes: int = Field(description="how many it has learned from", examples=[412])
    actions: list[str] = Field(
        description="their names; empty without any", examples=[["half", "full"]]
    )
    probabilities: list[list[list[float]]] = Field(
        description="of each action, by step and state", examples=[[[[0.25, 0.75]]]]
    )


class CertificateAnswer(BaseModel):
    """What is proven of a policy; see docs/certificates.md."""

    certificates: int = Field(description="how many were issued", examples=[1])
    certified: dict[str, Any] | None = Field(
        description="the certified policy with the largest estimated reward; null: none yet",
        examples=[EXAMPLES["certified"]],
    )
    note: str = Field(examples=[""])


class EvidenceAnswer(BaseModel):
    """What all episodes prove, whatever the world is; see docs/evidence.md."""

    episodes: int = Field(examples=[412])
    confidence: float = Field(examples=[0.95])
    constraints: list[str] = Field(examples=[["dose"]])
    violation_bounds: list[list[float]] = Field(
        description="lower and upper, by constraint: summed over the episodes; above 0 it is a violation",
        examples=[[[-310.5], [-102.0]]],
    )
    mean_bounds: list[list[float]] = Field(
        description="the same, of an episode", examples=[[[-0.75], [-0.25]]]
    )
    threshold_bounds: list[list[float]] = Field(
        description="lower and upper, by constraint: of an episode's limit",
        examples=[[[5.5], [6.5]]],
    )
    reward_bounds: list[float] = Field(description="of an episode's reward", examples=[[8.5, 9.5]])


class OpenAnswer(BaseModel):
    """Episodes that are not counted yet, in the order of their start."""

    episodes: list[dict[str, Any]] = Field(examples=[[EXAMPLES["open"]]])


class AuditAnswer(BaseModel):
    """The newest lines of the audit trail, the oldest of them first."""

    lines: list[dict[str, Any]] = Field(examples=[[EXAMPLES["line"]]])


def make_service(desk: Desk) -> Service:
    """The application that a server runs."""
    return Service(desk, _rest)


def _rest(service: Service) -> App:
    """All that is read."""
    desk, names = service.desk, service.desk.rules.names
    app = FastAPI(
        title="safespot", version=__version__, docs_url=None, redoc_url=None,
        description="Decisions of a learner whose limits are unknown; see docs/service.md.",
    )  # fmt: skip

    @app.exception_handler(Refused)
    async def _refused(_: Request, problem: Refused) -> JSONResponse:
        return JSONResponse(as_error(problem.code, problem.message), problem.status)

    @app.exception_handler(404)
    async def _unknown(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(as_error("unknown", "there is nothing at this address."), 404)

    @app.exception_handler(405)
    async def _method(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(as_error("method", "this address takes other methods."), 405)

    @app.exception_handler(Exception)
    async def _failed(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(as_error("internal", FAILED), 500)

    def reads(request: Request) -> None:
        check_read(request.state.who)

    @app.get("/health", tags=["state"])
    async def health() -> Health:
        """Whether requests are taken; needs no token."""
        if desk.stopped:
            raise Refused(503, "stopped", desk.stopped)
        return Health(
            status="ok", episodes=desk.current.version, open=desk.open, held_back=desk.held_back
        )

    @app.get("/policy", tags=["state"])
    async def policy(request: Request) -> PolicyAnswer:
        """The policy that an episode plays that begins now."""
        reads(request)
        now = desk.current
        return PolicyAnswer(
            digest=now.digest, episodes=now.version, actions=list(names.actions),
            probabilities=now.policy.tolist(),
        )  # fmt: skip

    @app.get("/certificate", tags=["state"])
    async def certificate(request: Request) -> CertificateAnswer:
        """What is proven of a policy that may be deployed."""
        reads(request)
        return await desk.ask(_certificate)

    @app.get("/evidence", tags=["state"])
    async def evidence(request: Request) -> EvidenceAnswer:
        """What all episodes so far prove of the limits."""
        reads(request)
        answer = await desk.ask(_evidence)
        answer.constraints = list(names.constraints)
        return answer

    @app.get("/episodes", tags=["state"])
    async def episodes(request: Request) -> OpenAnswer:
        """Episodes that are not counted yet."""
        reads(request)
        return OpenAnswer(episodes=desk.open_episodes)

    folder = desk.durable.folder
    metered = Metered(folder, desk.durable.learner.make_meter())

    @app.get("/", tags=["state"], response_class=HTMLResponse)
    async def page() -> str:
        """The live page, which asks for the state; it says nothing itself, and needs no token."""
        return live_page("state.json", folder.name)

    @app.get("/state.json", tags=["state"])
    async def state(request: Request) -> dict[str, Any]:
        """What the live page shows: limits, meter, epochs and trials, certificates, budget."""
        reads(request)
        document = await desk.ask(lambda durable: _state(durable, metered))
        are = "episode is" if desk.open == 1 else "episodes are"
        waiting = f"{desk.open:,} {are} open, {desk.held_back:,} held back."
        return {**document, "title": folder.name, "said": [*document["said"], waiting]}

    @app.get("/audit", tags=["state"])
    async def audit(request: Request) -> AuditAnswer:
        """What was changed last, and by whom; for whoever administers."""
        check_right(request.state.who, ADMINISTER)
        return AuditAnswer(lines=ledger.newest(desk.durable.folder, AUDIT))

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    async def metrics(request: Request) -> str:
        """Counts and times, as Prometheus reads them."""
        reads(request)
        return as_text(service)

    document = app.openapi
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(add_episodes(document(), desk.rules))
        return made

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _state(durable: DurableLearner, metered: Metered) -> dict[str, Any]:
    metered.update()
    return learner_document(durable.learner, metered.meter, metered.curve)


def _certificate(durable: DurableLearner) -> CertificateAnswer:
    learner = durable.learner
    if not learner.proofs.tries:
        note = f"`{learner.name}` issues none by itself; safespot.certify says what its episodes prove."
        return CertificateAnswer(certificates=0, certified=None, note=note)
    found = learner.certified
    return CertificateAnswer(
        certificates=len(learner.proofs.certificates),
        certified=None
        if found is None
        else {
            "episode": found.episode,
            "policy": found.policy.tolist(),
            "certificate": found.certificate.as_dict(),
        },
        note="" if found else "nothing is proven yet.",
    )


def _evidence(durable: DurableLearner) -> EvidenceAnswer:
    meter = durable.meter
    pairs = (meter.violation_bounds, meter.mean_bounds, durable.threshold_bounds)
    violation, mean, threshold = ([end.tolist() for end in pair] for pair in pairs)
    return EvidenceAnswer(
        episodes=meter.episodes, confidence=1.0 - meter.delta, constraints=[],
        violation_bounds=violation, mean_bounds=mean, threshold_bounds=threshold,
        reward_bounds=list(meter.reward_bounds),
    )  # fmt: skip
