"""Programs of plain operations on doubles: what a traced function is written as, and the languages it is printed in.

A program is data: steps that each apply one operation of the table below to arguments, to earlier steps and to numbers.
It is run as Python, compiled as C, and kept in a file. No JAX is needed to read, run or print one.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cvflows.errors import CVFlowsError


class FaultyProgramError(CVFlowsError, ValueError):
    """What should be a program is none."""


class Operation(NamedTuple):
    """What it takes and gives (`f` a double, `b` a truth value, `i` a whole number), and how it is written."""

    takes: str
    gives: str
    python: str
    c: str


def _on(takes: str, gives: str, python: str, c: str | None = None) -> Operation:
    return Operation(takes, gives, python, python if c is None else c)


def _named(name: str, takes: str = "f") -> Operation:
    """A function that has one name in Python's `math` and in C's."""
    return _on(takes, "f", f"{name}({', '.join(f'{{{index}}}' for index in range(len(takes)))})")


# A NaN must survive: of two numbers that compare as neither, the first is kept.
ON_FLOATS = {
    "add": _on("ff", "f", "{0} + {1}"),
    "sub": _on("ff", "f", "{0} - {1}"),
    "mul": _on("ff", "f", "{0} * {1}"),
    "div": _on("ff", "f", "{0} / {1}"),
    "rem": _named("fmod", "ff"),
    "neg": _on("f", "f", "-{0}"),
    "abs": _on("f", "f", "abs({0})", "fabs({0})"),
    "max": _on("ff", "f", "{1} if {0} < {1} or {1} != {1} else {0}", "{0} < {1} || {1} != {1} ? {1} : {0}"),
    "min": _on("ff", "f", "{1} if {0} > {1} or {1} != {1} else {0}", "{0} > {1} || {1} != {1} ? {1} : {0}"),
    "sign": _on(
        *("f", "f", "{0} if {0} != {0} else 1.0 if {0} > 0 else -1.0 if {0} < 0 else 0.0"),
        "{0} == {0} ? (double)({0} > 0) - (double)({0} < 0) : {0}",
    ),
    "floor": _on("f", "f", "float(floor({0}))", "floor({0})"),
    "ceil": _on("f", "f", "float(ceil({0}))", "ceil({0})"),
    "square": _on("f", "f", "{0} * {0}"),
    "rsqrt": _on("f", "f", "1 / sqrt({0})"),
    "logistic": _on("f", "f", "1 / (1 + exp(-{0}))"),
    "pow": _named("pow", "ff"),  # of `math`: a negative base and a fractional exponent are an error, no complex number
    "atan2": _named("atan2", "ff"),
    **{name: _named(name) for name in ("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p", "erf")},
    **{name: _named(name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
}
"""Floats to a float."""
COMPARISONS = {
    "lt": _on("ff", "b", "{0} < {1}"),
    "le": _on("ff", "b", "{0} <= {1}"),
    "gt": _on("ff", "b", "{0} > {1}"),
    "ge": _on("ff", "b", "{0} >= {1}"),
    "eq": _on("ff", "b", "{0} == {1}"),
    "ne": _on("ff", "b", "{0} != {1}"),
    "is_finite": _on("f", "b", "isfinite({0})", "{0} - {0} == 0"),
}
"""Floats to a truth value."""
LOGIC = {
    "and": _on("bb", "b", "{0} and {1}", "{0} && {1}"),
    "or": _on("bb", "b", "{0} or {1}", "{0} || {1}"),
    "not": _on("b", "b", "not {0}", "!{0}"),
    "xor": _on("bb", "b", "{0} != {1}"),
}
"""Truth values to a truth value."""
OPERATIONS: dict[str, Operation] = {
    **ON_FLOATS,
    **COMPARISONS,
    **LOGIC,
    "integer_pow": _on("fi", "f", "{0} ** {1}", "cv_power({0}, {1})"),
    "select": _on("bff", "f", "{2} if {0} else {1}", "{0} ? {2} : {1}"),
    "select_truth": _on("bbb", "b", "{2} if {0} else {1}", "{0} ? {2} : {1}"),
    "number": _on("b", "f", "1.0 if {0} else 0.0", "{0} ? 1.0 : 0.0"),
}
BESIDE_NUMBER = {"max": "{1} if {0} < {1} else {0}", "min": "{1} if {0} > {1} else {0}"}
"""How the same is written where the second input is a number: that it is no NaN is known."""
PRODUCT = "product"
"""The one operation that gives a vector: entries times a table of numbers."""
STEP = re.compile(r"t(0|[1-9]\d{0,6})")
PART = re.compile(r"t(0|[1-9]\d{0,6})\[(0|[1-9]\d{0,6})\]")
TABLE = re.compile(r"m(0|[1-9]\d{0,3})")
ENTRY = re.compile(r"([a-z]\w{0,30})\[(0|[1-9]\d{0,6})\]")
NUMBER = re.compile(r"-?(\d{1,20}\.\d{1,20}|\d(\.\d{1,20})?e[+-]\d{1,3}|inf)|nan")
WHOLE = re.compile(r"-?\d{1,9}")
MOST_STEPS = 100_000
ANY_STEP = re.compile(rf"\b{STEP.pattern}\b")
ARITHMETIC = re.compile(r"-?[^ ]+( [-+*/] [^ ]+)?")
LONGEST_LINE = 400
"""Characters: Python reads no more than some two hundred brackets within each other."""


def _quick_product(table: np.ndarray, values: Sequence[float]) -> list[float]:
    with np.errstate(all="ignore"):
        return (np.asarray(values) @ table).tolist()


def _ieee_product(table: np.ndarray, values: Sequence[float]) -> list[np.float64]:
    return list(np.asarray(values) @ table)


_QUICK: dict[str, Any] = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
_QUICK["product"] = _quick_product
_IEEE: dict[str, Any] = {
    **{name: getattr(np, name) for name in ("floor", "ceil", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "fmod", "isfinite")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "pow": np.power,
    "erf": math.erf,
    "inf": math.inf,
    "nan": math.nan,
    "double": np.float64,
    "product": _ieee_product,
}
"""The functions of a program: on floats, fast, with errors; on NumPy's doubles, where 1/0 is infinite as in C."""


class Step(NamedTuple):
    """An operation by its name, and its inputs as text: `t3`, a step; `x[2]`, an argument's entry; or a number.

    A product's first input is a table, `m0`; its entries are `t3[0]`, `t3[1]` and so on.
    """

    operation: str
    inputs: tuple[str, ...]


class Program(NamedTuple):
    """Steps that compute `results` from vectors of these sizes, by their names, and tables (inputs, outputs)."""

    sizes: Mapping[str, int]
    steps: Sequence[Step]
    results: Sequence[str]
    tables: Sequence[np.ndarray] = ()

    @property
    def lines(self) -> list[str]:
        """Every step as a line of Python."""
        return [f"t{index} = {self._line(step)}" for index, step in enumerate(self.steps)]

    def _line(self, step: Step, ieee: bool = False) -> str:
        if step.operation == PRODUCT:
            return f"product({step.inputs[0]}, [{', '.join(map(as_python, step.inputs[1:]))}])"
        operation = OPERATIONS[step.operation]
        template = operation.python
        if step.operation in BESIDE_NUMBER and NUMBER.fullmatch(step.inputs[1]) and step.inputs[1] != "nan":
            template = BESIDE_NUMBER[step.operation]
        expression = template.format(*map(as_python, step.inputs))
        return f"double({expression})" if ieee and operation.gives == "f" else expression

    def needed(self, operands: Iterable[str]) -> list[int]:
        """The numbers of the steps that these operands, or an expression with them, depend on, in order."""
        wanted = {int(match[1]) for operand in operands for match in ANY_STEP.finditer(operand)}
        for index in range(max(wanted, default=-1), -1, -1):
            if index in wanted:
                wanted |= {int(match[1]) for text in self.steps[index].inputs for match in ANY_STEP.finditer(text)}
        return sorted(wanted)

    def listed(self) -> str:
        """The results as a Python expression: a list."""
        return f"[{', '.join(map(as_python, self.results))}]"

    def define(self, title: str, ending: str | None = None, *, ieee: bool = False) -> Callable[..., Any]:
        """The Python function that returns the expression `ending`, by default the list of results.

        With `ieee`, for arguments of NumPy's doubles: slower, and never an error.
        """
        returned = self.listed() if ending is None else ending
        kept = {index: self._line(self.steps[index], ieee) for index in self.needed([returned])}
        lines = [f"t{index} = {line}" for index, line in (kept if ieee else _joined(kept, returned)).items()]
        source = "\n    ".join([f"def written({', '.join(self.sizes)}):", *lines, f"return {returned}"])
        scope = dict(_IEEE if ieee else _QUICK) | {f"m{index}": table for index, table in enumerate(self.tables)}
        # The source is made of the templates above and of checked operands; nothing in it comes from outside.
        exec(compile(source, f"<{title}>", "exec"), scope)
        written: Callable[..., Any] = scope["written"]
        return written

    def in_c(self, name: str, result: str) -> str:
        """The C function `name` that writes the results into the array `result`; arguments are arrays of doubles.

        Its tables are arrays of floats, `NAME_m0` and so on, and products are `cv_product`: both are the caller's.
        """
        arguments = ", ".join([*(f"const double *{argument}" for argument in self.sizes), f"double *{result}"])
        lines = [f"static void {name}({arguments})", "{"]
        for index in self.needed(self.results):
            step = self.steps[index]
            if step.operation == PRODUCT:
                rows, columns = self.tables[int(step.inputs[0][1:])].shape
                lines.append(f"    const double i{index}[{rows}] = {{{', '.join(map(as_c, step.inputs[1:]))}}};")
                lines.append(f"    double t{index}[{columns}];")
                lines.append(f"    cv_product({name}_{step.inputs[0]}, i{index}, {rows}, {columns}, t{index});")
                continue
            operation = OPERATIONS[step.operation]
            kind = "double" if operation.gives == "f" else "int"
            lines.append(f"    const {kind} t{index} = {operation.c.format(*map(as_c, step.inputs))};")
        lines += [f"    (void){argument};" for argument in (*self.sizes, result)]
        lines += [f"    {result}[{index}] = {as_c(operand)};" for index, operand in enumerate(self.results)]
        return "\n".join([*lines, "}"])

    def as_data(self) -> dict[str, object]:
        """The program as JSON: a line of text for every step that the results need."""
        kept = self.needed(self.results)
        numbers = {str(old): new for new, old in enumerate(kept)}

        def renamed(operand: str) -> str:
            return ANY_STEP.sub(lambda match: f"t{numbers[match[1]]}", operand)

        steps = [self.steps[index] for index in kept]
        return {
            "sizes": dict(self.sizes),
            "tables": [{"shape": list(table.shape), "float32": packed(table)} for table in self.tables],
            "steps": [" ".join([step.operation, *map(renamed, step.inputs)]) for step in steps],
            "results": [renamed(operand) for operand in self.results],
        }


def _joined(lines: Mapping[int, str], returned: str) -> dict[int, str]:
    """Lines of arithmetic, each within the one line that uses it, once: a name costs as much as an addition."""
    uses = Counter(int(match[1]) for text in (*lines.values(), returned) for match in ANY_STEP.finditer(text))
    in_the_end = {int(match[1]) for match in ANY_STEP.finditer(returned)}
    joined: dict[int, str] = {}
    waiting: dict[int, str] = {}

    def put(match: re.Match[str]) -> str:
        text = waiting.pop(int(match[1]), None)
        return match[0] if text is None else f"({text})"

    for index, line in lines.items():
        text = ANY_STEP.sub(put, line)
        arithmetic = ARITHMETIC.fullmatch(line) is not None
        once = uses[index] == 1 and index not in in_the_end
        (waiting if arithmetic and once and len(text) < LONGEST_LINE else joined)[index] = text
    return joined


def as_python(operand: str) -> str:
    """An operand in Python: numbers in brackets, so that a sign binds to its number."""
    plain = any(form.fullmatch(operand) for form in (STEP, PART, ENTRY, WHOLE))
    return operand if plain else f"({operand})"


def as_c(operand: str) -> str:
    """An operand in C."""
    special = {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN", "True": "1", "False": "0"}
    return special.get(operand, as_python(operand))


def from_data(data: object, sizes: Mapping[str, int], results: int | None = None) -> Program:
    """The program that `as_data` wrote, of arguments with these sizes; an error where it is anything else.

    Programs come from files, and are run. So that a damaged or hostile file runs no code of its own, nothing of its
    text is taken over that is not one of three things: the name of a known operation, an operand of a form that only
    names an earlier step or an entry that exists, or a number. All else in the source that is run is a template above.
    """
    try:
        given = data if isinstance(data, dict) else {}
        lines, ends = given["steps"], given["results"]
        if given["sizes"] != dict(sizes) or not isinstance(lines, list) or not isinstance(ends, list):
            raise ValueError("arguments of other sizes")
        if len(lines) > MOST_STEPS or (results is not None and len(ends) != results):
            raise ValueError("too long, or another number of results")
        tables = [unpacked(table["float32"], *table["shape"]).astype(float) for table in given["tables"]]
        kinds: list[str | int] = []
        steps = []
        for line in lines:
            name, *inputs = str(line).split(" ")
            if name == PRODUCT:
                kinds.append(_product_size(inputs, kinds, sizes, tables))
                steps.append(Step(name, tuple(inputs)))
                continue
            takes = OPERATIONS[name].takes
            if [_kind(text, kinds, sizes) for text in inputs] != list(takes):
                raise ValueError(f"inputs of {name}")
            kinds.append(OPERATIONS[name].gives)
            steps.append(Step(name, tuple(inputs)))
        if any(_kind(str(text), kinds, sizes) != "f" for text in ends):
            raise ValueError("results")
        return Program(dict(sizes), steps, [str(text) for text in ends], tables)
    except (LookupError, TypeError, ValueError) as error:
        raise FaultyProgramError(f"no program: {type(error).__name__} {error}") from None


def packed(array: np.ndarray) -> str:
    """An array of single precision as text."""
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def unpacked(text: object, *shape: int) -> np.ndarray:
    """The array that `packed` wrote; ValueError where it has another size, or is not finite."""
    array = np.frombuffer(base64.b64decode(str(text), validate=True), "<f4").reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError("numbers that are not finite")
    return array


def _product_size(
    inputs: Sequence[str], kinds: Sequence[str | int], sizes: Mapping[str, int], tables: Sequence[np.ndarray]
) -> int:
    """How many entries a product has."""
    match = TABLE.fullmatch(inputs[0])
    if match is None:
        raise ValueError("the table of a product")
    table = tables[int(match[1])]
    if table.ndim != 2 or [_kind(text, kinds, sizes) for text in inputs[1:]] != ["f"] * len(table):
        raise ValueError("inputs of a product")
    return table.shape[1]


def _kind(text: str, kinds: Sequence[str | int], sizes: Mapping[str, int]) -> str:
    """What an operand is: `f`, `b` or `i`; ValueError or LookupError where it is none."""
    if (match := STEP.fullmatch(text)) is not None:
        kind = kinds[int(match[1])]
        if isinstance(kind, str):
            return kind
    elif (match := PART.fullmatch(text)) is not None:
        size = kinds[int(match[1])]
        if isinstance(size, int) and int(match[2]) < size:
            return "f"
    elif (match := ENTRY.fullmatch(text)) is not None:
        if int(match[2]) < sizes[match[1]]:
            return "f"
    elif text in ("True", "False"):
        return "b"
    elif WHOLE.fullmatch(text):
        return "i"
    elif NUMBER.fullmatch(text):
        return "f"
    raise ValueError(f"the operand {text[:40]!r}")
