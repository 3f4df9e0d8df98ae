"""The decision service: a durable learner behind HTTP (`safespot serve`; extra `safespot[serve]`).

    ledger      the requests that change something, on the disk, with who made them: the audit trail
    episodes    what an open episode knows, and which requests it takes
    desk        the one writer: open episodes, the ledger, the learner, and one sync for all that wait
    names       states, actions and constraints by name
    tokens      who may do what
    http        the requests that are made often, as plain ASGI
    document    their OpenAPI
    app         the rest, and all of it together

The journal of the learner stays the database. The ledger holds what is not in it yet, so that an episode is safe when
it is acknowledged, although it may have to wait for one that began before it.
"""
