export { Client, type ConnectOptions, type PrivateOptions } from "./client.js";
export { CallFailed, HookjailError, NotStarted, type Reason, Refused, Unreachable } from "./errors.js";
export type { CallOptions, Command, DispatchOptions, ExecuteOptions, InlineHook } from "./request.js";
export { Dispatched, Run, type ContractName, type DecisionName, type OutcomeName } from "./result.js";
