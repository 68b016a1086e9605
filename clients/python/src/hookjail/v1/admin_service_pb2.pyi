from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hookjail.v1 import sandbox_service_pb2 as _sandbox_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_QUEUED: _ClassVar[RunState]
    RUN_STATE_ASKING: _ClassVar[RunState]
    RUN_STATE_STARTING: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_QUEUED: RunState
RUN_STATE_ASKING: RunState
RUN_STATE_STARTING: RunState
RUN_STATE_RUNNING: RunState

class ReloadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadResponse(_message.Message):
    __slots__ = ("profiles", "unconfirmed", "hooks")
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedScalarFieldContainer[str]
    unconfirmed: _containers.RepeatedScalarFieldContainer[str]
    hooks: int
    def __init__(self, profiles: _Optional[_Iterable[str]] = ..., unconfirmed: _Optional[_Iterable[str]] = ..., hooks: _Optional[int] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("within",)
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    within: _duration_pb2.Duration
    def __init__(self, within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("running",)
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    running: int
    def __init__(self, running: _Optional[int] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunInWork]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunInWork, _Mapping]]] = ...) -> None: ...

class RunInWork(_message.Message):
    __slots__ = ("run_id", "state", "age", "left", "profile", "contract", "point", "peer_uid", "peer_pid", "hook", "argv", "request_id", "session_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    PEER_UID_FIELD_NUMBER: _ClassVar[int]
    PEER_PID_FIELD_NUMBER: _ClassVar[int]
    HOOK_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    state: RunState
    age: _duration_pb2.Duration
    left: _duration_pb2.Duration
    profile: str
    contract: str
    point: str
    peer_uid: int
    peer_pid: int
    hook: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    session_id: str
    def __init__(self, run_id: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., profile: _Optional[str] = ..., contract: _Optional[str] = ..., point: _Optional[str] = ..., peer_uid: _Optional[int] = ..., peer_pid: _Optional[int] = ..., hook: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class KillRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class KillRunResponse(_message.Message):
    __slots__ = ("run", "end")
    RUN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    run: RunInWork
    end: str
    def __init__(self, run: _Optional[_Union[RunInWork, _Mapping]] = ..., end: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("serving", "summary", "version", "pid", "uptime", "socket", "admin_socket", "metrics", "backends", "profiles", "running", "queued", "questions", "journal", "configuration", "network", "traces", "waiting")
    SERVING_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    ADMIN_SOCKET_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    TRACES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    serving: bool
    summary: str
    version: str
    pid: int
    uptime: _duration_pb2.Duration
    socket: str
    admin_socket: str
    metrics: str
    backends: _containers.RepeatedCompositeFieldContainer[_sandbox_service_pb2.BackendStatus]
    profiles: _containers.RepeatedCompositeFieldContainer[ProfileConfirmation]
    running: int
    queued: int
    questions: int
    journal: JournalStatus
    configuration: ConfigurationStatus
    network: NetworkStatus
    traces: TracesStatus
    waiting: WaitingStatus
    def __init__(self, serving: bool = ..., summary: _Optional[str] = ..., version: _Optional[str] = ..., pid: _Optional[int] = ..., uptime: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., socket: _Optional[str] = ..., admin_socket: _Optional[str] = ..., metrics: _Optional[str] = ..., backends: _Optional[_Iterable[_Union[_sandbox_service_pb2.BackendStatus, _Mapping]]] = ..., profiles: _Optional[_Iterable[_Union[ProfileConfirmation, _Mapping]]] = ..., running: _Optional[int] = ..., queued: _Optional[int] = ..., questions: _Optional[int] = ..., journal: _Optional[_Union[JournalStatus, _Mapping]] = ..., configuration: _Optional[_Union[ConfigurationStatus, _Mapping]] = ..., network: _Optional[_Union[NetworkStatus, _Mapping]] = ..., traces: _Optional[_Union[TracesStatus, _Mapping]] = ..., waiting: _Optional[_Union[WaitingStatus, _Mapping]] = ...) -> None: ...

class WaitingStatus(_message.Message):
    __slots__ = ("processes", "runs", "saved", "discarded")
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    SAVED_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    processes: int
    runs: int
    saved: _duration_pb2.Duration
    discarded: int
    def __init__(self, processes: _Optional[int] = ..., runs: _Optional[int] = ..., saved: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., discarded: _Optional[int] = ...) -> None: ...

class ProfileConfirmation(_message.Message):
    __slots__ = ("name", "confirmed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    name: str
    confirmed: bool
    def __init__(self, name: _Optional[str] = ..., confirmed: bool = ...) -> None: ...

class JournalStatus(_message.Message):
    __slots__ = ("directory", "records", "failures", "last_failure", "problem")
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    directory: str
    records: int
    failures: int
    last_failure: _timestamp_pb2.Timestamp
    problem: str
    def __init__(self, directory: _Optional[str] = ..., records: _Optional[int] = ..., failures: _Optional[int] = ..., last_failure: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[str] = ...) -> None: ...

class NetworkStatus(_message.Message):
    __slots__ = ("address", "clients", "users", "plaintext_uid")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    PLAINTEXT_UID_FIELD_NUMBER: _ClassVar[int]
    address: str
    clients: int
    users: int
    plaintext_uid: int
    def __init__(self, address: _Optional[str] = ..., clients: _Optional[int] = ..., users: _Optional[int] = ..., plaintext_uid: _Optional[int] = ...) -> None: ...

class TracesStatus(_message.Message):
    __slots__ = ("endpoint", "last_export", "problem", "dropped")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    LAST_EXPORT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    last_export: _timestamp_pb2.Timestamp
    problem: str
    dropped: int
    def __init__(self, endpoint: _Optional[str] = ..., last_export: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[str] = ..., dropped: _Optional[int] = ...) -> None: ...

class ConfigurationStatus(_message.Message):
    __slots__ = ("loaded", "refused", "refusal", "policy_version")
    LOADED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    loaded: _timestamp_pb2.Timestamp
    refused: _timestamp_pb2.Timestamp
    refusal: str
    policy_version: str
    def __init__(self, loaded: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., refused: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., refusal: _Optional[str] = ..., policy_version: _Optional[str] = ...) -> None: ...
