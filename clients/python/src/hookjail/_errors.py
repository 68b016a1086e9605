"""Errors of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import grpc
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .v1 import hook_service_pb2

DOMAIN = "hookjail"


class HookjailError(Exception):
    """A call without a result. None of these may be read as "allow"."""


class Refused(HookjailError):
    """hookjail refused to run the hook.

    The text of this exception is for everybody. `fix`, `metadata` and `fields` are for the operator: never pass them to a model,
    which could apply them.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        metadata: Mapping[str, str],
        *,
        fields: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {message}")
        #: The stable reason, such as `CONSENT_REQUIRED`; docs/api.md lists them.
        self.reason = reason
        self.message = message
        #: Further facts, by name.
        self.metadata = dict(metadata)
        #: Problems of the request's fields, by field.
        self.fields = dict(fields or {})
        #: Seconds until a retry is of use, if it is.
        self.retry_after = retry_after

    @property
    def fix(self) -> str | None:
        """The operator's fix: the command that allows the hook, the repair of the host, or the lines for the configuration."""
        facts = (self.metadata.get(name) for name in ("approve", "fix", "configure"))
        return next((fact for fact in facts if fact), None)

    @property
    def request_id(self) -> str:
        """The id of the request in the journal."""
        return self.metadata.get("request_id", "")


class CallFailed(HookjailError):
    """The call broke: the connection, its deadline, or a fault of the daemon. Whether the hook ran is unknown."""

    def __init__(self, message: str, code: grpc.StatusCode) -> None:
        super().__init__(message)
        self.code = code


class Unreachable(CallFailed):
    """No daemon listens, or only an untrusted one. Nothing ran."""

    def __init__(self, message: str) -> None:
        super().__init__(message, grpc.StatusCode.UNAVAILABLE)


class NotStarted(HookjailError):
    """A private daemon could not be started."""


def of_call(error: grpc.RpcError) -> HookjailError:
    """Converts a failed call."""
    # Of both kinds of client: each failed call has these.
    code, text = error.code(), error.details() or ""
    info = error_details_pb2.ErrorInfo()
    bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    for detail in _details(error.trailing_metadata() or ()):
        for known in (info, bad, retry):
            detail.Unpack(known)
    if info.domain != DOMAIN:
        return CallFailed(f"{code.name}: {text}", code)
    return Refused(
        info.reason,
        text,
        info.metadata,
        fields={violation.field: violation.description for violation in bad.field_violations},
        retry_after=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
    )


def of_refusal(refusal: hook_service_pb2.Refusal) -> Refused:
    """Returns the refusal of one hook in a dispatch."""
    return Refused(refusal.reason, refusal.message, refusal.metadata)


def _details(metadata: Iterable[Any]) -> Iterable[Any]:
    for name, value in metadata:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            yield from status_pb2.Status.FromString(value).details
