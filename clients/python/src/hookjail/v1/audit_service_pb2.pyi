from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuditFilter(_message.Message):
    __slots__ = ("since", "until", "hook", "session_id", "end", "profile", "peer_uid", "run_id")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    HOOK_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PEER_UID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    hook: str
    session_id: str
    end: str
    profile: str
    peer_uid: int
    run_id: str
    def __init__(self, since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., hook: _Optional[str] = ..., session_id: _Optional[str] = ..., end: _Optional[str] = ..., profile: _Optional[str] = ..., peer_uid: _Optional[int] = ..., run_id: _Optional[str] = ...) -> None: ...

class AuditRecord(_message.Message):
    __slots__ = ("sequence", "json", "hash")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    json: str
    hash: str
    def __init__(self, sequence: _Optional[int] = ..., json: _Optional[str] = ..., hash: _Optional[str] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("filter", "limit", "max_reply_bytes")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLY_BYTES_FIELD_NUMBER: _ClassVar[int]
    filter: AuditFilter
    limit: int
    max_reply_bytes: int
    def __init__(self, filter: _Optional[_Union[AuditFilter, _Mapping]] = ..., limit: _Optional[int] = ..., max_reply_bytes: _Optional[int] = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: AuditRecord
    def __init__(self, record: _Optional[_Union[AuditRecord, _Mapping]] = ...) -> None: ...

class AuditServiceWatchRequest(_message.Message):
    __slots__ = ("filter", "max_reply_bytes")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLY_BYTES_FIELD_NUMBER: _ClassVar[int]
    filter: AuditFilter
    max_reply_bytes: int
    def __init__(self, filter: _Optional[_Union[AuditFilter, _Mapping]] = ..., max_reply_bytes: _Optional[int] = ...) -> None: ...

class AuditServiceWatchResponse(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: AuditRecord
    def __init__(self, record: _Optional[_Union[AuditRecord, _Mapping]] = ...) -> None: ...
