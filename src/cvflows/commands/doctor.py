"""What cvflows finds on this machine, what is missing, and how to install it. Nothing heavy loads in this process."""

from __future__ import annotations

import json as json_format
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from cvflows.commands.output import print_json

State = Literal["ok", "optional", "broken"]
PATIENCE = 120
"""Seconds for a probe: a first import of JAX on a slow disk takes a while."""
PURPOSES = {
    "report": "the page of `cvflows report`",
    "export": "policies as ONNX files",
    "sb3": "agents of Stable-Baselines3",
    "ray": "suites on many machines",
    "wandb": "figures in Weights & Biases",
    "solver": "the reference for projections",
}
"""What the extras are for; those for developers are left out."""
JAX = """
import json, jax, jax.numpy as jnp
assert float(jnp.arange(4.0).sum()) == 6.0
print(json.dumps([f"{device.platform}: {device.device_kind}" for device in jax.devices()]))
"""
DRAWING = """
import json, os
from cvflows.envs.rendering import prepare
prepare()
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
with mujoco.Renderer(model, 32, 32) as renderer:
    renderer.update_scene(mujoco.MjData(model))
    assert renderer.render().shape == (32, 32, 3)
print(json.dumps([f"MuJoCo draws with MUJOCO_GL={os.environ.get('MUJOCO_GL', 'glfw')}"]))
"""


class Finding(NamedTuple):
    """One thing that was looked at: its state, what was found, and what helps where that is not enough."""

    name: str
    state: State
    found: str
    fix: str = ""


def doctor(json: bool = False) -> None:
    """Check this installation: what is there, what is missing, and how to install it; exits with 1 if it is broken.

    Args:
        json: Print one JSON object instead of a table.
    """
    findings = list(examine())
    broken = [finding.name for finding in findings if finding.state == "broken"]
    if json:
        print_json({"ok": not broken, "findings": [finding._asdict() for finding in findings]})
    else:
        _print(findings)
    if broken:
        raise SystemExit(1)


def examine() -> Iterator[Finding]:
    """Every finding, those that everything else needs first."""
    from cvflows import __version__

    yield Finding("cvflows", "ok", f"{__version__} in {Path(__file__).parent.parent}")
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Finding("system", "ok", f"{platform.system()} {platform.release()}, {platform.machine()}, {_cores()}")
    yield from _packages()
    yield _devices()
    yield _drawing()
    compiler = shutil.which("cc")
    helps = "`cvflows check` compiles with cc (Debian: apt-get install gcc)"
    yield Finding("C compiler", "ok" if compiler else "optional", compiler or "none", "" if compiler else helps)
    yield _cache()


def _packages() -> Iterator[Finding]:
    """Required packages, one by one where something is wrong, and every extra with what it lacks."""
    try:
        stated = requires("cvflows") or []
    except PackageNotFoundError:
        yield Finding("packages", "broken", "cvflows is not installed, only found", "pip install .")
        return
    extras: dict[str, list[str]] = {name: [] for name in PURPOSES}
    good: list[str] = []
    for line in stated:
        name, least, extra = _requirement(line)
        if name == "cvflows":  # an extra of extras
            continue
        try:
            have = version(name)
        except PackageNotFoundError:
            have = ""
        fits = bool(have) and _numbers(have) >= _numbers(least)
        if extra:
            if extra in extras and not fits:
                extras[extra].append(name)
        elif fits:
            good.append(f"{name} {have}")
        else:
            yield Finding(name, "broken", have or "not installed", f"pip install '{name}>={least}'")
    yield Finding("packages", "ok", ", ".join(good))
    for extra, missing in extras.items():
        found = f"{PURPOSES[extra]}: {'needs ' + ', '.join(missing) if missing else 'complete'}"
        fix = f"pip install 'cvflows[{extra}]'" if missing else ""
        yield Finding(f"extra {extra}", "optional" if missing else "ok", found, fix)


def _requirement(line: str) -> tuple[str, str, str]:
    """Name, least version and extra of a requirement such as `gymnasium[mujoco]>=1.1; extra == "test"`."""
    name = re.match(r"[\w.-]+", line)
    least, extra = re.search(r">=\s*([\w.]+)", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
    return name.group() if name else line, least.group(1) if least else "", extra.group(1) if extra else ""


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)[:3]]


def _probe(code: str) -> tuple[list[str], str]:
    """What a process of its own prints as JSON, or nothing and the last line of what it complains about."""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    except (subprocess.TimeoutExpired, OSError) as error:
        return [], f"{type(error).__name__}: no answer"
    if done.returncode == 0:
        return list(json_format.loads(done.stdout.splitlines()[-1])), ""
    lines = [line for line in done.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    signal = f"it ended with code {done.returncode}"
    return [], (lines or done.stderr.strip().splitlines() or [signal])[-1]


def _devices() -> Finding:
    found, problem = _probe(JAX)
    if problem:
        return Finding("JAX", "broken", problem, "pip install --upgrade jax jaxlib")
    unseen = shutil.which("nvidia-smi") and all(device.startswith("cpu") for device in found)
    fix = "a GPU is there that JAX does not see: pip install 'jax[cuda12]'" if unseen else ""
    return Finding("JAX", "optional" if unseen else "ok", f"computes on {', '.join(found)}", fix)


def _drawing() -> Finding:
    found, problem = _probe(DRAWING)
    if not problem:
        return Finding("drawing", "ok", found[0])
    packages = "libegl1 libegl-mesa0 (MUJOCO_GL=egl) or libosmesa6 (MUJOCO_GL=osmesa)"
    return Finding("drawing", "optional", problem, f"no pictures of robots; Debian: apt-get install {packages}")


def _cache() -> Finding:
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR", "")
    if not folder:
        return Finding("cache", "optional", "none", "compiled code is not kept: set HOME, or JAX_COMPILATION_CACHE_DIR")
    try:
        sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
    except OSError as error:
        return Finding("cache", "optional", f"{folder}: {error.strerror}", "a folder that you can write to")
    return Finding("cache", "ok", f"{len(sizes):,} files of compiled code, {sum(sizes) / 1e6:,.0f} MB, in {folder}")


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB of memory"
    except (AttributeError, ValueError, OSError):
        memory = ""
    return f"{usable} of {os.cpu_count()} cores{memory}"


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.text import Text

    from cvflows.printing import bold, table_of

    styles = {"ok": "green", "optional": "yellow", "broken": "red"}
    rows = []
    for name, state, found, fix in findings:
        rows.append((bold(name), Text(state, styles[state]), Text.assemble(found, (f"\n{fix}" if fix else "", "dim"))))
    Console().print(table_of(("", "", ""), rows))
