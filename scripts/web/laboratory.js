/* The laboratory: variants as rows of options, one text, several seeds. The lists of norms, placements and so on, each
   option's range and its help are the program's own (--help=json, --list-norms), and so is the line that says what is wrong. */
"use strict";

const START = { "n-layer": 2, "n-embd": 32, "block-size": 32, "batch-size": 12, "max-iters": 500, "learning-rate": 0.01,
  "init-std": 0.1, "warmup-iters": 50, "eval-interval": 25, "eval-iters": 5, "sample-interval": 100 };
const PALETTE = ["ln", "bn", "rms", "none", "gn", "extra1", "extra2", "extra3"];
const FIRST = ["norm", "placement", "connection", "optimizer"]; // what a variant usually differs in
// Topics and kinds of options that a page has no use for: it has no files.
const HIDDEN = ["sampling", "checkpoints", "help", "text", "flag", "alias"];
const LARGEST_TEXT = 2e7; // bytes

const seedsIn = text => Math.min(8, Math.max(1, Math.round(text) || 1));

const laboratory = {
  shared: { ...START }, text: "grammar", pasted: "", seeds: 1, faults: new Map(),
  variants: [{ colour: "ln", options: { norm: "ln" } }, { colour: "bn", options: { norm: "bn" } }],

  async open() {
    this.table = (await program.options()).filter(({ topic, kind, name }) => !HIDDEN.includes(topic) && !HIDDEN.includes(kind) && !(name in OF_THE_PAGE));
    const formulas = Object.entries(await program.formulas());
    document.body.append(h("datalist", { id: "norms" }, ...formulas.map(([name, formula]) => h("option", { value: name }, formula))));
    const text = byId("lab-text"), area = byId("lab-pasted"), seeds = byId("lab-seeds");
    text.onchange = () => { this.text = text.value; this.draw(); };
    area.onchange = () => { this.pasted = area.value; this.draw(); };
    seeds.onchange = () => { this.seeds = seedsIn(seeds.value); this.draw(); };
    byId("lab-file").onchange = ({ target: { files: [file] } }) => file && this.read(file);
    byId("lab-add").onclick = () => this.add({ norm: "rms" });
    byId("lab-train").onclick = () => this.train();
    byId("lab-link").onclick = event => copy(`${location.href.split("#")[0]}#laboratory=${this.state}`, event.target);
    this.draw();
  },

  async read(file) {
    try {
      if (file.size > LARGEST_TEXT) throw new Error(`larger than ${LARGEST_TEXT / 1e6} MB`);
      this.pasted = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      this.text = "pasted";
      this.draw();
      this.say(`${file.name}: ${this.pasted.length} characters`);
    } catch (fault) { this.say(`${file.name}: ${fault instanceof TypeError ? "no text in UTF-8" : fault.message}`); }
  },

  say(text) { byId("lab-said").textContent = text; },
  get isTraining() { return Boolean(this.lines?.some(({ runs }) => runs.some(run => run.isGoing))); },

  get state() { return encodeURIComponent(JSON.stringify({ shared: this.shared, variants: this.variants, text: this.text, seeds: this.seeds,
    ...(this.text === "pasted" && this.pasted.length < 4000 ? { pasted: this.pasted } : {}) })); },

  // Takes over a state from an address; a link that was cut or edited is said.
  restore(text) {
    try {
      const { shared, variants, text: source, seeds, pasted } = JSON.parse(decodeURIComponent(text));
      if (!Array.isArray(variants)) throw new Error("no variants");
      Object.assign(this, { shared: { ...shared }, text: source ?? "grammar", seeds: seedsIn(seeds), pasted: pasted ?? "",
        variants: variants.map(({ colour, options }) => ({ colour: PALETTE.includes(colour) ? colour : "ln", options: { ...options } })) });
      this.draw();
      this.say(this.text === "pasted" && !this.pasted ? "Your text was too long for a link: give it again." : "");
    } catch (fault) { this.say(`This link is damaged (${fault.message}); the laboratory has its defaults.`); }
  },

  // Takes over an experiment.
  take({ shared, variants }) {
    Object.assign(this, { shared: { ...shared }, text: shared.corpus === "random" ? "random" : "grammar",
      variants: variants.map(({ colour, options }) => ({ colour, options: { ...options } })) });
    delete this.shared.corpus;
    this.draw();
    byId("laboratory").scrollIntoView();
  },

  add(options) {
    const free = PALETTE.find(colour => this.variants.every(variant => variant.colour !== colour));
    this.variants.push({ colour: free ?? PALETTE[this.variants.length % PALETTE.length], options: { ...options } });
    this.draw();
  },

  nameOf({ options }) {
    const words = Object.entries(options).map(([name, value]) => name === "norm" ? value : `${name} ${value}`);
    return words.join(", ") || "as all";
  },

  optionsOf(variant) { return { ...this.shared, ...(this.text === "random" ? { corpus: "random" } : {}), ...variant.options }; },
  get corpus() { return this.text === "pasted" ? this.pasted : null; },

  draw() {
    byId("lab-text").value = this.text;
    byId("lab-pasted").value = this.pasted;
    byId("lab-pasted").parentElement.hidden = this.text !== "pasted";
    byId("lab-seeds").value = this.seeds;
    byId("lab-shared").replaceChildren(this.editor(this.shared));
    byId("lab-variants").replaceChildren(...this.variants.map((variant, i) => {
      const fault = h("p", { class: "error", role: "status" });
      this.check(variant, fault);
      return h("li", {}, h("div", { class: "bar" }, swatch(variant.colour), this.editor(variant.options, FIRST),
        h("span", { class: "pair" }, button("copy", () => this.add(variant.options), { "aria-label": `copy variant ${i + 1}` }),
        button("remove", () => { this.variants.splice(i, 1); this.draw(); }, { "aria-label": `remove variant ${i + 1}`, disabled: this.variants.length < 2 }))), fault,
        explained(this.optionsOf(variant), variant));
    }));
  },

  // Asks the program what is wrong with a variant.
  async check(variant, place) {
    const { status, err } = await program.ask([...argsOf(this.optionsOf(variant)), "--show-options"]);
    place.textContent = status ? reasonIn(err) : "";
  },

  // Fields of these options, and a list of what can be added.
  editor(options, first = []) {
    const help = h("span", { class: "help", "aria-live": "polite" });
    const fields = Object.keys(options).map(name => this.field(options, name, help));
    const more = h("select", { "aria-label": "add an option", onchange: () => {
      const { default: value, kind } = this.table.find(({ name }) => name === more.value);
      options[more.value] = value && value !== "auto" ? value : kind === "switch" ? "on" : "";
      this.draw();
    } }, h("option", { value: "" }, "+ option"));
    const rest = this.table.filter(({ name }) => !(name in options));
    const group = (label, rows) => rows.length ? h("optgroup", { label }, ...rows.map(({ name, help: text }) => h("option", { value: name, title: text }, name))) : null;
    more.append(...[group("often", rest.filter(({ name }) => first.includes(name))),
      ...[...new Set(rest.map(({ topic }) => topic))].map(topic => group(topic, rest.filter(row => row.topic === topic)))].filter(Boolean));
    return h("div", { class: "editor" }, ...fields, more, help);
  },

  field(options, name, help) {
    const row = this.table.find(one => one.name === name) ?? { help: "no such option", kind: "text" };
    const values = row.kind === "switch" ? ["on", "off"] : name === "norm" ? null : row.values;
    const change = event => { options[name] = event.target.value.trim(); this.draw(); };
    const range = row.min === undefined ? "" : `, ${row.min} to ${row.max}`;
    const attributes = { onchange: change, title: row.help, "aria-label": name,
      onfocus: () => { help.textContent = `${name}: ${row.help}${row.default ? ` (default ${row.default}${range})` : ""}`; } };
    const input = values ? h("select", attributes, ...values.map(value => h("option", { selected: value === String(options[name]) }, value)))
      : h("input", { ...attributes, value: options[name], ...(name === "norm" ? { list: "norms", size: Math.max(12, options[name].length) } : {}) });
    return h("label", { class: "field" }, name, input, button("×", () => { delete options[name]; this.draw(); }, { "aria-label": `without ${name}`, class: "off" }));
  },

  train() {
    this.lines?.flatMap(({ runs }) => runs).forEach(run => run.stop());
    this.lines = this.variants.map(variant => {
      const options = this.optionsOf(variant), name = this.nameOf(variant);
      const seeds = Array.from({ length: this.seeds }, (_, i) => Number(options.seed ?? 1) + i);
      return { name, colour: variant.colour, runs: seeds.map(seed => new Run(name, { ...options, seed }, this.corpus)) };
    });
    new Watch(byId("lab-watch")).show(this.lines);
    const runs = this.lines.flatMap(line => line.runs);
    history.replaceState(null, "", `#laboratory=${this.state}`);
    this.say("");
    shown = { lines: this.lines, done: Promise.all(runs.map(run => run.finished)) };
    for (const i of Array(this.seeds).keys()) this.lines.forEach(line => line.runs[i].start());
  },
};
