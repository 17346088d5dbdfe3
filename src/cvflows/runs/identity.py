"""What a run is, on disk: its config, where it began, and the constraint it was given."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.spec import describe, rebuild
from cvflows.errors import ArgumentError, StoreError, shown
from cvflows.files import Format, as_path, exists, make_folder, read_record, write_record
from cvflows.runs.config import RunConfig, fingerprint

FORMAT = Format("cvflows run", 2)


def surroundings() -> dict[str, Any]:
    """Versions and the machine, which a config does not say."""
    versions = {name: version(name) for name in ("cvflows", "jax", "gymnasium", "mujoco")}
    where = {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()}
    return {**versions, **where}


class Identity:
    """The part of a run folder that does not change once the run began."""

    def __init__(self, path: str | Path) -> None:
        self.path = as_path("folder", path)

    def create(self, config: RunConfig) -> None:
        """Write the config, last of all that a run begins with; a folder that holds another run is refused."""
        self.check(config)
        if not exists(self.path / "config.json"):
            make_folder(self.path)
            data = config.as_json()
            self._write("about.json", {**surroundings(), "fingerprint": data["fingerprint"]})
            self._write("config.json", data)

    def check(self, config: RunConfig) -> None:
        """Refuse a folder that holds another run than `config`; what is not known yet of its inputs may be any."""
        if exists(self.path / "config.json"):
            held = self.config()
            if (held if config.inputs else held.plan) != config:
                raise ArgumentError("out", f"a new folder ({self.path} holds another run)", held.fingerprint)

    def config(self) -> RunConfig:
        """The config."""
        try:
            return RunConfig.from_json(self._settings())
        except (AttributeError, KeyError, TypeError, ValueError, LookupError) as error:
            raise StoreError(self.path / "config.json", f"does not describe a run ({error})") from None

    @cached_property
    def fingerprint(self) -> str:
        """That of the config as it was written, which may have known fewer settings."""
        return str(self._settings()["fingerprint"])

    def _settings(self) -> dict[str, Any]:
        data = self._read("config.json")
        known = {name: value for name, value in data.items() if name != "fingerprint"}
        if fingerprint(known) != data.get("fingerprint"):
            raise StoreError(self.path / "config.json", "was changed after the run began: its fingerprint differs")
        return data

    def about(self) -> dict[str, Any]:
        """Versions and the machine of the run's beginning."""
        data = self._read("about.json")
        if data.get("fingerprint") != self.fingerprint:
            raise StoreError(self.path / "about.json", "belongs to another run")
        return data

    def keep_constraint(self, constraint: AbstractConstraint) -> None:
        """Write a learned constraint, where it can be described."""
        if (data := describe(constraint)) is not None:
            make_folder(self.path)
            self._write("constraint.json", {"constraint": data})

    def constraint(self) -> AbstractConstraint | None:
        """The learned constraint, if there is one."""
        if not exists(self.path / "constraint.json"):
            return None
        try:
            return rebuild(self._read("constraint.json")["constraint"])
        except (KeyError, TypeError, ValueError, LookupError) as error:
            raise StoreError(self.path / "constraint.json", f"does not describe a constraint ({error})") from None

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        write_record(self.path / name, FORMAT, {**data, "file": name})

    def _read(self, name: str) -> dict[str, Any]:
        data = read_record(self.path / name, FORMAT, ": is this a run folder?")
        if (was := data.pop("file", None)) != name:
            raise StoreError(self.path / name, f"was written as {shown(was)}")
        return data
