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

class ConsentDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONSENT_DECISION_UNSPECIFIED: _ClassVar[ConsentDecision]
    CONSENT_DECISION_ALWAYS: _ClassVar[ConsentDecision]
    CONSENT_DECISION_ONCE: _ClassVar[ConsentDecision]
    CONSENT_DECISION_NO: _ClassVar[ConsentDecision]
CONSENT_DECISION_UNSPECIFIED: ConsentDecision
CONSENT_DECISION_ALWAYS: ConsentDecision
CONSENT_DECISION_ONCE: ConsentDecision
CONSENT_DECISION_NO: ConsentDecision

class Digest(_message.Message):
    __slots__ = ("path", "sha256", "role")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    path: str
    sha256: str
    role: str
    def __init__(self, path: _Optional[str] = ..., sha256: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("pending_only", "request_id")
    PENDING_ONLY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    pending_only: bool
    request_id: str
    def __init__(self, pending_only: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class PendingConsent(_message.Message):
    __slots__ = ("consent_id", "hook_name", "command", "digests", "profile", "axes", "diff", "expires_at", "peer", "request_id", "profile_description", "workspace", "why", "tool_name", "tool_input_json", "egress", "requests")
    CONSENT_ID_FIELD_NUMBER: _ClassVar[int]
    HOOK_NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    consent_id: str
    hook_name: str
    command: str
    digests: _containers.RepeatedCompositeFieldContainer[Digest]
    profile: str
    axes: _containers.RepeatedCompositeFieldContainer[_types_pb2.AxisReport]
    diff: str
    expires_at: _timestamp_pb2.Timestamp
    peer: str
    request_id: str
    profile_description: str
    workspace: str
    why: str
    tool_name: str
    tool_input_json: str
    egress: _containers.RepeatedScalarFieldContainer[str]
    requests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, consent_id: _Optional[str] = ..., hook_name: _Optional[str] = ..., command: _Optional[str] = ..., digests: _Optional[_Iterable[_Union[Digest, _Mapping]]] = ..., profile: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[_types_pb2.AxisReport, _Mapping]]] = ..., diff: _Optional[str] = ..., expires_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., peer: _Optional[str] = ..., request_id: _Optional[str] = ..., profile_description: _Optional[str] = ..., workspace: _Optional[str] = ..., why: _Optional[str] = ..., tool_name: _Optional[str] = ..., tool_input_json: _Optional[str] = ..., egress: _Optional[_Iterable[str]] = ..., requests: _Optional[_Iterable[str]] = ...) -> None: ...

class SettledConsent(_message.Message):
    __slots__ = ("consent_id", "decision", "expired")
    CONSENT_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    consent_id: str
    decision: ConsentDecision
    expired: bool
    def __init__(self, consent_id: _Optional[str] = ..., decision: _Optional[_Union[ConsentDecision, str]] = ..., expired: bool = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("pending", "settled")
    PENDING_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    pending: PendingConsent
    settled: SettledConsent
    def __init__(self, pending: _Optional[_Union[PendingConsent, _Mapping]] = ..., settled: _Optional[_Union[SettledConsent, _Mapping]] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("consent_id", "decision")
    CONSENT_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    consent_id: str
    decision: ConsentDecision
    def __init__(self, consent_id: _Optional[str] = ..., decision: _Optional[_Union[ConsentDecision, str]] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("counted",)
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    counted: bool
    def __init__(self, counted: bool = ...) -> None: ...

class AllowedHook(_message.Message):
    __slots__ = ("command", "approved_at", "digests", "profile", "working_dir_scope", "approved_by", "expires_at")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    APPROVED_AT_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_SCOPE_FIELD_NUMBER: _ClassVar[int]
    APPROVED_BY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    command: str
    approved_at: _timestamp_pb2.Timestamp
    digests: _containers.RepeatedCompositeFieldContainer[Digest]
    profile: str
    working_dir_scope: str
    approved_by: str
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, command: _Optional[str] = ..., approved_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., digests: _Optional[_Iterable[_Union[Digest, _Mapping]]] = ..., profile: _Optional[str] = ..., working_dir_scope: _Optional[str] = ..., approved_by: _Optional[str] = ..., expires_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListAllowedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAllowedResponse(_message.Message):
    __slots__ = ("allowed",)
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    allowed: _containers.RepeatedCompositeFieldContainer[AllowedHook]
    def __init__(self, allowed: _Optional[_Iterable[_Union[AllowedHook, _Mapping]]] = ...) -> None: ...

class AllowRequest(_message.Message):
    __slots__ = ("argv", "digests", "profile", "working_dir_scope", "valid_for")
    ARGV_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_SCOPE_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[str]
    digests: _containers.RepeatedCompositeFieldContainer[Digest]
    profile: str
    working_dir_scope: str
    valid_for: _duration_pb2.Duration
    def __init__(self, argv: _Optional[_Iterable[str]] = ..., digests: _Optional[_Iterable[_Union[Digest, _Mapping]]] = ..., profile: _Optional[str] = ..., working_dir_scope: _Optional[str] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AllowResponse(_message.Message):
    __slots__ = ("allowed",)
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    allowed: AllowedHook
    def __init__(self, allowed: _Optional[_Union[AllowedHook, _Mapping]] = ...) -> None: ...

class RevokeRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: str
    def __init__(self, command: _Optional[str] = ...) -> None: ...

class RevokeResponse(_message.Message):
    __slots__ = ("revoked",)
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    revoked: int
    def __init__(self, revoked: _Optional[int] = ...) -> None: ...
