"""A request that is not taken: what is wrong with it, for the client."""

from __future__ import annotations


class Refused(Exception):
    """The status, a word for programs, and a sentence for people; nothing has changed."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
