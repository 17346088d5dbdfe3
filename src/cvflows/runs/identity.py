"""What identifies a run on disk: its config, versions and machine, and the constraint."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.spec import describe, rebuild
from cvflows.errors import ArgumentError, StoreError, shown
from cvflows.files import Format, Json, as_path, exists, make_folder, read_record, write_record
from cvflows.runs.config import RunConfig, fingerprint

FORMAT = Format("cvflows run", 3)


def surroundings() -> dict[str, str | int | None]:
    """Versions of packages, the commit and the machine, which are not part of the config."""
    versions = {name: version(name) for name in ("cvflows", "jax", "gymnasium", "mujoco")}
    where = {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()}
    return {**versions, "commit": source_commit(Path(__file__).parents[3]), **where, "processor": processor()}


def source_commit(checkout: Path) -> str | None:
    """The commit that is checked out in a folder, as git's own files tell it; None where there is no checkout."""
    try:
        own = shared = checkout / ".git"
        if own.is_file():  # a further worktree: its own folder has HEAD, and says where the branches are
            own = checkout / own.read_text().removeprefix("gitdir: ").strip()
            shared = own / (own / "commondir").read_text().strip()
        head = (own / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        if (shared / name).exists():
            return (shared / name).read_text().strip()
        packed = (shared / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except OSError:
        return None


def processor() -> str:
    """The processor's model, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, None) or platform.processor() or platform.machine()


class Identity:
    """The part of a run folder that stays the same once the run has begun."""

    def __init__(self, path: str | Path) -> None:
        self.path = as_path("folder", path)

    def create(self, config: RunConfig) -> None:
        """Write the config, after everything else a run starts from; a folder that holds another run is refused."""
        self.check(config)
        if not exists(self.path / "config.json"):
            make_folder(self.path)
            data = config.as_json()
            self._write("about.json", {**surroundings(), "fingerprint": data["fingerprint"]})
            self._write("config.json", data)

    def check(self, config: RunConfig) -> None:
        """Refuse a folder that holds another run than `config`; inputs are compared where `config` knows them."""
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
        """That of the config as it was written, by a version that may have had fewer settings."""
        return str(self._settings()["fingerprint"])

    def _settings(self) -> dict[str, Json]:
        data = self._read("config.json")
        known = {name: value for name, value in data.items() if name != "fingerprint"}
        if fingerprint(known) != data.get("fingerprint"):
            raise StoreError(self.path / "config.json", "was changed after the run began: its fingerprint differs")
        return data

    def about(self) -> dict[str, Json]:
        """Versions and machine at the start of the run."""
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
            data = self._read("constraint.json")["constraint"]
            if not isinstance(data, dict):
                raise TypeError("no table")
            return rebuild(data)
        except (KeyError, TypeError, ValueError, LookupError) as error:
            raise StoreError(self.path / "constraint.json", f"does not describe a constraint ({error})") from None

    def _write(self, name: str, data: Mapping[str, object]) -> None:
        write_record(self.path / name, FORMAT, {**data, "file": name})

    def _read(self, name: str) -> dict[str, Json]:
        data = read_record(self.path / name, FORMAT, ": is this a run folder?")
        if (was := data.pop("file", None)) != name:
            raise StoreError(self.path / name, f"was written as {shown(was)}")
        return data
