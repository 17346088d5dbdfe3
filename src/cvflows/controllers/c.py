"""A plan as C99: `controller.c` and `controller.h`. Only libm, no allocation, no state but the caller's struct.

The actor runs in loops over constant float arrays and sums in double; the map and the rows are straight lines of
doubles, written from the same program that Python runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from cvflows.constraints.programs import Program
from cvflows.controllers.c_text import CODE, HEADER
from cvflows.controllers.plan import FURTHEST, NORM_EPSILON, TOLERANCE, Layer, Network, Plan
from cvflows.controllers.status import Status, Used

POWER = """
static double cv_power(double base, int exponent)
{
    double result = 1.0;
    int count = exponent < 0 ? -exponent : exponent;
    for (; count > 0; count--) {
        result *= base;
    }
    return exponent < 0 ? 1.0 / result : result;
}
"""
PRODUCT = """
static void cv_product(const float *table, const double *x, int inputs, int outputs, double *y)
{
    int i, j;
    for (j = 0; j < outputs; j++) {
        y[j] = 0.0;
    }
    for (i = 0; i < inputs; i++) {
        for (j = 0; j < outputs; j++) {
            y[j] += x[i] * table[j];
        }
        table += outputs;
    }
}
"""
ACTIVATIONS = {
    "relu": "x > 0.0 ? x : 0.0",
    "tanh": "tanh(x)",
    "elu": "x > 0.0 ? x : expm1(x)",
    "silu": "x / (1.0 + exp(-x))",
}
NORM = """
static void cv_norm(const float *scale, const float *shift, int size, double *x)
{
    double mean = 0.0, square = 0.0;
    int i;
    for (i = 0; i < size; i++) {
        mean += x[i] / size;
    }
    for (i = 0; i < size; i++) {
        square += (x[i] - mean) * (x[i] - mean) / size;
    }
    for (i = 0; i < size; i++) {
        x[i] = (x[i] - mean) / sqrt(square + CV_NORM_EPSILON) * scale[i] + shift[i];
    }
}
"""


def header(plan: Plan) -> str:
    """`controller.h`."""
    statuses = "\n".join(f"    CV_{one.name} = {one.value},{_said(one)}" for one in Status)
    used = "\n".join(f"    CV_USED_{one.name} = {one.value}," for one in Used)
    return HEADER.format(
        about=_about(plan),
        obs=plan.network.inputs,
        act=len(plan.fixed),
        statuses=statuses.rstrip(","),
        used=used.rstrip(","),
    )


def source(plan: Plan) -> str:
    """`controller.c`."""
    written = {"cv_read_context": (plan.context, "x"), "cv_decode": (plan.action, "a"), "cv_rows": (plan.rows, "g")}
    if plan.anchor is not None:
        written["cv_anchor"] = (plan.anchor, "a")
    tables = [
        _floats(f"{name}_m{index}", table)
        for name, (program, _) in written.items()
        for index, table in enumerate(program.tables)
    ]
    programs = [*tables, *(program.in_c(name, result) for name, (program, result) in written.items())]
    power = any(_uses(program, "integer_pow") for program, _ in written.values())
    return CODE.format(
        about=_about(plan),
        context=max(len(plan.context.results), 1),
        context_count=len(plan.context.results),
        rows=len(plan.rows.results),
        tolerance=repr(TOLERANCE),
        furthest=repr(FURTHEST),
        low=_floats("cv_low", np.clip(plan.low, *_REACH)),
        high=_floats("cv_high", np.clip(plan.high, *_REACH)),
        fixed=_floats("cv_fixed", np.array(plan.fixed)),
        helpers=(POWER if power else "") + (PRODUCT if tables else ""),
        programs="\n\n".join(programs),
        network=_network(plan.network),
        outputs=plan.network.outputs,
        known=_known(plan),
        candidates=len(plan.order) + 1,
    )


_REACH = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))


def _known(plan: Plan) -> str:
    """The lines that list what is known beside the policy's action, in order."""
    lines = {
        "last": [
            "if (state->has_last) {",
            "    cv_copy(state->last, known[count]);",
            "    used[count++] = CV_USED_LAST;",
            "}",
        ],
        "anchor": [
            "cv_anchor(x, inner);",
            "if (cv_round(inner, known[count])) {",
            "    used[count++] = CV_USED_ANCHOR;",
            "}",
        ],
        "fixed": ["cv_copy(cv_fixed, known[count]);", "used[count++] = CV_USED_FIXED;"],
    }
    return "\n".join(f"    {line}" for name in plan.order for line in lines[name])


def _network(network: Network) -> str:
    """The arrays of an actor, and the functions that run it."""
    parts = [_floats("cv_mean", network.mean), _floats("cv_factor", network.factor)]
    for index, layer in enumerate(network.layers):
        parts += [_floats(f"cv_weight{index}", layer.weight), _floats(f"cv_bias{index}", layer.bias)]
        if layer.scale is not None and layer.shift is not None:
            parts += [_floats(f"cv_scale{index}", layer.scale), _floats(f"cv_shift{index}", layer.shift)]
    if len(network.free):
        parts.append(_floats("cv_free", network.free))
    if any(layer.scale is not None for layer in network.layers):
        parts.append(f"#define CV_NORM_EPSILON {NORM_EPSILON!r}\n{NORM}")
    widest = max(len(layer.bias) for layer in network.layers)
    size = max(widest, network.inputs)
    body = ["static void cv_actor(const double *obs, double *output)", "{"]
    body += [f"    double first[{size}], second[{size}];", "    int i;"]
    body += [f"    for (i = 0; i < {network.inputs}; i++) {{"]
    body += ["        first[i] = (obs[i] - cv_mean[i]) * cv_factor[i];"]
    if math.isfinite(network.clip):
        clip = repr(float(network.clip))
        body.append(f"        first[i] = first[i] > {clip} ? {clip} : first[i] < -{clip} ? -{clip} : first[i];")
    body.append("    }")
    before, after = "first", "second"
    for index, layer in enumerate(network.layers):
        body += _layer(index, layer, before, after, last=index == len(network.layers) - 1)
        before, after = after, before
    count = len(network.layers[-1].bias)
    body += [f"    for (i = 0; i < {count}; i++) {{", f"        output[i] = {before}[i];", "    }"]
    if len(network.free):
        body += [
            f"    for (i = 0; i < {len(network.free)}; i++) {{",
            f"        output[{count} + i] = cv_free[i];",
            "    }",
        ]
    return "\n".join([*parts, _activation(network), *body, "}"])


def _layer(index: int, layer: Layer, before: str, after: str, *, last: bool) -> list[str]:
    rows, columns = layer.weight.shape
    lines = [f"    cv_layer(cv_weight{index}, cv_bias{index}, {before}, {rows}, {columns}, {after});"]
    if layer.scale is not None:
        lines.append(f"    cv_norm(cv_scale{index}, cv_shift{index}, {columns}, {after});")
    if not last:
        lines += [f"    for (i = 0; i < {columns}; i++) {{", f"        {after}[i] = cv_activate({after}[i]);", "    }"]
    return lines


def _activation(network: Network) -> str:
    if len(network.layers) == 1:
        return ""
    return f"static double cv_activate(double x)\n{{\n    return {ACTIVATIONS[network.activation]};\n}}\n"


def _floats(name: str, array: np.ndarray) -> str:
    """A constant array; every float32 is written with digits that give it back."""
    values = [_float(value) for value in np.asarray(array, np.float32).ravel().tolist()]
    lines = [", ".join(values[start : start + 8]) for start in range(0, len(values), 8)]
    body = ",\n    ".join(lines)
    return f"static const float {name}[{len(values)}] = {{\n    {body}\n}};"


def _float(value: float) -> str:
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _uses(program: Program, operation: str) -> bool:
    return any(program.steps[index].operation == operation for index in program.needed(program.results))


def _about(plan: Plan) -> str:
    """Where it comes from, as lines of a comment."""
    names = ("task", "method", "constraint_words", "fingerprint", "cvflows")
    return "\n".join(f" * {name.split('_')[0]}: {_comment(plan.about.get(name))}" for name in names)


def _comment(value: object) -> str:
    """Text that cannot end a comment: names and constraints are the user's."""
    plain = (letter if letter.isprintable() and letter not in "\\?" else " " for letter in str(value))
    return " ".join("".join(plain).replace("*/", "* /").split())[:1000]


def _said(status: Status) -> str:
    notes: Iterable[tuple[Status, str]] = (
        (Status.OK, "the policy's action"),
        (Status.FALLBACK_INPUT, "an entry is NaN or infinite"),
        (Status.FALLBACK_RANGE, "an entry is beyond its limits"),
        (Status.FALLBACK_STALE, "the observation is too old, or from the future"),
        (Status.FALLBACK_CHECK, "the policy's action is not allowed"),
        (Status.FALLBACK_ASKED, "cv_fallback was called"),
        (Status.UNSAFE, "nothing is known to be allowed: the least bad action"),
    )
    return f" /* {dict(notes)[status]} */"
