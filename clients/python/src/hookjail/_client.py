"""The clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from types import TracebackType
from typing import IO, TYPE_CHECKING, overload

import grpc
import grpc.aio

from . import _address
from ._errors import of_call
from ._private import PrivateServer
from ._requests import Command, DispatchOptions, ExecuteOptions, call_timeout, dispatch_request, execute_request
from ._results import Dispatched, Result
from .v1 import hook_service_pb2 as pb
from .v1.hook_service_pb2_grpc import HookServiceStub

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .v1.hook_service_pb2_grpc import HookServiceAsyncStub

#: gRPC's C core sends the socket's path as the authority, which is invalid. `max_reply_bytes` limits an answer's size.
OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", -1)]


class Client:
    """Calls a daemon: the one at `address` (`unix:///PATH`), else that of HOOKJAIL_ADDR, else the user's or the system's.

    May be used by several threads. For a daemon over the network, pass a `channel`, which the caller then closes.
    """

    def __init__(self, address: str | None = None, *, channel: grpc.Channel | None = None) -> None:
        self._private: PrivateServer | None = None
        self._own = channel is None
        self.channel = channel or grpc.insecure_channel(_connect(address), options=OPTIONS)
        self._hooks = HookServiceStub(self.channel)

    @classmethod
    def private(
        cls,
        program: str | os.PathLike[str] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        accept_hooks: bool = False,
        env: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
    ) -> Self:
        """Starts a daemon for this process alone, which ends with the client or with this process.

        `program` is `hookjail`; default: that of HOOKJAIL, of this package's wheel, or on PATH. `config` is its configuration, default the
        user's. Commands need a consent (`hookjail allow`), unless `accept_hooks` accepts every one and records it in the allowlist
        of the configuration. `env` adds variables, `log` gets the log.
        """
        server = PrivateServer(program, config=config, accept_hooks=accept_hooks, env=env, log=log)
        client = cls(server.address)
        client._private = server
        return client

    def execute(self, command: Command, **options: Unpack[ExecuteOptions]) -> Result:
        """Runs a hook to its end. Any end is a result; a hook that did not run raises an exception."""
        return self.send(execute_request(command, options))

    def dispatch(self, point: str, **options: Unpack[DispatchOptions]) -> Dispatched:
        """Runs all hooks that are due at a lifecycle point to one answer: the configured ones, then `hooks`."""
        return self.send(dispatch_request(point, options))

    @overload
    def send(self, request: pb.ExecuteRequest) -> Result: ...
    @overload
    def send(self, request: pb.DispatchRequest) -> Dispatched: ...
    def send(self, request: pb.ExecuteRequest | pb.DispatchRequest) -> Result | Dispatched:
        """Sends a request with more fields than `execute` and `dispatch` have options."""
        timeout = call_timeout(request)
        try:
            if isinstance(request, pb.DispatchRequest):
                return Dispatched(self._hooks.Dispatch(request, timeout=timeout))
            return Result(self._hooks.Execute(request, timeout=timeout))
        except grpc.RpcError as error:
            raise of_call(error) from error

    def close(self) -> None:
        """Closes the connection, and ends the private daemon with its runs."""
        if self._own:
            self.channel.close()
        if self._private:
            self._private.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """As `Client`, for asyncio: to be made and used in one event loop. A cancelled call ends its hook."""

    def __init__(self, address: str | None = None, *, channel: grpc.aio.Channel | None = None) -> None:
        self._private: PrivateServer | None = None
        self._own = channel is None
        self.channel = channel or grpc.aio.insecure_channel(_connect(address), options=OPTIONS)
        self._hooks: HookServiceAsyncStub = HookServiceStub(self.channel)

    @classmethod
    async def private(
        cls,
        program: str | os.PathLike[str] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        accept_hooks: bool = False,
        env: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
    ) -> Self:
        """As `Client.private`."""
        server = await asyncio.to_thread(
            lambda: PrivateServer(program, config=config, accept_hooks=accept_hooks, env=env, log=log)
        )
        client = cls(server.address)
        client._private = server
        return client

    async def execute(self, command: Command, **options: Unpack[ExecuteOptions]) -> Result:
        """As `Client.execute`."""
        return await self.send(execute_request(command, options))

    async def dispatch(self, point: str, **options: Unpack[DispatchOptions]) -> Dispatched:
        """As `Client.dispatch`."""
        return await self.send(dispatch_request(point, options))

    @overload
    async def send(self, request: pb.ExecuteRequest) -> Result: ...
    @overload
    async def send(self, request: pb.DispatchRequest) -> Dispatched: ...
    async def send(self, request: pb.ExecuteRequest | pb.DispatchRequest) -> Result | Dispatched:
        """As `Client.send`."""
        timeout = call_timeout(request)
        try:
            if isinstance(request, pb.DispatchRequest):
                return Dispatched(await self._hooks.Dispatch(request, timeout=timeout))
            return Result(await self._hooks.Execute(request, timeout=timeout))
        except grpc.RpcError as error:
            raise of_call(error) from error

    async def close(self) -> None:
        """As `Client.close`."""
        if self._own:
            await self.channel.close()
        if self._private:
            await asyncio.to_thread(self._private.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _connect(address: str | None) -> str:
    path = _address.find(address)
    _address.check(path)
    return _address.target(path)
