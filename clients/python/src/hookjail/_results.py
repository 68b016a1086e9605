"""Results of hooks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ._errors import Refused, of_refusal
from .v1 import hook_service_pb2 as pb
from .v1 import types_pb2 as types


@dataclass(frozen=True)
class Result:
    """How a hook ended. Further fields are in `message`."""

    message: pb.ExecuteResponse

    @property
    def outcome(self) -> str:
        """How the process ended: `EXITED`, `SIGNALED`, `TIMED_OUT`, `EXEC_FAILED` …"""
        return types.OutcomeKind.Name(self.message.outcome.kind).removeprefix("OUTCOME_KIND_")

    @property
    def exit_code(self) -> int | None:
        """The exit code; None where it did not exit."""
        outcome = self.message.outcome
        return outcome.exit_code if outcome.HasField("exit_code") else None

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None where none did."""
        outcome = self.message.outcome
        return outcome.signal if outcome.HasField("signal") else None

    @property
    def stdout(self) -> bytes:
        """The kept part of stdout; see `truncated`."""
        return self.message.stdout

    @property
    def stderr(self) -> bytes:
        """The kept part of stderr; see `truncated`."""
        return self.message.stderr

    @property
    def truncated(self) -> bool:
        """Whether a part of its output is missing."""
        message = self.message
        return message.stdout_truncated or message.stderr_truncated or message.cut_for_reply

    @property
    def verdict(self) -> types.Verdict:
        """Meaning of the end under the contract."""
        return self.message.verdict

    @property
    def decision(self) -> str:
        """The verdict's decision: `NONE`, `ALLOW`, `ASK`, `DENY` or `BLOCK`."""
        return decision(self.message.verdict)

    @property
    def duration(self) -> timedelta:
        """From arrival to the end of all its processes."""
        return self.message.usage.wall.ToTimedelta()

    @property
    def backend(self) -> str:
        """The backend that confined it."""
        return self.message.confinement.backend

    @property
    def profile(self) -> str:
        """The profile that confined it."""
        return self.message.confinement.profile

    @property
    def confirmed(self) -> bool:
        """Whether this run was confined, as the self-test and its own evidence show."""
        return self.message.confinement.confirmed

    @property
    def run_id(self) -> str:
        """The id of its records in the journal."""
        return self.message.audit.run_id

    @property
    def request_id(self) -> str:
        return self.message.request_id


@dataclass(frozen=True)
class DispatchedHook:
    """Result of one hook of a dispatch."""

    message: pb.DispatchedHook

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def result(self) -> Result | None:
        """How it ended, if it ran."""
        return Result(self.message.ran) if self.message.HasField("ran") else None

    @property
    def refused(self) -> Refused | None:
        """Why it was refused, if it was."""
        return of_refusal(self.message.refused) if self.message.HasField("refused") else None

    @property
    def decision(self) -> str:
        """Its decision, or its contract's where it failed or was refused."""
        return decision(self.message.verdict)


@dataclass(frozen=True)
class Dispatched:
    """The answer of all hooks that were due. Further fields are in `message`."""

    message: pb.DispatchResponse

    @property
    def answer(self) -> types.Verdict:
        return self.message.answer

    @property
    def decision(self) -> str:
        """The answer's decision: `NONE`, `ALLOW`, `ASK`, `DENY` or `BLOCK`."""
        return decision(self.message.answer)

    @property
    def blocked_by(self) -> str | None:
        """The hook that stopped the operation; None where none did."""
        return self.message.blocked_by_hook or None

    @property
    def hooks(self) -> list[DispatchedHook]:
        """The hooks that were reached, in order."""
        return [DispatchedHook(hook) for hook in self.message.hooks]


def decision(verdict: types.Verdict) -> str:
    return types.Decision.Name(verdict.decision).removeprefix("DECISION_")
