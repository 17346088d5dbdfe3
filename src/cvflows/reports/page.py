"""One self-contained HTML page: tables as HTML, curves drawn by plotly.js, which is packed into the page."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import asdict
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from cvflows.errors import MissingExtraError
from cvflows.reports.gallery import MapFigures
from cvflows.reports.records import metric_of
from cvflows.reports.tables import TableCell, Tables

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a5195", "#8c564b", "#4d8c57", "#a05195")
"""First those of Okabe and Ito, which most people can tell apart, on light and on dark."""
SECTIONS = {
    "summary": "Summary",
    "aggregate": "Across tasks",
    "learning": "Learning",
    "returns": "Returns",
    "curves": "Violations over training",
    "violations": "Violations",
    "magnitude": "Size of violations",
    "speed": "Speed",
    "maps": "Maps",
    "runs": "What was run",
}


def write_page(tables: Tables, path: Path, *, title: str = "Training report", maps: list[MapFigures]) -> Path:
    """Write the page; `maps` are pictures and figures of maps by task."""
    bodies = {name: body for name, body in _bodies(tables, maps).items() if body}
    sections = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{SECTIONS[name]}</h2>\n{body}</section>'
        for name, body in bodies.items()
    )
    data = {
        "tasks": tables.tasks,
        "methods": [{"name": name, "colour": colour_of(tables, name)} for name in tables.methods],
        "curves": {name: [asdict(curve) for curve in tables.curves(name)] for name in ("return", "violations")},
        "aggregates": tables.aggregates(),
    }
    assets = files("cvflows.reports").joinpath("assets")
    page = Template(assets.joinpath("page.html").read_text()).substitute(
        title=escape(title),
        lead=_lead(tables),
        nav=" ".join(f'<a href="#{name}">{SECTIONS[name]}</a>' for name in bodies),
        sections=sections,
        footer="Made by <code>cvflows report</code>. Nothing on this page is loaded from elsewhere.",
        css=assets.joinpath("page.css").read_text(),
        js=assets.joinpath("page.js").read_text(),
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        library=_library(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page.encode(errors="backslashreplace"))
    return path


def colour_of(tables: Tables, method: str) -> str:
    """The colour of a method, the same in every figure."""
    return COLOURS[tables.methods.index(method) % len(COLOURS)]


@cache
def _library() -> str:
    """plotly.js, compressed to a third."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtraError("the page", "plotly", "report") from None
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _lead(tables: Tables) -> str:
    steps = sum(record.step for record in tables.records)
    counts = f"{len(tables.records)} runs, {len(tables.tasks)} tasks, {len(tables.methods)} methods, {steps:,} steps"
    return f"{counts}. Violations are those of the actions asked for. {tables.executed_sentence()}"


def _bodies(tables: Tables, maps: list[MapFigures]) -> dict[str, str]:
    aggregates = tables.aggregates()
    across = ""
    if aggregates:
        across = (
            "<p>Interquartile mean of final returns over tasks and seeds, scaled on every task so that the lowest mean "
            "of any method is 0 and the highest is 1; bars are 95 % stratified bootstrap intervals. Next to it, how "
            f"likely a run of {escape(tables.methods[0])} is better than one of another method.</p>"
            '<div class="grid"><figure><h3>Normalised return</h3><div class="plot tall" id="iqm"></div></figure>'
            '<figure><h3>Probability of improvement</h3><div class="plot tall" id="beaten"></div></figure></div>'
        )
    small_print = (
        "In small print: spread over seeds, seeds × steps; what the paper reports at its own budget, the difference."
    )
    return {
        "summary": _notes(tables),
        "aggregate": across,
        "learning": "<p>Evaluations without exploring: interquartile mean over seeds, 95 % bootstrap band.</p>"
        + _plots(tables, "return"),
        "returns": f"<p>Of the last evaluation. {small_print}</p>" + _table(tables, "return", "return", 2),
        "curves": "<p>Share of the actions asked for so far that were forbidden, and so were projected.</p>"
        + _plots(tables, "violations"),
        "violations": _violations(tables, small_print),
        "magnitude": "<p>Mean over the steps of training: the sum of a constraint's positive rows.</p>"
        + _table(tables, "magnitude", "mean violation", 4),
        "speed": "<p>Environment steps per second, with everything: updates, checks, evaluations.</p>"
        + _table(tables, "speed", "steps/s", 0),
        "maps": _maps(maps),
        "runs": _runs(tables),
    }


def _violations(tables: Tables, small_print: str) -> str:
    """Two tables with the paper's counts; a third, for limits on states, with forbidden actions."""
    limited = [task for task in tables.tasks if metric_of(task) == "episodes"]
    text = "Percent of actions during training; for tasks that limit states, of episodes that left them."
    body = f"<p>{text if limited else 'Percent of actions during training.'} {small_print}</p>"
    body += _table(tables, "training", "violations in training", 3)
    body += "<p>Of the final policy.</p>" + _table(tables, "final", "violations of the final policy", 3)
    if limited:
        body += "<p>Percent of the actions asked for in training that the learned limit on states forbids.</p>"
        body += _table(tables, "forbidden", "forbidden actions in training", 3, limited)
    return body


def _notes(tables: Tables) -> str:
    budgets = sorted({record.config.steps for record in tables.records})
    budget = f"{budgets[0]:,}" if len(budgets) == 1 else f"{budgets[0]:,} to {budgets[-1]:,}"
    seeds = len({record.config.seed for record in tables.records})
    text = f"<p>Budgets of {budget} steps, up to {seeds} seeds. The paper trains for up to a million, with ten.</p>"
    if not tables.notes:
        return text
    items = "".join(f"<li>{escape(note)}</li>" for note in tables.notes)
    return f'{text}<ul class="notes">{items}</ul>'


def _plots(tables: Tables, group: str) -> str:
    plots = "".join(
        f'<figure><h3>{escape(task)}</h3><div class="plot" id="{group}-{index}"></div></figure>'
        for index, task in enumerate(tables.tasks)
    )
    return f'<div class="grid">{plots}</div>'


def _table(tables: Tables, name: str, caption: str, digits: int, tasks: list[str] | None = None) -> str:
    """Tasks, or some of them, by methods."""
    cells = {(cell["task"], cell["method"]): cell for cell in tables.cells(name)}
    if not cells:
        return ""
    head = "".join(f'<th scope="col" data-method="{escape(method)}">{escape(method)}</th>' for method in tables.methods)
    rows = ""
    for task in tables.tasks if tasks is None else tasks:
        columns = ""
        for method in tables.methods:
            columns += f'<td data-method="{escape(method)}">{_cell(cells.get((task, method)), digits)}</td>'
        rows += f'<tr><th scope="row">{escape(task)}</th>{columns}</tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f'<thead><tr><th scope="col">{escape(caption)}</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cell(cell: TableCell | None, digits: int) -> str:
    if cell is None:
        return ""
    spread = "" if cell["spread"] is None else f"± {cell['spread']:,.{digits}f}, "
    small = f"<small>{spread}{cell['seeds']} × {cell['steps'] / 1000:g}k</small>"
    if cell["paper"] is not None:
        small += f"<small>paper {cell['paper']:,.{digits}f} ({cell['difference']:+,.{digits}f})</small>"
    return f"{cell['mean']:,.{digits}f}{small}"


def _maps(maps: list[MapFigures]) -> str:
    if not maps:
        return ""
    figures = ""
    for found in maps:
        note = f"accuracy {found['accuracy']:.3%}, recall {found['recall']:.2%}, KL to uniform {found['kl']:.3f} nats"
        note += "" if found.get("calm") is None else f", calm {found['calm']:.3f}"
        image = ""
        if found.get("picture"):
            code = base64.b64encode(Path(found["picture"]).read_bytes()).decode()
            image = f'<img alt="Density of the map of {escape(found["task"])}" src="data:image/png;base64,{code}">'
        head = f"{escape(found['task'])}: {escape(found['map'])}"
        figures += f'<figure><h3>{head}</h3>{image}<p class="note">{note}</p></figure>'
    return f'<div class="grid">{figures}</div>'


def _counted(value: int | None) -> str:
    return "not counted" if value is None else f"{value:,}"


def _runs(tables: Tables) -> str:
    rows = ""
    for found in tables.runs():
        steps = ", ".join(f"{count:,}" for count in found["steps"])
        seeds = ", ".join(map(str, found["seeds"]))
        rows += (
            f'<tr data-method="{escape(found["method"])}"><th scope="row">{escape(found["task"])}</th>'
            f'<td class="left">{escape(found["method"])}</td><td>{steps}</td>'
            f"<td>{seeds}<small>{found['complete']} complete</small></td><td>{found['seconds'] / 60:,.0f}</td>"
            f"<td>{_counted(found['empty'])}</td><td>{_counted(found['executed'])}</td>"
            f'<td class="code">{escape(found["command"])}</td><td class="left">{escape(found["versions"])}</td></tr>'
        )
    head = "".join(
        f'<th scope="col"{left}>{name}</th>'
        for name, left in (
            ("task", ""),
            ("method", ' class="left"'),
            ("steps", ""),
            ("seeds", ""),
            ("minutes", ""),
            ("empty sets", ""),
            ("forbidden executed", ""),
            ("command of the first seed", ' class="left"'),
            ("versions", ' class="left"'),
        )
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="What was run"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
