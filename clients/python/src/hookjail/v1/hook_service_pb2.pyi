from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hookjail.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DISCONNECT_UNSPECIFIED: _ClassVar[OnDisconnect]
    ON_DISCONNECT_KILL: _ClassVar[OnDisconnect]
    ON_DISCONNECT_FINISH: _ClassVar[OnDisconnect]

class OnFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_FAILURE_UNSPECIFIED: _ClassVar[OnFailure]
    ON_FAILURE_CONTRACT: _ClassVar[OnFailure]
    ON_FAILURE_CLOSED: _ClassVar[OnFailure]

class DispatchStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISPATCH_STAGE_UNSPECIFIED: _ClassVar[DispatchStage]
    DISPATCH_STAGE_DEFAULT: _ClassVar[DispatchStage]
    DISPATCH_STAGE_PREEMPT: _ClassVar[DispatchStage]

class TurnOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_ORIGIN_UNSPECIFIED: _ClassVar[TurnOrigin]
    TURN_ORIGIN_HUMAN: _ClassVar[TurnOrigin]
    TURN_ORIGIN_HOOK: _ClassVar[TurnOrigin]
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
ON_DISCONNECT_KILL: OnDisconnect
ON_DISCONNECT_FINISH: OnDisconnect
ON_FAILURE_UNSPECIFIED: OnFailure
ON_FAILURE_CONTRACT: OnFailure
ON_FAILURE_CLOSED: OnFailure
DISPATCH_STAGE_UNSPECIFIED: DispatchStage
DISPATCH_STAGE_DEFAULT: DispatchStage
DISPATCH_STAGE_PREEMPT: DispatchStage
TURN_ORIGIN_UNSPECIFIED: TurnOrigin
TURN_ORIGIN_HUMAN: TurnOrigin
TURN_ORIGIN_HOOK: TurnOrigin

class Shell(_message.Message):
    __slots__ = ("script", "shell")
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    script: str
    shell: str
    def __init__(self, script: _Optional[str] = ..., shell: _Optional[str] = ...) -> None: ...

class Hook(_message.Message):
    __slots__ = ("name", "argv", "shell", "working_dir", "env", "workspace", "source", "umask")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    name: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    shell: Shell
    working_dir: str
    env: _containers.ScalarMap[str, str]
    workspace: str
    source: str
    umask: int
    def __init__(self, name: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., shell: _Optional[_Union[Shell, _Mapping]] = ..., working_dir: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., workspace: _Optional[str] = ..., source: _Optional[str] = ..., umask: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("point", "json", "raw")
    POINT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    point: str
    json: bytes
    raw: bool
    def __init__(self, point: _Optional[str] = ..., json: _Optional[bytes] = ..., raw: bool = ...) -> None: ...

class Narrow(_message.Message):
    __slots__ = ("read", "write", "without_network", "without_spawn", "output_bytes", "without_named_grants", "egress")
    READ_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_NETWORK_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_SPAWN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_NAMED_GRANTS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    read: _containers.RepeatedScalarFieldContainer[str]
    write: _containers.RepeatedScalarFieldContainer[str]
    without_network: bool
    without_spawn: bool
    output_bytes: int
    without_named_grants: bool
    egress: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, read: _Optional[_Iterable[str]] = ..., write: _Optional[_Iterable[str]] = ..., without_network: bool = ..., without_spawn: bool = ..., output_bytes: _Optional[int] = ..., without_named_grants: bool = ..., egress: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("request_id", "hook", "contract", "event", "mode", "profile", "narrow", "timeout", "require_confirmed", "on_disconnect", "on_failure", "session_id", "max_reply_bytes", "depth", "offer", "required")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HOOK_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    NARROW_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    hook: Hook
    contract: _types_pb2.Contract
    event: Event
    mode: str
    profile: str
    narrow: Narrow
    timeout: _duration_pb2.Duration
    require_confirmed: bool
    on_disconnect: OnDisconnect
    on_failure: OnFailure
    session_id: str
    max_reply_bytes: int
    depth: int
    offer: Offer
    required: str
    def __init__(self, request_id: _Optional[str] = ..., hook: _Optional[_Union[Hook, _Mapping]] = ..., contract: _Optional[_Union[_types_pb2.Contract, str]] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., mode: _Optional[str] = ..., profile: _Optional[str] = ..., narrow: _Optional[_Union[Narrow, _Mapping]] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., require_confirmed: bool = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., on_failure: _Optional[_Union[OnFailure, str]] = ..., session_id: _Optional[str] = ..., max_reply_bytes: _Optional[int] = ..., depth: _Optional[int] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., required: _Optional[str] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("env", "workspace", "working_dir", "names")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENV_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    env: _containers.ScalarMap[str, str]
    workspace: str
    working_dir: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, env: _Optional[_Mapping[str, str]] = ..., workspace: _Optional[str] = ..., working_dir: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("request_id", "outcome", "stdout", "stdout_tail", "stdout_total_bytes", "stdout_truncated", "stderr", "stderr_tail", "stderr_total_bytes", "stderr_truncated", "verdict", "confinement", "denials", "usage", "audit", "events", "contract_version", "cut_for_reply", "denial_sources", "exec_problem", "wanted_variables")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDERR_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDERR_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    DENIALS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CUT_FOR_REPLY_FIELD_NUMBER: _ClassVar[int]
    DENIAL_SOURCES_FIELD_NUMBER: _ClassVar[int]
    EXEC_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    WANTED_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    outcome: _types_pb2.Outcome
    stdout: bytes
    stdout_tail: bytes
    stdout_total_bytes: int
    stdout_truncated: bool
    stderr: bytes
    stderr_tail: bytes
    stderr_total_bytes: int
    stderr_truncated: bool
    verdict: _types_pb2.Verdict
    confinement: _types_pb2.Confinement
    denials: _containers.RepeatedCompositeFieldContainer[_types_pb2.Denial]
    usage: _types_pb2.Usage
    audit: _types_pb2.AuditReference
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.ContractEvent]
    contract_version: str
    cut_for_reply: bool
    denial_sources: _containers.RepeatedScalarFieldContainer[str]
    exec_problem: str
    wanted_variables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., outcome: _Optional[_Union[_types_pb2.Outcome, _Mapping]] = ..., stdout: _Optional[bytes] = ..., stdout_tail: _Optional[bytes] = ..., stdout_total_bytes: _Optional[int] = ..., stdout_truncated: bool = ..., stderr: _Optional[bytes] = ..., stderr_tail: _Optional[bytes] = ..., stderr_total_bytes: _Optional[int] = ..., stderr_truncated: bool = ..., verdict: _Optional[_Union[_types_pb2.Verdict, _Mapping]] = ..., confinement: _Optional[_Union[_types_pb2.Confinement, _Mapping]] = ..., denials: _Optional[_Iterable[_Union[_types_pb2.Denial, _Mapping]]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., audit: _Optional[_Union[_types_pb2.AuditReference, _Mapping]] = ..., events: _Optional[_Iterable[_Union[_types_pb2.ContractEvent, _Mapping]]] = ..., contract_version: _Optional[str] = ..., cut_for_reply: bool = ..., denial_sources: _Optional[_Iterable[str]] = ..., exec_problem: _Optional[str] = ..., wanted_variables: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecuteStreamRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: ExecuteRequest
    def __init__(self, request: _Optional[_Union[ExecuteRequest, _Mapping]] = ...) -> None: ...

class ExecuteStreamResponse(_message.Message):
    __slots__ = ("stdout", "stderr", "response")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    stdout: bytes
    stderr: bytes
    response: ExecuteResponse
    def __init__(self, stdout: _Optional[bytes] = ..., stderr: _Optional[bytes] = ..., response: _Optional[_Union[ExecuteResponse, _Mapping]] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("used_tokens", "effective_limit")
    USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    used_tokens: int
    effective_limit: int
    def __init__(self, used_tokens: _Optional[int] = ..., effective_limit: _Optional[int] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "use_id", "input_json", "response_json", "success", "error", "duration_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    USE_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_JSON_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    use_id: str
    input_json: str
    response_json: str
    success: bool
    error: str
    duration_ms: int
    def __init__(self, name: _Optional[str] = ..., use_id: _Optional[str] = ..., input_json: _Optional[str] = ..., response_json: _Optional[str] = ..., success: bool = ..., error: _Optional[str] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("operator", "agents", "skills", "plugins")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    operator: bool
    agents: _containers.RepeatedScalarFieldContainer[str]
    skills: _containers.RepeatedScalarFieldContainer[str]
    plugins: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, operator: bool = ..., agents: _Optional[_Iterable[str]] = ..., skills: _Optional[_Iterable[str]] = ..., plugins: _Optional[_Iterable[str]] = ...) -> None: ...

class InlineHook(_message.Message):
    __slots__ = ("hook", "matcher", "mode", "config_json", "profile")
    HOOK_FIELD_NUMBER: _ClassVar[int]
    MATCHER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    hook: Hook
    matcher: str
    mode: str
    config_json: str
    profile: str
    def __init__(self, hook: _Optional[_Union[Hook, _Mapping]] = ..., matcher: _Optional[str] = ..., mode: _Optional[str] = ..., config_json: _Optional[str] = ..., profile: _Optional[str] = ...) -> None: ...

class DispatchRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "contract", "event", "turn", "agent", "parent_session_id", "repository", "branch", "budget", "cwd", "workspace", "timestamp", "tool", "scope", "stage", "mode_key", "turn_origin", "inline_hooks", "timeout", "require_confirmed", "on_disconnect", "on_failure", "max_reply_bytes", "depth", "profile", "source")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PARENT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MODE_KEY_FIELD_NUMBER: _ClassVar[int]
    TURN_ORIGIN_FIELD_NUMBER: _ClassVar[int]
    INLINE_HOOKS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    contract: _types_pb2.Contract
    event: Event
    turn: int
    agent: str
    parent_session_id: str
    repository: str
    branch: str
    budget: Budget
    cwd: str
    workspace: str
    timestamp: _timestamp_pb2.Timestamp
    tool: Tool
    scope: Scope
    stage: DispatchStage
    mode_key: str
    turn_origin: TurnOrigin
    inline_hooks: _containers.RepeatedCompositeFieldContainer[InlineHook]
    timeout: _duration_pb2.Duration
    require_confirmed: bool
    on_disconnect: OnDisconnect
    on_failure: OnFailure
    max_reply_bytes: int
    depth: int
    profile: str
    source: str
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., contract: _Optional[_Union[_types_pb2.Contract, str]] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., turn: _Optional[int] = ..., agent: _Optional[str] = ..., parent_session_id: _Optional[str] = ..., repository: _Optional[str] = ..., branch: _Optional[str] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., cwd: _Optional[str] = ..., workspace: _Optional[str] = ..., timestamp: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., tool: _Optional[_Union[Tool, _Mapping]] = ..., scope: _Optional[_Union[Scope, _Mapping]] = ..., stage: _Optional[_Union[DispatchStage, str]] = ..., mode_key: _Optional[str] = ..., turn_origin: _Optional[_Union[TurnOrigin, str]] = ..., inline_hooks: _Optional[_Iterable[_Union[InlineHook, _Mapping]]] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., require_confirmed: bool = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., on_failure: _Optional[_Union[OnFailure, str]] = ..., max_reply_bytes: _Optional[int] = ..., depth: _Optional[int] = ..., profile: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DispatchedHook(_message.Message):
    __slots__ = ("name", "ran", "skipped", "refused", "in_process", "verdict", "only_looked_on")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAN_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    IN_PROCESS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    ONLY_LOOKED_ON_FIELD_NUMBER: _ClassVar[int]
    name: str
    ran: ExecuteResponse
    skipped: str
    refused: Refusal
    in_process: bool
    verdict: _types_pb2.Verdict
    only_looked_on: bool
    def __init__(self, name: _Optional[str] = ..., ran: _Optional[_Union[ExecuteResponse, _Mapping]] = ..., skipped: _Optional[str] = ..., refused: _Optional[_Union[Refusal, _Mapping]] = ..., in_process: bool = ..., verdict: _Optional[_Union[_types_pb2.Verdict, _Mapping]] = ..., only_looked_on: bool = ...) -> None: ...

class Reminder(_message.Message):
    __slots__ = ("kind", "hook_name", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    HOOK_NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    hook_name: str
    text: str
    def __init__(self, kind: _Optional[str] = ..., hook_name: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class LoopValve(_message.Message):
    __slots__ = ("count", "limit", "capped", "on_limit", "exceeded")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CAPPED_FIELD_NUMBER: _ClassVar[int]
    ON_LIMIT_FIELD_NUMBER: _ClassVar[int]
    EXCEEDED_FIELD_NUMBER: _ClassVar[int]
    count: int
    limit: int
    capped: bool
    on_limit: str
    exceeded: bool
    def __init__(self, count: _Optional[int] = ..., limit: _Optional[int] = ..., capped: bool = ..., on_limit: _Optional[str] = ..., exceeded: bool = ...) -> None: ...

class DispatchResponse(_message.Message):
    __slots__ = ("request_id", "answer", "hooks", "blocked_by_hook", "reminders", "pushes", "events", "loop_valve", "contract_version", "messages")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_HOOK_FIELD_NUMBER: _ClassVar[int]
    REMINDERS_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LOOP_VALVE_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    answer: _types_pb2.Verdict
    hooks: _containers.RepeatedCompositeFieldContainer[DispatchedHook]
    blocked_by_hook: str
    reminders: _containers.RepeatedCompositeFieldContainer[Reminder]
    pushes: _containers.RepeatedCompositeFieldContainer[_types_pb2.Push]
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.ContractEvent]
    loop_valve: LoopValve
    contract_version: str
    messages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., answer: _Optional[_Union[_types_pb2.Verdict, _Mapping]] = ..., hooks: _Optional[_Iterable[_Union[DispatchedHook, _Mapping]]] = ..., blocked_by_hook: _Optional[str] = ..., reminders: _Optional[_Iterable[_Union[Reminder, _Mapping]]] = ..., pushes: _Optional[_Iterable[_Union[_types_pb2.Push, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[_types_pb2.ContractEvent, _Mapping]]] = ..., loop_valve: _Optional[_Union[LoopValve, _Mapping]] = ..., contract_version: _Optional[str] = ..., messages: _Optional[_Iterable[str]] = ...) -> None: ...

class ListHooksRequest(_message.Message):
    __slots__ = ("point", "contract")
    POINT_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    point: str
    contract: _types_pb2.Contract
    def __init__(self, point: _Optional[str] = ..., contract: _Optional[_Union[_types_pb2.Contract, str]] = ...) -> None: ...

class ConfiguredHook(_message.Message):
    __slots__ = ("name", "contract", "point", "matcher", "command", "profile", "source")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    MATCHER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    contract: _types_pb2.Contract
    point: str
    matcher: str
    command: str
    profile: str
    source: str
    def __init__(self, name: _Optional[str] = ..., contract: _Optional[_Union[_types_pb2.Contract, str]] = ..., point: _Optional[str] = ..., matcher: _Optional[str] = ..., command: _Optional[str] = ..., profile: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ListHooksResponse(_message.Message):
    __slots__ = ("hooks",)
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    hooks: _containers.RepeatedCompositeFieldContainer[ConfiguredHook]
    def __init__(self, hooks: _Optional[_Iterable[_Union[ConfiguredHook, _Mapping]]] = ...) -> None: ...

class GivenEnd(_message.Message):
    __slots__ = ("name", "exit_code", "signal", "timed_out", "spawn_error", "stdout", "stderr", "stdout_truncated", "command", "duration_ms", "config_json", "turn")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    SPAWN_ERROR_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    name: str
    exit_code: int
    signal: int
    timed_out: bool
    spawn_error: str
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    command: str
    duration_ms: int
    config_json: str
    turn: int
    def __init__(self, name: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., timed_out: bool = ..., spawn_error: _Optional[str] = ..., stdout: _Optional[bytes] = ..., stderr: _Optional[bytes] = ..., stdout_truncated: bool = ..., command: _Optional[str] = ..., duration_ms: _Optional[int] = ..., config_json: _Optional[str] = ..., turn: _Optional[int] = ...) -> None: ...

class InterpretRequest(_message.Message):
    __slots__ = ("contract", "point", "mode", "config_json", "ends")
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    contract: _types_pb2.Contract
    point: str
    mode: str
    config_json: str
    ends: _containers.RepeatedCompositeFieldContainer[GivenEnd]
    def __init__(self, contract: _Optional[_Union[_types_pb2.Contract, str]] = ..., point: _Optional[str] = ..., mode: _Optional[str] = ..., config_json: _Optional[str] = ..., ends: _Optional[_Iterable[_Union[GivenEnd, _Mapping]]] = ...) -> None: ...

class InterpretResponse(_message.Message):
    __slots__ = ("verdicts", "answer", "ran", "blocked_by_hook", "reminders", "pushes", "events", "contract_version", "messages")
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    RAN_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_HOOK_FIELD_NUMBER: _ClassVar[int]
    REMINDERS_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[_types_pb2.Verdict]
    answer: _types_pb2.Verdict
    ran: _containers.RepeatedScalarFieldContainer[str]
    blocked_by_hook: str
    reminders: _containers.RepeatedCompositeFieldContainer[Reminder]
    pushes: _containers.RepeatedCompositeFieldContainer[_types_pb2.Push]
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.ContractEvent]
    contract_version: str
    messages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[_types_pb2.Verdict, _Mapping]]] = ..., answer: _Optional[_Union[_types_pb2.Verdict, _Mapping]] = ..., ran: _Optional[_Iterable[str]] = ..., blocked_by_hook: _Optional[str] = ..., reminders: _Optional[_Iterable[_Union[Reminder, _Mapping]]] = ..., pushes: _Optional[_Iterable[_Union[_types_pb2.Push, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[_types_pb2.ContractEvent, _Mapping]]] = ..., contract_version: _Optional[str] = ..., messages: _Optional[_Iterable[str]] = ...) -> None: ...

class PreviewRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: ExecuteRequest
    def __init__(self, request: _Optional[_Union[ExecuteRequest, _Mapping]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("path", "access", "origin")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    path: str
    access: str
    origin: str
    def __init__(self, path: _Optional[str] = ..., access: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class HashedFile(_message.Message):
    __slots__ = ("path", "role", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    role: str
    sha256: str
    def __init__(self, path: _Optional[str] = ..., role: _Optional[str] = ..., sha256: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("address_space", "file_size", "open_files", "output_bytes", "output_kills", "tasks", "memory", "cpus", "scratch", "scratch_files")
    ADDRESS_SPACE_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FILES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_KILLS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FILES_FIELD_NUMBER: _ClassVar[int]
    address_space: int
    file_size: int
    open_files: int
    output_bytes: int
    output_kills: bool
    tasks: int
    memory: int
    cpus: float
    scratch: int
    scratch_files: int
    def __init__(self, address_space: _Optional[int] = ..., file_size: _Optional[int] = ..., open_files: _Optional[int] = ..., output_bytes: _Optional[int] = ..., output_kills: bool = ..., tasks: _Optional[int] = ..., memory: _Optional[int] = ..., cpus: _Optional[float] = ..., scratch: _Optional[int] = ..., scratch_files: _Optional[int] = ...) -> None: ...

class PreviewResponse(_message.Message):
    __slots__ = ("argv", "working_dir", "environment_names", "grants", "confinement", "timeout", "refusal", "request_id", "files", "consent", "limits", "network", "spawn", "metadata", "stdin_bytes", "contract_version", "tested_at")
    ARGV_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_NAMES_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    SPAWN_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STDIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TESTED_AT_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[str]
    working_dir: str
    environment_names: _containers.RepeatedScalarFieldContainer[str]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    confinement: _types_pb2.Confinement
    timeout: _duration_pb2.Duration
    refusal: Refusal
    request_id: str
    files: _containers.RepeatedCompositeFieldContainer[HashedFile]
    consent: str
    limits: Limits
    network: str
    spawn: str
    metadata: str
    stdin_bytes: int
    contract_version: str
    tested_at: _timestamp_pb2.Timestamp
    def __init__(self, argv: _Optional[_Iterable[str]] = ..., working_dir: _Optional[str] = ..., environment_names: _Optional[_Iterable[str]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., confinement: _Optional[_Union[_types_pb2.Confinement, _Mapping]] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., request_id: _Optional[str] = ..., files: _Optional[_Iterable[_Union[HashedFile, _Mapping]]] = ..., consent: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., network: _Optional[str] = ..., spawn: _Optional[str] = ..., metadata: _Optional[str] = ..., stdin_bytes: _Optional[int] = ..., contract_version: _Optional[str] = ..., tested_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
