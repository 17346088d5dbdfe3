"""Export a trained policy as a safe controller, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from cvflows.commands.output import print_json
from cvflows.errors import ArgumentError, ExportError, dimension

if TYPE_CHECKING:
    from cvflows.controllers.building import Limits

Run = Annotated[Path, Positional, arg(metavar="RUN")]
Artefact = Annotated[Path, Positional, arg(metavar="ARTEFACT")]
FILES = 5


def export(
    run: Run,
    format: Literal["c", "onnx"] = "c",
    out: Path | None = None,
    fallback: str = "last",
    limits: str | None = None,
    json: bool = False,
) -> None:
    """Export a trained policy as a controller that no forbidden action leaves.

    Args:
        run: Folder of the run.
        format: c: C99 with the constraint's check compiled in, also read by `cv.Controller` in Python without JAX;
            onnx: the same, and one ONNX file beside it (extra `export`).
        out: Folder for the artefact, by default RUN/controller.
        fallback: What replaces an action that cannot be used: last (the last allowed one), anchor (an inner point of
            the set), or an action of your own as in 0,0,0.5.
        limits: Limits of the observation beyond which an input counts as faulty: LOW:HIGH for every entry, or one pair
            for each, as in --limits=-1:1,-5:5.
        json: Print one JSON object instead of text.
    """
    action = _action(fallback)
    from cvflows.controllers.artefact import export_c
    from cvflows.controllers.building import Options
    from cvflows.runs.session import resume
    from cvflows.terminal import count_progress, print_lines, print_warning

    trainer = resume(run, look_only=True)
    options = Options(action, _limits(limits, trainer.task.observation_dim))
    options.check(trainer.task)
    with count_progress("writing the controller", FILES) as tick:
        done = export_c(trainer, out or run / "controller", options, tick, onnx=format == "onnx")
    share = done.plan.about.get("fixed_allowed", 1.0)
    if isinstance(share, float) and share < 1:
        print_warning(f"the fallback is allowed at {share:.1%} of the observations of its episodes")
    if json:
        return print_json(done.as_json())
    found = done.as_json()
    corrects = "allowed by construction, and checked" if found["certified"] else "checked; the fallback replaces others"
    lines = [
        f"{found['method']} on {found['task']} in {found['out']}: {', '.join(sorted(done.files))}",
        f"actions: {corrects}; fallback: {', then '.join(done.plan.order)}",
    ]
    print_lines(lines, [f"check it: cvflows check {found['out']}"])
    return None


def check(artefact: Artefact, count: int = 100_000, json: bool = False) -> None:
    """Compile an exported controller, repeat its recorded cases, and try inputs that are meant to break it.

    Fails where a forbidden action leaves it, or where it decides otherwise than the agent it was exported from.

    Args:
        artefact: Folder of the controller.
        count: Inputs to try; every second thousand is adversarial: huge, tiny, NaN, infinite.
        json: Print one JSON object instead of text.
    """
    dimension("count", count, most=10**9)
    from cvflows.controllers.checking import check as check_artefact
    from cvflows.terminal import count_progress, print_lines

    with count_progress("trying inputs", count) as tick:
        report = check_artefact(artefact, count, tick)
    if json:
        print_json(report.as_json())
    else:
        lines = [
            f"{report.inputs:,} inputs: {report.forbidden} forbidden actions, {report.fallbacks:,} fallbacks, "
            f"{report.unsafe:,} of them unsafe and said so (judged by {report.judged_by})",
            f"largest difference: from the recorded actions {report.parity:.2g}, from the agent {report.agent:.2g}, "
            f"from Python {report.python:.2g}" + ("" if report.onnx is None else f", of ONNX from C {report.onnx:.2g}"),
        ]
        print_lines(lines)
    if report.problem is not None:
        raise ExportError(f"{artefact} does not keep its promise: {report.problem}")


def _action(text: str) -> str | list[float]:
    """`last` and `anchor` as they are, numbers as an action."""
    if text in ("last", "anchor"):
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError("fallback", "last, anchor, or an action as in 0,0,0.5", repr(text)) from None


def _limits(text: str | None, size: int) -> Limits | None:
    """One pair for all entries, or one for each."""
    if text is None:
        return None
    try:
        pairs = [tuple(float(end) for end in pair.split(":")) for pair in text.split(",")]
        low, high = zip(*(pairs * size if len(pairs) == 1 else pairs), strict=True)
    except ValueError:
        raise ArgumentError("limits", "LOW:HIGH, or one such pair per entry as in -1:1,-5:5", repr(text)) from None
    return low, high
