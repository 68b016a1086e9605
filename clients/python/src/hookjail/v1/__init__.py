"""The messages and stubs of the protocol, made by generate.sh from its .proto files."""
