/** The messages and services as generated from the .proto files. */
export * from "./gen/hookjail/v1/admin_service_pb.js";
export * from "./gen/hookjail/v1/audit_service_pb.js";
export * from "./gen/hookjail/v1/consent_service_pb.js";
export * from "./gen/hookjail/v1/hook_service_pb.js";
export * from "./gen/hookjail/v1/sandbox_service_pb.js";
export * from "./gen/hookjail/v1/types_pb.js";
