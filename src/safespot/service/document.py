"""The OpenAPI of the requests that `http` handles itself."""

from __future__ import annotations

from typing import Any

from .episodes import Rules
from .http import KEY

ID = "0f8b1c2d3e4f5a6b7c8d9e0f1a2b3c4d"
DIGEST = "891f9768fbcea5b5" * 4
EXAMPLES: dict[str, Any] = {
    "certified": {"episode": 412, "policy": [[[0.0, 1.0]]], "certificate": {"verdict": ["safe"]}},
    "open": {
        "episode": ID, "status": "open", "decided": 2, "outcomes": 1, "last_request": 1760000000.0
    },
    "line": {
        "what": "decide", "episode": ID, "by": "ward-7", "at": 1760000000.0, "uptime": 3600.0,
        "step": 1, "state": 3, "action": 0,
    },
}  # fmt: skip
REFUSALS = {
    400: "The request cannot be read.",
    401: "There is no valid token.",
    403: "The token has not this right.",
    404: "There is no such episode.",
    409: "It contradicts what was said before, comes out of order or too late, or something is missing.",
    410: "The episode has expired.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A value is not what the learner expects.",
    429: "Too many episodes are open, or wait for one that is.",
    503: "The service has stopped.",
}


def add_episodes(document: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """The document with these requests in it."""
    document["components"].setdefault("schemas", {})["Error"] = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            }
        },
        "example": {
            "error": {"code": "out-of-order", "message": "step 2 is to be decided next, not 4."}
        },
    }
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{}, {"token": []}]
    paths = _paths(rules)
    paths["/episodes"]["post"]["responses"]["201"]["links"] = {
        name: {"operationId": name, "parameters": {"episode": "$response.body#/episode"}}
        for name in ("decide", "outcome", "end", "expire")
    }
    for path, item in paths.items():
        document["paths"].setdefault(path, {}).update(item)
    for item in document["paths"].values():
        for operation in item.values():
            _add_refusals(operation)
    return document


def _add_refusals(operation: dict[str, Any]) -> None:
    for status, about in REFUSALS.items():
        operation["responses"][str(status)] = {
            "description": about,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }


def _paths(rules: Rules) -> dict[str, Any]:
    known, names = rules.known, rules.names
    m = known.m
    step = {"type": "integer", "minimum": 0, "maximum": known.H - 1}
    state: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": known.S - 1}
    if names.states:
        state = {"oneOf": [state, {"type": "string", "enum": list(names.states)}]}
    seen: dict[str, Any] = {"state": state}
    if names.observation:
        entries = {name: {"type": "number"} for name in names.observation}
        seen["observation"] = {
            "type": "object", "properties": entries, "required": list(entries),
            "additionalProperties": False,
        }  # fmt: skip
    one = [{"required": [name]} for name in seen]
    low, high = known.units.reward_range
    ranges: list[Any] = [
        {"type": "number", "minimum": low, "maximum": high}
        for low, high in known.units.constraint_ranges
    ]
    signals: list[Any] = [
        {"type": "array", "prefixItems": ranges, "items": False, "minItems": m, "maxItems": m}
    ]
    if names.constraints:
        each: dict[str, Any] = dict(zip(names.constraints, ranges, strict=True))
        signals.append({"type": "object", "properties": each, "required": list(each)})
    action = {"type": "integer", "minimum": 0, "maximum": known.A - 1}
    shown = [low for low, _ in known.units.constraint_ranges]
    start = 0 if known.start is None else known.start
    return {
        "/episodes": {
            "post": _operation(
                "start", "Begin an episode; it is on the disk when this is answered.", 201,
                None, None,
                _object({"episode": {"type": "string"}, "steps": {"type": "integer"},
                         "policy": {"type": "string"}, "expires_after": {"type": "number"}}),
                {"episode": ID, "steps": known.H, "policy": DIGEST, "expires_after": 86400.0},
                [{"name": "Idempotency-Key", "in": "header", "required": True,
                  "description": "Another one for every episode; the same one where a request is repeated.",
                  "schema": {"type": "string", "minLength": 1, "maxLength": KEY, "pattern": "^[A-Za-z0-9._-]+$"},
                  "example": "patient-4711"}],
            )
        },
        "/episodes/{episode}/decisions": {
            "post": _operation(
                "decide", "What to do at a step; the same question has the same answer.", 200,
                _object({"step": step, **seen}, ["step"], one), {"step": 0, "state": start},
                _object({"step": step, "action": action, "name": {"type": "string"},
                         "policy": {"type": "string"}}, ["step", "action", "policy"]),
                {"step": 0, "action": 0, "policy": DIGEST}, [_id()],
            )
        },
        "/episodes/{episode}/outcomes": {
            "post": _operation(
                "outcome", "What a step brought; thresholds are left out, or null, where there was no sample.", 200,
                _object({"step": step, "reward": {"type": "number", "minimum": low, "maximum": high},
                         "constraints": {"oneOf": signals},
                         "thresholds": {"oneOf": [*signals, {"type": "null"}]}},
                        ["step", "reward", "constraints"]),
                {"step": 0, "reward": low, "constraints": shown, "thresholds": None},
                _object({"step": step}), {"step": 0}, [_id()],
            )
        },
        "/episodes/{episode}/end": {
            "post": _operation(
                "end", "It is over, in that state; it is on the disk when this is answered.", 200,
                _object(seen, [], one), {"state": start},
                _object({"episode": {"type": "string"}, "status": {"type": "string"}}),
                {"episode": ID, "status": "ended"}, [_id()],
            )
        },
        "/episodes/{episode}/expire": {
            "post": _operation(
                "expire", "Give an episode up; it counts at its worst. For whoever administers.", 200,
                None, None,
                _object({"episode": {"type": "string"}, "status": {"type": "string"}}),
                {"episode": ID, "status": "expired"}, [_id()],
            )
        },
    }  # fmt: skip


def _operation(
    name: str,
    summary: str,
    status: int,
    body: Any,
    body_example: Any,
    answer: Any,
    answer_example: Any,
    parameters: list[Any],
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": name, "summary": summary, "tags": ["episodes"], "parameters": parameters,
        "responses": {str(status): {
            "description": "Done.",
            "content": {"application/json": {"schema": answer, "example": answer_example}},
        }},
    }  # fmt: skip
    if body is not None:
        content = {"application/json": {"schema": body, "example": body_example}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _object(
    properties: dict[str, Any], required: list[str] | None = None, one: list[Any] | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return made if one is None else {**made, "oneOf": one}


def _id() -> dict[str, Any]:
    schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
    return {"name": "episode", "in": "path", "required": True, "schema": schema, "example": ID}
