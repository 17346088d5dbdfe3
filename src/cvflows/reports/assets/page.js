"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const shown = new Set(data.methods.map(m => m.name));
const colour = Object.fromEntries(data.methods.map(m => [m.name, m.colour]));
const plots = [];

function style() {
  const css = getComputedStyle(document.documentElement);
  return { ink: css.getPropertyValue("--ink").trim(), soft: css.getPropertyValue("--soft").trim(), line: css.getPropertyValue("--line").trim(), card: css.getPropertyValue("--card").trim() };
}

function faded(hex, share) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${share})`;
}

function layout(extra) {
  const now = style(), axis = { gridcolor: now.line, zerolinecolor: now.line, linecolor: now.line, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: now.ink, size: 12, family: "system-ui, sans-serif" },
    margin: { l: 48, r: 10, t: 8, b: 38 }, showlegend: false, hovermode: "x unified", hoverlabel: { bgcolor: now.card, bordercolor: now.line, font: { color: now.ink } },
    ...extra, xaxis: { ...axis, ...(extra.xaxis || {}) }, yaxis: { ...axis, ...(extra.yaxis || {}) },
  };
}

function lines(curves) {
  return curves.flatMap(c => [
    { x: [...c.step, ...[...c.step].reverse()], y: [...c.high, ...[...c.low].reverse()], fill: "toself", fillcolor: faded(colour[c.method], .18), line: { width: 0 }, mode: "lines", hoverinfo: "skip", method: c.method },
    { x: c.step, y: c.value, mode: c.step.length > 1 ? "lines" : "markers", line: { color: colour[c.method], width: 2 }, marker: { color: colour[c.method] }, name: c.method, method: c.method, hovertemplate: `%{y:.4~g}<extra>${c.method} (${c.seeds})</extra>` },
  ]);
}

function dots(rows, field) {
  return rows.filter(r => r[field]).map(r => ({
    x: [r[field].value], y: [r.method], mode: "markers", type: "scatter", method: r.method, name: r.method, marker: { color: colour[r.method], size: 11 },
    error_x: { type: "data", symmetric: false, array: [r[field].high - r[field].value], arrayminus: [r[field].value - r[field].low], color: colour[r.method], thickness: 3, width: 0 },
    hovertemplate: `%{x:.3f}, 95 % within ${r[field].low.toFixed(3)} to ${r[field].high.toFixed(3)}<extra>${r.method}</extra>`,
  }));
}

function draw(id, traces, extra) {
  const node = document.getElementById(id);
  if (!node) return;
  const visible = () => traces.map(t => shown.has(t.method));
  const plain = traces.map((t, i) => { const { method, ...rest } = t; return { ...rest, visible: visible()[i] }; });
  Plotly.newPlot(node, plain, layout(extra), { displayModeBar: false, responsive: true });
  plots.push({ node, extra, visible });
}

function start() {
  for (const [group, title] of [["return", "return"], ["violations", "% forbidden so far"]]) {
    data.tasks.forEach((task, i) => {
      const some = data.curves[group].filter(c => c.task === task);
      draw(`${group}-${i}`, lines(some), { xaxis: { title: { text: "steps" } }, yaxis: { title: { text: title }, rangemode: group === "return" ? "normal" : "tozero" } });
    });
  }
  draw("iqm", dots(data.aggregates, "iqm"), { hovermode: "closest", xaxis: { title: { text: "IQM of normalised returns" } }, yaxis: { autorange: "reversed", type: "category" } });
  draw("beaten", dots(data.aggregates, "beaten"), { hovermode: "closest", xaxis: { range: [-.03, 1.03], title: { text: `P(${data.methods[0].name} is better)` } }, yaxis: { autorange: "reversed", type: "category" } });
  const box = document.getElementById("toggles");
  for (const { name } of data.methods) {
    const button = document.createElement("button");
    button.className = "method"; button.type = "button"; button.textContent = name;
    button.style.setProperty("--dot", colour[name]);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => toggle(name, button));
    box.append(button);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(p => Plotly.relayout(p.node, layout(p.extra))));
  document.documentElement.dataset.ready = "yes";
}

function toggle(name, button) {
  if (shown.has(name)) shown.delete(name); else shown.add(name);
  button.setAttribute("aria-pressed", String(shown.has(name)));
  plots.forEach(p => Plotly.restyle(p.node, { visible: p.visible() }));
  document.querySelectorAll("[data-method]").forEach(cell => { cell.hidden = !shown.has(cell.dataset.method); });
}

async function load() {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent), c => c.charCodeAt(0));
  const text = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
  start();
}
load();
