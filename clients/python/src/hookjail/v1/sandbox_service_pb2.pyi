from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hookjail.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Leg(_message.Message):
    __slots__ = ("attempt", "observed", "held")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    observed: str
    held: bool
    def __init__(self, attempt: _Optional[str] = ..., observed: _Optional[str] = ..., held: bool = ...) -> None: ...

class AxisEvidence(_message.Message):
    __slots__ = ("report", "deny", "control", "consequence", "fix")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CONSEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    report: _types_pb2.AxisReport
    deny: _containers.RepeatedCompositeFieldContainer[Leg]
    control: _containers.RepeatedCompositeFieldContainer[Leg]
    consequence: str
    fix: str
    def __init__(self, report: _Optional[_Union[_types_pb2.AxisReport, _Mapping]] = ..., deny: _Optional[_Iterable[_Union[Leg, _Mapping]]] = ..., control: _Optional[_Iterable[_Union[Leg, _Mapping]]] = ..., consequence: _Optional[str] = ..., fix: _Optional[str] = ...) -> None: ...

class BackendStanding(_message.Message):
    __slots__ = ("backend", "passed_over", "confirmed", "reason", "axes", "tested_at")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    TESTED_AT_FIELD_NUMBER: _ClassVar[int]
    backend: str
    passed_over: bool
    confirmed: bool
    reason: str
    axes: _containers.RepeatedCompositeFieldContainer[AxisEvidence]
    tested_at: _timestamp_pb2.Timestamp
    def __init__(self, backend: _Optional[str] = ..., passed_over: bool = ..., confirmed: bool = ..., reason: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[AxisEvidence, _Mapping]]] = ..., tested_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ProfileStatus(_message.Message):
    __slots__ = ("profile", "backend", "confirmed", "reason", "axes", "tested_at", "others", "unconfined")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    TESTED_AT_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    UNCONFINED_FIELD_NUMBER: _ClassVar[int]
    profile: str
    backend: str
    confirmed: bool
    reason: str
    axes: _containers.RepeatedCompositeFieldContainer[AxisEvidence]
    tested_at: _timestamp_pb2.Timestamp
    others: _containers.RepeatedCompositeFieldContainer[BackendStanding]
    unconfined: bool
    def __init__(self, profile: _Optional[str] = ..., backend: _Optional[str] = ..., confirmed: bool = ..., reason: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[AxisEvidence, _Mapping]]] = ..., tested_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., others: _Optional[_Iterable[_Union[BackendStanding, _Mapping]]] = ..., unconfined: bool = ...) -> None: ...

class BackendStatus(_message.Message):
    __slots__ = ("backend", "available", "reason", "landlock_abi", "fix", "confines")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LANDLOCK_ABI_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    CONFINES_FIELD_NUMBER: _ClassVar[int]
    backend: str
    available: bool
    reason: str
    landlock_abi: int
    fix: str
    confines: bool
    def __init__(self, backend: _Optional[str] = ..., available: bool = ..., reason: _Optional[str] = ..., landlock_abi: _Optional[int] = ..., fix: _Optional[str] = ..., confines: bool = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("backends", "profiles", "version", "audit_problem")
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AUDIT_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    backends: _containers.RepeatedCompositeFieldContainer[BackendStatus]
    profiles: _containers.RepeatedCompositeFieldContainer[ProfileStatus]
    version: str
    audit_problem: str
    def __init__(self, backends: _Optional[_Iterable[_Union[BackendStatus, _Mapping]]] = ..., profiles: _Optional[_Iterable[_Union[ProfileStatus, _Mapping]]] = ..., version: _Optional[str] = ..., audit_problem: _Optional[str] = ...) -> None: ...

class ListProfilesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProfileSummary(_message.Message):
    __slots__ = ("name", "description", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class ListProfilesResponse(_message.Message):
    __slots__ = ("profiles",)
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[ProfileSummary]
    def __init__(self, profiles: _Optional[_Iterable[_Union[ProfileSummary, _Mapping]]] = ...) -> None: ...

class GetProfileRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetProfileResponse(_message.Message):
    __slots__ = ("summary", "toml")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TOML_FIELD_NUMBER: _ClassVar[int]
    summary: ProfileSummary
    toml: str
    def __init__(self, summary: _Optional[_Union[ProfileSummary, _Mapping]] = ..., toml: _Optional[str] = ...) -> None: ...

class SelfTestRequest(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: str
    def __init__(self, profile: _Optional[str] = ...) -> None: ...

class SelfTestResponse(_message.Message):
    __slots__ = ("profiles",)
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[ProfileStatus]
    def __init__(self, profiles: _Optional[_Iterable[_Union[ProfileStatus, _Mapping]]] = ...) -> None: ...
