import { connect as connectSocket } from "node:net";

import type { DescMessage, DescService } from "@bufbuild/protobuf";
import { type Client as ServiceClient, createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { mustBeTrusted, socketOf } from "./address.js";
import { meaning, unreachable } from "./errors.js";
import { mustBeFields, mustBeOptions } from "./options.js";
import { PrivateServer, type PrivateOptions } from "./private.js";
import { HookService } from "./proto.js";
import { type DispatchOptions, dispatchRequest, type ExecuteOptions, executeRequest, limits } from "./request.js";
import { Dispatched, Run } from "./result.js";

export type { PrivateOptions };

/** Selects the daemon. */
export interface ConnectOptions {
  /** The daemon's socket, with or without `unix:`. Default: $HOOKJAIL_ADDR, else the user's, else the system's. */
  address?: string;
}

/** A connection to a daemon. A broken connection is renewed. */
export class Client implements AsyncDisposable {
  /** The socket. */
  readonly address: string;
  /** The process id of the private server. */
  readonly pid: number | undefined;
  readonly #sessions: Http2SessionManager;
  readonly #transport: Transport;
  readonly #server: PrivateServer | undefined;
  readonly #hooks: ServiceClient<typeof HookService>;

  private constructor(address: string, server?: PrivateServer) {
    const uid = process.geteuid?.() ?? -1;
    this.address = address;
    this.pid = server?.pid;
    this.#server = server;
    // gRPC by Connect's library, which is three packages in all; the daemon's JSON over HTTP has no streams. The URL does not contain
    // the socket's path, which would become the authority, and the daemon refuses such an authority.
    const baseUrl = "http://localhost";
    this.#sessions = new Http2SessionManager(baseUrl, undefined, {
      createConnection: () => {
        mustBeTrusted(address, uid);
        return connectSocket(address);
      },
    });
    this.#transport = createGrpcTransport({ baseUrl, sessionManager: this.#sessions, acceptCompression: [] });
    this.#hooks = createClient(HookService, this.#transport);
  }

  /** Connects to a daemon that runs. Rejected with `CallFailed` where none answers. */
  static async connect(options: ConnectOptions = {}): Promise<Client> {
    mustBeOptions(options, { address: true });
    const uid = process.geteuid?.() ?? -1;
    const client = new Client(socketOf(options.address, process.env, uid));
    await client.#connected();
    return client;
  }

  /** Starts a server of this process alone, which ends with it, and connects to it. */
  static async private(options: PrivateOptions = {}): Promise<Client> {
    const server = await PrivateServer.start(options);
    const client = new Client(server.socket, server);
    try {
      await client.#connected();
    } catch (error) {
      await client.close();
      throw error;
    }
    return client;
  }

  /** Runs one hook to its end. */
  async execute(options: ExecuteOptions): Promise<Run> {
    return new Run(await this.#call(options.signal, this.#hooks.execute(executeRequest(options), limits(options))));
  }

  /** Runs all hooks that are due at a lifecycle point, to one answer. */
  async dispatch(options: DispatchOptions): Promise<Dispatched> {
    return new Dispatched(await this.#call(options.signal, this.#hooks.dispatch(dispatchRequest(options), limits(options))));
  }

  /** Returns the generated client of a service of `hookjail/proto`, which throws `ConnectError`. A field that a message lacks is a `TypeError`. */
  service<T extends DescService>(service: T): ServiceClient<T> {
    return createClient(service, withFieldsChecked(this.#transport));
  }

  /** Closes the connection, and ends the private server with its runs. */
  async close(): Promise<void> {
    this.#sessions.abort();
    await this.#server?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #connected(): Promise<void> {
    mustBeTrusted(this.address, process.geteuid?.() ?? -1);
    if ((await this.#sessions.connect()) === "error") throw unreachable(this.address, this.#sessions.error());
  }

  async #call<T>(signal: AbortSignal | undefined, call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw meaning(error, this.address);
    }
  }
}

/** Returns a transport that rejects a message with a field of no such name before it is sent. */
function withFieldsChecked(transport: Transport): Transport {
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      mustBeFields(method.input, input);
      return transport.unary(method, signal, timeoutMs, header, input, contextValues);
    },
    stream: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.stream(method, signal, timeoutMs, header, eachChecked(method.input, input), contextValues),
  };
}

async function* eachChecked<T>(schema: DescMessage, inputs: AsyncIterable<T>): AsyncIterable<T> {
  for await (const input of inputs) {
    mustBeFields(schema, input);
    yield input;
  }
}
