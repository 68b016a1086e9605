"""Puts the built programs into a wheel, which is then one for their platform."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WithPrograms(BuildHookInterface):  # type: ignore[type-arg]
    """Reads HOOKJAIL_WHEEL_PROGRAMS, a directory, and HOOKJAIL_WHEEL_PLATFORM, the wheel's platform; packaging/wheel.sh sets both."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        directory = os.environ.get("HOOKJAIL_WHEEL_PROGRAMS")
        if directory is None or self.target_name != "wheel":
            return
        programs = [Path(directory, name) for name in ("hookjail", "hookjail-run")]
        # Scripts of the wheel: an installer puts them where the environment's programs are.
        build_data["shared_scripts"] = {str(path.resolve(strict=True)): path.name for path in programs}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['HOOKJAIL_WHEEL_PLATFORM']}"
