/* Runs as they go: their curves and a table, one row for each line {name, colour, runs}. A row's details have what can be taken
   from it: the command, files, and text that the model writes; and what its layer and its norm compute. */
"use strict";

class Watch {
  constructor(place) {
    this.scale = h("input", { type: "checkbox", onchange: () => this.draw() });
    this.halt = button("Stop", () => this.stopOrGoOn());
    this.body = h("tbody");
    this.canvas = h("canvas", { role: "img" });
    const heads = ["model", "", "in training", "on new text", ""].map(text => h("th", { scope: "col" }, text));
    place.replaceChildren(
      h("div", { class: "chart" }, this.canvas),
      h("div", { class: "bar" }, h("span", { class: "key" }, h("i", { class: "dashed" }), "in training ", h("i"), "on new text"),
        h("label", {}, this.scale, " logarithmic"), this.halt),
      h("div", { class: "scroll" }, h("table", { class: "runs" }, h("thead", {}, h("tr", {}, ...heads)), this.body)));
    this.curves = new Curves(this.canvas);
  }

  get runs() { return this.lines.flatMap(line => line.runs); }

  show(lines, view = {}) {
    Object.assign(this, { lines, view });
    this.rows = lines.map(line => this.rowOf(line));
    this.body.replaceChildren(...this.rows.flatMap(({ row, fault, details }) => [row, fault, details]));
    for (const run of this.runs) run.listeners.push(() => this.draw());
    this.draw();
  }

  rowOf(line) {
    const cells = ["state", "loss", "loss"].map(name => h("td", { class: name }));
    const fault = h("tr", { class: "fault", hidden: true }, h("td", { colspan: 5, class: "error", role: "status" }));
    const details = h("tr", { class: "details", hidden: true }, h("td", { colspan: 5 }));
    const open = button("details", () => {
      details.hidden = !details.hidden;
      open.setAttribute("aria-expanded", !details.hidden);
      details.firstChild.replaceChildren(...(details.hidden ? [] : this.detailsOf(line)));
    }, { "aria-expanded": "false", "aria-label": `details of ${line.name}` });
    return { row: h("tr", {}, h("th", { scope: "row" }, swatch(line.colour), line.name), ...cells, h("td", {}, open)), cells, fault, details };
  }

  // Once a frame, however many rows come.
  draw() {
    if (!this.isDue) requestAnimationFrame(() => { this.isDue = false; this.drawNow(); });
    this.isDue = true;
  }

  drawNow() {
    const updates = Math.max(...this.runs.map(run => run.updates).filter(Boolean));
    this.curves.show(this.lines, { updates, isLog: this.scale.checked, ...this.view });
    const all = this.lines.map(({ name, runs }, i) => {
      const { cells: [state, train, val], fault } = this.rows[i], mean = part => runs.reduce((sum, run) => sum + run.losses[part], 0) / runs.length;
      const failed = runs.find(run => run.error);
      state.replaceChildren(this.progressOf(runs, name));
      fault.hidden = !failed;
      if (failed) fault.firstChild.textContent = failed.error;
      [train.textContent, val.textContent] = [mean("train"), mean("val")].map(shownLoss);
      const text = this.rows[i].details.querySelector(".sample");
      if (text && runs[0].sample && !text.dataset.written) text.textContent = runs[0].sample;
      return `${name}: ${train.textContent} in training, ${val.textContent} on new text`;
    });
    this.canvas.setAttribute("aria-label", `Loss curves. ${all.join("; ")}`);
    const going = this.runs.some(run => run.isGoing);
    this.halt.hidden = !going && !this.runs.some(run => run.canGoOn);
    this.halt.textContent = going ? "Stop" : "Go on";
  }

  progressOf(runs, name) {
    const states = new Set(runs.map(run => run.state)), steps = runs.reduce((sum, run) => sum + run.step, 0);
    if (states.has("failed")) return "failed";
    if (states.size === 1 && states.has("done")) return "done";
    if (states.size === 1 && states.has("waiting")) return "waits for a core";
    const bar = h("progress", { max: runs[0].updates * runs.length || null, value: runs[0].updates ? steps : null, "aria-label": `${name}: updates done` });
    return h("span", {}, bar, states.has("stopped") ? " stopped" : "");
  }

  stopOrGoOn() {
    const going = this.runs.filter(run => run.isGoing);
    if (going.length) going.forEach(run => run.stop());
    else this.runs.filter(run => run.canGoOn).forEach(run => run.start());
  }

  detailsOf({ name, runs: [run] }) {
    const out = h("pre", { class: "sample", tabindex: 0, "aria-live": "polite" }, run.sample || "Text that the model writes appears here.");
    const say = text => { out.textContent = text; out.dataset.written = "true"; };
    const withFile = (file, use) => run.files[`/run/${file}`] ? use(run.files[`/run/${file}`]) : say("There is none yet: wait for the end of the run.");
    const take = file => button(file, () => withFile(file, bytes => save(`${name}-${file}`, bytes)));
    const write = () => withFile("model.safetensors", async () => {
      say("…");
      const words = ["--generate=/run", `--prompt=${prompt.value}`, "--num-chars=300", ...(run.text === null ? [] : [TEXT_FILE])];
      const { out: text, err } = await program.ask(words, { ...run.files, ...filesOf(run.text) });
      say(text || reasonIn(err));
    });
    const prompt = h("input", { value: "The " });
    return [
      h("div", { class: "bar" }, h("code", {}, run.command), button("copy", event => copy(run.command, event.target))),
      h("div", { class: "bar" }, take("log.csv"), take("model.safetensors"),
        h("label", {}, "a text from ", prompt), button("write on", write)),
      out, explained(run.options)];
  }
}

// What the program says of a model with these options: the operations of a layer, and its norm's derivative. `kept` keeps whether
// it is open.
function explained(options, kept = {}) {
  const place = h("div", { "aria-live": "polite" });
  const element = h("details", { open: Boolean(kept.isOpen), ontoggle: async () => {
    kept.isOpen = element.open;
    if (!element.open) return;
    place.replaceChildren(...await Promise.all(["--show-layer", "--show-norm"].map(async word => {
      const { out, err } = await program.ask([...argsOf(options), word]);
      return h("pre", { class: "listing", tabindex: 0 }, out || reasonIn(err));
    })));
  } }, h("summary", {}, "its layer, and its norm's derivative"), place);
  return element;
}
