/* Loss curves, drawn by Chart.js: dashed in training, solid on new text. A line is {name, colour, runs}, its colour the name
   of one in style.css. Of several runs, which differ in their seed, it shows the mean, and the range on new text as a band. */
"use strict";

const styleOf = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// [{x, y, low, high}] of a column of log.csv, at the steps that all runs have reached.
function meanOf(runs, column) {
  const byStep = new Map();
  for (const row of runs.flatMap(run => run.rows))
    if (Number.isFinite(row[column])) byStep.set(row.step, [...byStep.get(row.step) ?? [], row[column]]);
  return [...byStep].filter(([, losses]) => losses.length === runs.length).sort(([a], [b]) => a - b).map(([x, losses]) =>
    ({ x, y: losses.reduce((sum, loss) => sum + loss, 0) / losses.length, low: Math.min(...losses), high: Math.max(...losses) }));
}

class Curves {
  constructor(canvas) {
    const title = text => ({ display: true, text });
    this.chart = new Chart(canvas, { type: "line", data: { datasets: [] }, options: {
      animation: false, parsing: false, normalized: true, maintainAspectRatio: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      elements: { point: { radius: 0, hoverRadius: 4 } },
      scales: { x: { type: "linear", min: 0, title: title("updates") }, y: { title: title("loss, nats per character") } },
      plugins: {
        legend: { display: false },
        tooltip: {
          filter: ({ dataset }) => dataset.label, itemSort: (a, b) => b.parsed.y - a.parsed.y,
          callbacks: { title: ([first]) => first ? `${first.parsed.x} updates` : "",
                       label: ({ dataset, parsed }) => ` ${parsed.y.toFixed(3)}  ${dataset.label}` },
        },
      },
    } });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // view: {updates: the end of the axis, lowest and highest: the ends of the linear axis, isLog, level: {y, name}, a horizontal line}
  show(lines, view) {
    Object.assign(this, { lines, view });
    this.draw();
  }

  draw() {
    if (!this.lines) return;
    const { updates, lowest = 0, highest, isLog, level } = this.view, { x, y } = this.chart.options.scales;
    for (const axis of [x, y]) {
      axis.ticks = { color: styleOf("soft") };
      axis.title.color = styleOf("soft");
      axis.grid = { color: styleOf("line"), borderColor: styleOf("line"), display: axis === y };
    }
    x.max = Number.isFinite(updates) ? updates : undefined;
    Object.assign(y, { type: isLog ? "logarithmic" : "linear", min: isLog ? undefined : lowest, max: isLog ? undefined : highest });
    this.chart.data.datasets = [...this.lines.flatMap(line => this.curvesOf(line)), ...(level ? [this.levelAt(level)] : [])];
    this.chart.update("none");
  }

  curvesOf({ name, colour, runs }) {
    const val = meanOf(runs, "val_loss"), hue = styleOf(colour);
    const drawn = { borderColor: hue, backgroundColor: hue, borderWidth: 2.5 };
    const edge = end => ({ data: val.map(point => ({ x: point.x, y: point[end] })), borderWidth: 0, backgroundColor: `${hue}33` });
    return [{ ...drawn, label: `${name}, in training`, data: meanOf(runs, "train_loss"), borderDash: [5, 4], borderWidth: 1.5 },
            { ...drawn, label: `${name}, on new text`, data: val },
            ...(runs.length > 1 ? [edge("low"), { ...edge("high"), fill: "-1" }] : [])];
  }

  levelAt({ y, name }) {
    const colour = styleOf("soft");
    return { label: name, borderColor: colour, backgroundColor: colour, borderWidth: 1, borderDash: [1, 4],
             data: [{ x: 0, y }, { x: this.view.updates, y }] };
  }
}
