"""Looking inside a constraint function: is it usable, does it index what is there, what is it with kinks smoothed?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var
from jax.extend.core import primitives as lax
from jaxtyping import Array, Float

from cvflows.errors import ConstraintFunctionError

Value = Any
"""An array, or a literal of a trace, whose types are JAX's own."""


def check_function(name: str, function: Callable[[Array, Array], Array], context_dim: int, action_dim: int) -> None:
    """Raise unless `function(x, a)` is traceable, returns a real scalar or vector, and depends on `a`."""
    dtype = jnp.result_type(float)
    x, a = jax.ShapeDtypeStruct((context_dim,), dtype), jax.ShapeDtypeStruct((action_dim,), dtype)
    signature = f"`{name}`(x of shape ({context_dim},), a of shape ({action_dim},))"
    if not callable(function):
        raise ConstraintFunctionError(f"`{name}`: expected a function of (x, a), got {type(function).__name__}")
    try:
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(x, a)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConstraintFunctionError(
            f"{signature}: expected a function of one context and one action that JAX can trace "
            f"(jax.numpy instead of numpy, no `if` on values), got {type(error).__name__}: {reason}"
        ) from error
    if not hasattr(shape, "shape"):
        raise ConstraintFunctionError(f"{signature}: expected one array, got {type(shape).__name__}")
    if len(shape.shape) > 1 or 0 in shape.shape:
        raise ConstraintFunctionError(f"{signature}: expected a scalar or a vector, got shape {shape.shape}")
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ConstraintFunctionError(
            f"{signature}: expected real values that are ≤ 0 when allowed, got dtype {shape.dtype}"
        )
    if not _depends(jaxpr.jaxpr, jaxpr.jaxpr.invars[1]):
        raise ConstraintFunctionError(f"{signature}: expected a value that depends on the action `a`, it ignores `a`")
    check_indices(signature, jaxpr)


def check_indices(signature: str, closed: ClosedJaxpr) -> None:
    """Raise where a trace indexes an array beyond its end: JAX would silently take another entry."""
    found = _beyond(closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True)))
    if found is not None:
        index, size = found
        written = index if index >= 0 else index - size  # JAX has added the size to negative indices
        raise ConstraintFunctionError(f"{signature}: expected indices within {size} entries, got index {written}")


def _depends(jaxpr: Jaxpr, source: Var) -> bool:
    """Whether any output can be reached from `source`."""
    reached = {source}
    for equation in jaxpr.eqns:
        if any(not isinstance(var, Literal) and var in reached for var in equation.invars):
            reached.update(equation.outvars)
    return any(not isinstance(var, Literal) and var in reached for var in jaxpr.outvars)


def _beyond(jaxpr: Jaxpr, known: dict[Var, Value]) -> tuple[int, int] | None:
    """The first index, known before any value is, that lies outside its array: (index, allowed indices)."""

    def read(var: Var | Literal) -> Value | None:
        return var.val if isinstance(var, Literal) else known.get(var)

    for equation in jaxpr.eqns:
        inputs, name = [read(var) for var in equation.invars], equation.primitive.name
        for index, size in _known_indices(equation, inputs):
            outside = index[(index < 0) | (index >= size)]
            if outside.size:
                return int(outside.flat[0]), size
        for inner in _inside(equation):
            outer = inputs if len(inputs) == len(inner.jaxpr.invars) and equation.primitive in _CALLS else []
            given = {var: value for var, value in zip(inner.jaxpr.invars, outer, strict=False) if value is not None}
            given.update(zip(inner.jaxpr.constvars, inner.consts, strict=True))
            if (found := _beyond(inner.jaxpr, given)) is not None:
                return found
            if equation.primitive in _CALLS:
                known.update(
                    (var, given[value] if not isinstance(value, Literal) else value.val)
                    for var, value in zip(equation.outvars, inner.jaxpr.outvars, strict=True)
                    if isinstance(value, Literal) or value in given
                )
        if all(value is not None for value in inputs) and name in _ON_INDICES:
            result = equation.primitive.bind(*map(jnp.asarray, inputs), **equation.params)
            known.update(zip(equation.outvars, [result], strict=True))
    return None


def _shape(var: Var | Literal) -> tuple[int, ...]:
    shape: tuple[int, ...] = getattr(var.aval, "shape", ())  # an abstract value need not be an array
    return shape


def _known_indices(equation: JaxprEqn, inputs: list[Value | None]) -> list[tuple[np.ndarray, int]]:
    """(indices, how many there may be) along every axis that an equation indexes by known numbers."""
    name, parameters = equation.primitive.name, equation.params
    shape = _shape(equation.invars[0]) if equation.invars else ()
    if name in ("dynamic_slice", "dynamic_update_slice"):
        first = 1 if name == "dynamic_slice" else 2
        sizes = parameters["slice_sizes"] if name == "dynamic_slice" else _shape(equation.invars[1])
        ends = [length - size + 1 for length, size in zip(shape, sizes, strict=True)]
        return [(np.asarray(start), end) for start, end in zip(inputs[first:], ends, strict=True) if start is not None]
    if name == "gather" and inputs[1] is not None:
        axes, sizes = parameters["dimension_numbers"].start_index_map, parameters["slice_sizes"]
        return [(np.asarray(inputs[1])[..., k], shape[axis] - sizes[axis] + 1) for k, axis in enumerate(axes)]
    if name.startswith("scatter") and inputs[1] is not None:
        axes = parameters["dimension_numbers"].scatter_dims_to_operand_dims
        return [(np.asarray(inputs[1])[..., k], shape[axis]) for k, axis in enumerate(axes)]
    return []


def _inside(equation: JaxprEqn) -> list[ClosedJaxpr]:
    """Every function that an equation contains: those of calls, loops and branches."""
    values = [value if isinstance(value, (tuple, list)) else (value,) for value in equation.params.values()]
    parts = [part for value in values for part in value if isinstance(part, (Jaxpr, ClosedJaxpr))]
    found = [ClosedJaxpr(part, ()) if isinstance(part, Jaxpr) else part for part in parts]
    return [inner for inner in found if len(inner.jaxpr.constvars) == len(inner.consts)]


def smoothed(function: Callable[..., Array], *example: Array) -> tuple[Callable[..., Array], bool]:
    """`function` with kinks rounded at width τ, to be called as `f(τ, *arguments)`, and whether it had any.

    |x| becomes √(x²+τ²) and max(x,y) becomes (x+y+√((x-y)²+τ²))/2, at most τ above. It is the function that remains
    when the slack variables of the lifted convex problem are eliminated at barrier weight τ, so an interior-point
    method can follow it to τ → 0 where it could not cross the kink itself.
    """
    closed: ClosedJaxpr = jax.make_jaxpr(function)(*example)

    def rounded(width: Float[Array, ""], *arguments: Array) -> Array:
        (value,) = _evaluate(closed.jaxpr, closed.consts, arguments, width)
        return jnp.asarray(value)

    return rounded, _has_kinks(closed.jaxpr)


def _has_kinks(jaxpr: Jaxpr) -> bool:
    return any(
        equation.primitive in _ROUNDED or (inner is not None and _has_kinks(inner.jaxpr))
        for equation in jaxpr.eqns
        for inner in [_inner(equation)]
    )


def _inner(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The function that a call equation calls."""
    if equation.primitive not in _CALLS:
        return None
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return ClosedJaxpr(inner, ()) if isinstance(inner, Jaxpr) else inner


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Value], arguments: Sequence[Value], width: Array) -> list[Value]:
    values: dict[Var, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(var: Var | Literal) -> Value:
        return var.val if isinstance(var, Literal) else values[var]

    for equation in jaxpr.eqns:
        inputs = [read(var) for var in equation.invars]
        inner = _inner(equation)
        is_float = all(jnp.issubdtype(jnp.result_type(value), jnp.floating) for value in inputs)
        if inner is not None:
            outputs = _evaluate(inner.jaxpr, inner.consts, inputs, width)
        elif equation.primitive in _ROUNDED and is_float:
            outputs = [_ROUNDED[equation.primitive](width, *inputs, **equation.params)]
        else:
            result = equation.primitive.bind(*inputs, **equation.params)
            outputs = result if equation.primitive.multiple_results else [result]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _half_spread(width: Array, x: Value, y: Value) -> Array:
    difference = x - y
    return jnp.sqrt(difference * difference + width * width) / 2


def _rounded_reduce_max(width: Array, x: Array, *, axes: tuple[int, ...], **_: object) -> Array:
    return width * jax.nn.logsumexp(x / width, axis=axes)


_ON_INDICES = {
    *("lt", "ge", "gt", "le", "eq", "ne", "add", "sub", "mul", "select_n", "broadcast_in_dim", "reshape", "squeeze"),
    *("convert_element_type", "concatenate", "iota", "slice", "rem", "max", "min", "and", "or", "not", "clamp"),
}
"""Operations by which JAX turns the indices that were written into those that it uses."""
_CALLS = {lax.jit_p, lax.custom_jvp_call_p, lax.custom_vjp_call_p}
_ROUNDED: dict[Primitive, Callable[..., Array]] = {
    lax.abs_p: lambda width, x: jnp.sqrt(x * x + width * width),
    lax.max_p: lambda width, x, y: (x + y) / 2 + _half_spread(width, x, y),
    lax.min_p: lambda width, x, y: (x + y) / 2 - _half_spread(width, x, y),
    lax.sqrt_p: lambda width, x, **_: jnp.sqrt(x + width * width),
    lax.reduce_max_p: _rounded_reduce_max,
}
