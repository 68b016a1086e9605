"""The messages of the hook service and their types."""

from .v1.hook_service_pb2 import *
from .v1.types_pb2 import *
