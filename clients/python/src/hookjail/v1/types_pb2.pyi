from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Contract(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTRACT_UNSPECIFIED: _ClassVar[Contract]
    CONTRACT_OBSERVE: _ClassVar[Contract]
    CONTRACT_REYN: _ClassVar[Contract]
    CONTRACT_BASECOAT: _ClassVar[Contract]
    CONTRACT_LOOM: _ClassVar[Contract]
    CONTRACT_DOCKER_AGENT: _ClassVar[Contract]
    CONTRACT_INFER: _ClassVar[Contract]
    CONTRACT_CLAUDE_CODE: _ClassVar[Contract]
    CONTRACT_CODEX: _ClassVar[Contract]
    CONTRACT_GEMINI_CLI: _ClassVar[Contract]
    CONTRACT_CURSOR: _ClassVar[Contract]
    CONTRACT_COPILOT: _ClassVar[Contract]
    CONTRACT_QWEN_CODE: _ClassVar[Contract]
    CONTRACT_FAMILY: _ClassVar[Contract]

class Axis(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AXIS_UNSPECIFIED: _ClassVar[Axis]
    AXIS_READ: _ClassVar[Axis]
    AXIS_WRITE: _ClassVar[Axis]
    AXIS_EXECUTE: _ClassVar[Axis]
    AXIS_NETWORK: _ClassVar[Axis]
    AXIS_SPAWN: _ClassVar[Axis]
    AXIS_IPC: _ClassVar[Axis]
    AXIS_METADATA: _ClassVar[Axis]
    AXIS_DEVICES: _ClassVar[Axis]
    AXIS_ENVIRONMENT: _ClassVar[Axis]
    AXIS_MEMORY: _ClassVar[Axis]
    AXIS_PIDS: _ClassVar[Axis]
    AXIS_CPU: _ClassVar[Axis]
    AXIS_OUTPUT: _ClassVar[Axis]
    AXIS_TIME: _ClassVar[Axis]

class Coverage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COVERAGE_UNSPECIFIED: _ClassVar[Coverage]
    COVERAGE_ENFORCED: _ClassVar[Coverage]
    COVERAGE_DEGRADED: _ClassVar[Coverage]
    COVERAGE_IGNORED: _ClassVar[Coverage]

class OutcomeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_KIND_UNSPECIFIED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_EXITED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_SIGNALED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_TIMED_OUT: _ClassVar[OutcomeKind]
    OUTCOME_KIND_OUT_OF_MEMORY: _ClassVar[OutcomeKind]
    OUTCOME_KIND_PIDS_EXHAUSTED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_OUTPUT_LIMIT: _ClassVar[OutcomeKind]
    OUTCOME_KIND_ESCAPE_ATTEMPT: _ClassVar[OutcomeKind]
    OUTCOME_KIND_EXEC_FAILED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_CANCELED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_KILLED: _ClassVar[OutcomeKind]

class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_UNSPECIFIED: _ClassVar[Decision]
    DECISION_NONE: _ClassVar[Decision]
    DECISION_ALLOW: _ClassVar[Decision]
    DECISION_DENY: _ClassVar[Decision]
    DECISION_ASK: _ClassVar[Decision]
    DECISION_BLOCK: _ClassVar[Decision]

class BlockedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BLOCKED_BY_UNSPECIFIED: _ClassVar[BlockedBy]
    BLOCKED_BY_EXIT_CODE: _ClassVar[BlockedBy]
    BLOCKED_BY_CONTINUE_FALSE: _ClassVar[BlockedBy]
    BLOCKED_BY_DECISION: _ClassVar[BlockedBy]
    BLOCKED_BY_PERMISSION_DECISION: _ClassVar[BlockedBy]
    BLOCKED_BY_TIMEOUT: _ClassVar[BlockedBy]
    BLOCKED_BY_SIGNAL: _ClassVar[BlockedBy]
    BLOCKED_BY_INVALID_OUTPUT: _ClassVar[BlockedBy]
    BLOCKED_BY_SPAWN_ERROR: _ClassVar[BlockedBy]

class ContextLifetime(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_LIFETIME_UNSPECIFIED: _ClassVar[ContextLifetime]
    CONTEXT_LIFETIME_TURN: _ClassVar[ContextLifetime]
    CONTEXT_LIFETIME_SESSION: _ClassVar[ContextLifetime]
CONTRACT_UNSPECIFIED: Contract
CONTRACT_OBSERVE: Contract
CONTRACT_REYN: Contract
CONTRACT_BASECOAT: Contract
CONTRACT_LOOM: Contract
CONTRACT_DOCKER_AGENT: Contract
CONTRACT_INFER: Contract
CONTRACT_CLAUDE_CODE: Contract
CONTRACT_CODEX: Contract
CONTRACT_GEMINI_CLI: Contract
CONTRACT_CURSOR: Contract
CONTRACT_COPILOT: Contract
CONTRACT_QWEN_CODE: Contract
CONTRACT_FAMILY: Contract
AXIS_UNSPECIFIED: Axis
AXIS_READ: Axis
AXIS_WRITE: Axis
AXIS_EXECUTE: Axis
AXIS_NETWORK: Axis
AXIS_SPAWN: Axis
AXIS_IPC: Axis
AXIS_METADATA: Axis
AXIS_DEVICES: Axis
AXIS_ENVIRONMENT: Axis
AXIS_MEMORY: Axis
AXIS_PIDS: Axis
AXIS_CPU: Axis
AXIS_OUTPUT: Axis
AXIS_TIME: Axis
COVERAGE_UNSPECIFIED: Coverage
COVERAGE_ENFORCED: Coverage
COVERAGE_DEGRADED: Coverage
COVERAGE_IGNORED: Coverage
OUTCOME_KIND_UNSPECIFIED: OutcomeKind
OUTCOME_KIND_EXITED: OutcomeKind
OUTCOME_KIND_SIGNALED: OutcomeKind
OUTCOME_KIND_TIMED_OUT: OutcomeKind
OUTCOME_KIND_OUT_OF_MEMORY: OutcomeKind
OUTCOME_KIND_PIDS_EXHAUSTED: OutcomeKind
OUTCOME_KIND_OUTPUT_LIMIT: OutcomeKind
OUTCOME_KIND_ESCAPE_ATTEMPT: OutcomeKind
OUTCOME_KIND_EXEC_FAILED: OutcomeKind
OUTCOME_KIND_CANCELED: OutcomeKind
OUTCOME_KIND_KILLED: OutcomeKind
DECISION_UNSPECIFIED: Decision
DECISION_NONE: Decision
DECISION_ALLOW: Decision
DECISION_DENY: Decision
DECISION_ASK: Decision
DECISION_BLOCK: Decision
BLOCKED_BY_UNSPECIFIED: BlockedBy
BLOCKED_BY_EXIT_CODE: BlockedBy
BLOCKED_BY_CONTINUE_FALSE: BlockedBy
BLOCKED_BY_DECISION: BlockedBy
BLOCKED_BY_PERMISSION_DECISION: BlockedBy
BLOCKED_BY_TIMEOUT: BlockedBy
BLOCKED_BY_SIGNAL: BlockedBy
BLOCKED_BY_INVALID_OUTPUT: BlockedBy
BLOCKED_BY_SPAWN_ERROR: BlockedBy
CONTEXT_LIFETIME_UNSPECIFIED: ContextLifetime
CONTEXT_LIFETIME_TURN: ContextLifetime
CONTEXT_LIFETIME_SESSION: ContextLifetime

class AxisReport(_message.Message):
    __slots__ = ("axis", "coverage", "by", "gap", "required")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    axis: Axis
    coverage: Coverage
    by: str
    gap: str
    required: bool
    def __init__(self, axis: _Optional[_Union[Axis, str]] = ..., coverage: _Optional[_Union[Coverage, str]] = ..., by: _Optional[str] = ..., gap: _Optional[str] = ..., required: bool = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("check", "observed", "axis")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    check: str
    observed: str
    axis: Axis
    def __init__(self, check: _Optional[str] = ..., observed: _Optional[str] = ..., axis: _Optional[_Union[Axis, str]] = ...) -> None: ...

class Confinement(_message.Message):
    __slots__ = ("backend", "profile", "profile_digest", "axes", "evidence", "confirmed", "landlock_abi", "passed_over", "unconfined")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    LANDLOCK_ABI_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    UNCONFINED_FIELD_NUMBER: _ClassVar[int]
    backend: str
    profile: str
    profile_digest: str
    axes: _containers.RepeatedCompositeFieldContainer[AxisReport]
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    confirmed: bool
    landlock_abi: int
    passed_over: _containers.RepeatedCompositeFieldContainer[PassedOver]
    unconfined: bool
    def __init__(self, backend: _Optional[str] = ..., profile: _Optional[str] = ..., profile_digest: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[AxisReport, _Mapping]]] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., confirmed: bool = ..., landlock_abi: _Optional[int] = ..., passed_over: _Optional[_Iterable[_Union[PassedOver, _Mapping]]] = ..., unconfined: bool = ...) -> None: ...

class PassedOver(_message.Message):
    __slots__ = ("backend", "reason", "message")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    backend: str
    reason: str
    message: str
    def __init__(self, backend: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Denial(_message.Message):
    __slots__ = ("axis", "operation", "target", "rule", "source", "confidence", "suggestion", "times", "incidental", "egress")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    INCIDENTAL_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    axis: Axis
    operation: str
    target: str
    rule: str
    source: str
    confidence: str
    suggestion: str
    times: int
    incidental: bool
    egress: str
    def __init__(self, axis: _Optional[_Union[Axis, str]] = ..., operation: _Optional[str] = ..., target: _Optional[str] = ..., rule: _Optional[str] = ..., source: _Optional[str] = ..., confidence: _Optional[str] = ..., suggestion: _Optional[str] = ..., times: _Optional[int] = ..., incidental: bool = ..., egress: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("kind", "exit_code", "signal", "exec_errno", "output_held_open")
    KIND_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    EXEC_ERRNO_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_HELD_OPEN_FIELD_NUMBER: _ClassVar[int]
    kind: OutcomeKind
    exit_code: int
    signal: int
    exec_errno: int
    output_held_open: bool
    def __init__(self, kind: _Optional[_Union[OutcomeKind, str]] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., exec_errno: _Optional[int] = ..., output_held_open: bool = ...) -> None: ...

class Push(_message.Message):
    __slots__ = ("wake", "message", "session", "name")
    WAKE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    wake: bool
    message: str
    session: str
    name: str
    def __init__(self, wake: bool = ..., message: _Optional[str] = ..., session: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("decision", "failed", "blocked_by", "reason", "stop_reason", "system_message", "warnings", "push", "skip_reason", "additional_context", "output", "updated_input_json", "updated_output_json", "updated_messages_json", "metadata_json", "summary", "recorded_block", "sandbox_denied", "suppress_output", "context_lifetime", "priority")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    SKIP_REASON_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    UPDATED_OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    UPDATED_MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    RECORDED_BLOCK_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_DENIED_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LIFETIME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    failed: bool
    blocked_by: BlockedBy
    reason: str
    stop_reason: str
    system_message: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    push: Push
    skip_reason: str
    additional_context: _containers.RepeatedScalarFieldContainer[str]
    output: str
    updated_input_json: str
    updated_output_json: str
    updated_messages_json: str
    metadata_json: str
    summary: str
    recorded_block: bool
    sandbox_denied: bool
    suppress_output: bool
    context_lifetime: ContextLifetime
    priority: float
    def __init__(self, decision: _Optional[_Union[Decision, str]] = ..., failed: bool = ..., blocked_by: _Optional[_Union[BlockedBy, str]] = ..., reason: _Optional[str] = ..., stop_reason: _Optional[str] = ..., system_message: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., push: _Optional[_Union[Push, _Mapping]] = ..., skip_reason: _Optional[str] = ..., additional_context: _Optional[_Iterable[str]] = ..., output: _Optional[str] = ..., updated_input_json: _Optional[str] = ..., updated_output_json: _Optional[str] = ..., updated_messages_json: _Optional[str] = ..., metadata_json: _Optional[str] = ..., summary: _Optional[str] = ..., recorded_block: bool = ..., sandbox_denied: bool = ..., suppress_output: bool = ..., context_lifetime: _Optional[_Union[ContextLifetime, str]] = ..., priority: _Optional[float] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("wall", "user", "sys", "max_rss_bytes", "queue", "setup", "run")
    WALL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SYS_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SETUP_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    wall: _duration_pb2.Duration
    user: _duration_pb2.Duration
    sys: _duration_pb2.Duration
    max_rss_bytes: int
    queue: _duration_pb2.Duration
    setup: _duration_pb2.Duration
    run: _duration_pb2.Duration
    def __init__(self, wall: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., user: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., sys: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_rss_bytes: _Optional[int] = ..., queue: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., setup: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., run: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AuditReference(_message.Message):
    __slots__ = ("run_id", "sequence", "hash")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    sequence: int
    hash: str
    def __init__(self, run_id: _Optional[str] = ..., sequence: _Optional[int] = ..., hash: _Optional[str] = ...) -> None: ...

class ContractEvent(_message.Message):
    __slots__ = ("name", "json", "display")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_FIELD_NUMBER: _ClassVar[int]
    name: str
    json: str
    display: str
    def __init__(self, name: _Optional[str] = ..., json: _Optional[str] = ..., display: _Optional[str] = ...) -> None: ...
