import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** The reasons of refusals that docs/api.md lists. A newer daemon may have more. */
export type Reason =
  | "ALREADY_RAN"
  | "AUDIT_UNAVAILABLE"
  | "BACKEND_UNCONFIRMED"
  | "CALLER_IS_A_HOOK"
  | "CANCELED"
  | "CONSENT_REQUIRED"
  | "DEADLINE"
  | "DIGEST_MISMATCH"
  | "DRAINING"
  | "EVENT_TOO_LARGE"
  | "GRANT_MISSING"
  | "INVALID_REQUEST"
  | "KILLED"
  | "NOT_ALLOWLISTED"
  | "OVERLOADED"
  | "PEER_NOT_ALLOWED"
  | "PEER_UNKNOWN"
  | "POLICY_UNENFORCEABLE"
  | "PROFILE_UNKNOWN"
  | "PROFILE_WIDENED"
  | "RECORD_TOO_LARGE"
  | "RECURSION_LIMIT"
  | "RELOAD_REFUSED"
  | "REQUEST_ID_CONFLICT"
  | "RUN_UNKNOWN"
  | "UNSUPPORTED"
  // Any other string, without losing the completion of those above.
  | (string & {});

/** A call without an answer. None of these may be read as "allow". */
export class HookjailError extends Error {
  override name = "HookjailError";
}

/**
 * The daemon refused the request; the hook did not run, unless `metadata.released` is there.
 *
 * `message` says what is wrong. `fix`, `approve` and `metadata` are for the operator: never give them to a model.
 */
export class Refused extends HookjailError {
  override name = "Refused";
  /** The stable reason. */
  readonly reason: Reason;
  /** The name of the gRPC status, such as `PERMISSION_DENIED`. */
  readonly code: string;
  /** Facts beside the reason. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long to wait before a retry, in milliseconds; undefined where a retry is of no use. */
  readonly retryAfter: number | undefined;

  constructor(reason: string, metadata: Record<string, string>, retryAfter: number | undefined, cause: ConnectError) {
    super(cause.rawMessage, { cause });
    this.reason = reason;
    this.code = status(cause.code);
    this.metadata = metadata;
    this.retryAfter = retryAfter;
  }

  /** What the operator does on this host to have it served. */
  get fix(): string | undefined {
    return this.metadata["fix"];
  }

  /** The command by which the operator allows the hook. */
  get approve(): string | undefined {
    return this.metadata["approve"];
  }

  /** The id under which the journal has it. */
  get requestId(): string | undefined {
    return this.metadata["request_id"];
  }
}

/** No daemon answered: none listens, the connection broke, the deadline of the call passed, or the daemon has a fault. */
export class CallFailed extends HookjailError {
  override name = "CallFailed";
  /** The name of the gRPC status, such as `UNAVAILABLE` or `DEADLINE_EXCEEDED`. */
  readonly code: string;

  constructor(message: string, code: Code, cause?: unknown) {
    super(message, { cause });
    this.code = status(code);
  }
}

/** Returns what the failure of a call to a daemon means. */
export function meaning(thrown: unknown, address: string): HookjailError {
  const error = ConnectError.from(thrown);
  if (error.cause instanceof HookjailError) return error.cause;
  const info = error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === "hookjail");
  if (!info) {
    // A daemon says more about what it cancels or aborts: this is the end of the connection. The others are Node.js's own.
    const isBroken = [Code.Canceled, Code.Aborted].includes(error.code) || error.cause instanceof Error;
    return isBroken ? unreachable(address, error) : new CallFailed(error.rawMessage, error.code, error);
  }
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return new Refused(info.reason, info.metadata, delay && durationMs(delay), error);
}

/** Returns the error for a daemon that cannot be reached. */
export function unreachable(address: string, cause: unknown): CallFailed {
  const why = cause instanceof ConnectError ? cause.rawMessage : String(cause);
  const hint = "where none listens, start one with `hookjail serve`, or use Client.private()";
  return new CallFailed(`cannot reach the daemon at ${address}: ${why}; ${hint}`, Code.Unavailable, cause);
}

/** Returns the name of a status as gRPC has it. */
function status(code: Code): string {
  return code === Code.Canceled ? "CANCELLED" : Code[code].replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();
}
