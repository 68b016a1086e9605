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
  | "RATE_LIMITED"
  | "RECORD_TOO_LARGE"
  | "RECURSION_LIMIT"
  | "RELOAD_REFUSED"
  | "REQUEST_ID_CONFLICT"
  | "RUN_UNKNOWN"
  | "UNSUPPORTED"
  // Any other string; editors still complete the names above.
  | (string & {});

/** A call without an answer. None of these may be read as "allow". */
export class HookjailError extends Error {
  override name = "HookjailError";
}

/**
 * The daemon refused the request; the hook did not run, unless `metadata.released` is set.
 *
 * `message` describes the problem. `fix` and `metadata` are for the operator: never pass them to a model, which could apply them.
 */
export class Refused extends HookjailError {
  override name = "Refused";
  /** The stable reason. */
  readonly reason: Reason;
  /** The name of the gRPC status, such as `PERMISSION_DENIED`. */
  readonly code: string;
  /** Further facts. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The delay before a retry, in milliseconds; undefined where a retry is of no use. */
  readonly retryAfter: number | undefined;

  constructor(reason: string, metadata: Record<string, string>, retryAfter: number | undefined, cause: ConnectError) {
    super(cause.rawMessage, { cause });
    this.reason = reason;
    this.code = status(cause.code);
    this.metadata = metadata;
    this.retryAfter = retryAfter;
  }

  /** The operator's fix: the repair of the host, the command that allows the hook, or the lines for the configuration. */
  get fix(): string | undefined {
    return this.metadata["fix"] || this.metadata["approve"] || this.metadata["configure"];
  }

  /** The id of the request in the journal. */
  get requestId(): string | undefined {
    return this.metadata["request_id"];
  }
}

/**
 * The call broke: the connection, its deadline, or the daemon has a fault. Whether the hook ran is unknown; a `requestId` makes a
 * retry safe.
 */
export class CallFailed extends HookjailError {
  override name = "CallFailed";
  /** The name of the gRPC status, such as `UNAVAILABLE` or `DEADLINE_EXCEEDED`. */
  readonly code: string;

  constructor(message: string, code: Code, cause?: unknown) {
    super(message, { cause });
    this.code = status(code);
  }
}

/** No daemon listens, or only an untrusted one. Nothing ran. */
export class Unreachable extends CallFailed {
  override name = "Unreachable";

  constructor(message: string, cause?: unknown) {
    super(message, Code.Unavailable, cause);
  }
}

/** A private server could not be started. */
export class NotStarted extends HookjailError {
  override name = "NotStarted";
}

/** Converts the failure of a call to a daemon. */
export function meaning(thrown: unknown, address: string): HookjailError {
  const error = ConnectError.from(thrown);
  const { cause } = error;
  if (cause instanceof HookjailError) return cause;
  if (cause instanceof Error && (cause as NodeJS.ErrnoException).syscall === "connect") return unreachable(address, cause);
  const info = error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === "hookjail");
  if (info) {
    const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
    return new Refused(info.reason, info.metadata, delay && durationMs(delay), error);
  }
  // A daemon sends details of a cancelled or aborted call, so this is the end of the connection. So are Node.js's own errors.
  if ([Code.Canceled, Code.Aborted].includes(error.code) || cause instanceof Error) {
    return new CallFailed(`the connection to the daemon at ${address} broke: ${error.rawMessage}`, Code.Unavailable, error);
  }
  return new CallFailed(error.rawMessage, error.code, error);
}

/** Returns the error for a daemon that cannot be reached. */
export function unreachable(address: string, cause: unknown): Unreachable {
  const why = cause instanceof ConnectError ? cause.rawMessage : String(cause);
  const hint = "start one with `hookjail serve`, or use Client.private()";
  return new Unreachable(`cannot reach the daemon at ${address}: ${why}; ${hint}`, cause);
}

/** Returns gRPC's name of a status. */
function status(code: Code): string {
  return code === Code.Canceled ? "CANCELLED" : Code[code].replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();
}
