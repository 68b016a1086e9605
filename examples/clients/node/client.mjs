// Runs one hook through hookjail: node client.mjs SOCKET EVENT COMMAND [ARGUMENT...]
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const includeDirs = [process.env.HOOKJAIL_PROTO ?? fileURLToPath(new URL("../../../proto", import.meta.url))];
const definition = loader.loadSync("hookjail/v1/hook_service.proto", { includeDirs, enums: String, defaults: true });
const { HookService } = grpc.loadPackageDefinition(definition).hookjail.v1;

const [socket, event, ...argv] = process.argv.slice(2);
const client = new HookService(`unix:${socket}`, grpc.credentials.createInsecure());
const request = {
  contract: "CONTRACT_REYN",
  mode: "shell_push",
  event: { json: readFileSync(event), point: "turn_end" },
  hook: { argv },
};
client.Execute(request, { deadline: Date.now() + 30_000 }, (error, answer) => {
  client.close();
  if (error) {
    console.error(`${grpc.status[error.code]}: ${error.details}`);
    process.exitCode = 1;
    return;
  }
  console.log("exit code:", answer.outcome.exitCode);
  console.log("confirmed:", answer.confinement.confirmed);
  const { push } = answer.verdict;
  if (push) console.log(`push: ${push.message} (wake: ${push.wake})`);
});
