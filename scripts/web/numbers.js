/* What a norm divides by: a small batch to edit, normalized by several norms at once. Their arithmetic is here again, because it
   must show its steps; tests compare it with normlab.py. */
"use strict";

const B = 2, T = 3, C = 4, EPS = 1e-5;
const FIRST_BATCH = [10, 20, 999, -5,  2, 5, -1, 3,  1, 0, 4, -2,    0, 3, 2, 1,  4, -1, 0, 2,  -3, 1, 5, 2];
const LAST = [0, 1, 2, 3].map(c => (T - 1) * C + c); // the last token of the first sequence
const SETS = { // over which numbers a statistic is
  token: "the token's channels", group: "half of the token's channels", batch: "this channel of all tokens",
  sequence: "this channel of the sequence", position: "this channel of the position", past: "this channel up to the token",
};
const NORMS = [ // running: the statistics of the first batch, which training has kept
  { name: "LayerNorm", over: "token", centred: true }, { name: "RMSNorm", over: "token", centred: false },
  { name: "BatchNorm in training", over: "batch", centred: true },
  { name: "BatchNorm on new text", over: "batch", centred: true, running: true },
];
const EDITS = [
  ["Add 50 to the last token of sequence 1", x => LAST.map(i => [i, x[i] + 50])],
  ["Add 50 to one channel of it", x => [[LAST[0], x[LAST[0]] + 50]]],
  ["Double it", x => LAST.map(i => [i, 2 * x[i]])],
  ["Take the 999 away", () => [[2, 1]]],
];

const where = i => ({ b: Math.floor(i / (T * C)), t: Math.floor(i / C) % T, c: i % C, token: Math.floor(i / C) });

// Whether the statistic that normalizes number i is taken over number j too.
function shares(over, i, j) {
  const p = where(i), q = where(j);
  switch (over) {
    case "token": return p.token === q.token;
    case "group": return p.token === q.token && Math.floor(p.c / 2) === Math.floor(q.c / 2);
    case "batch": return p.c === q.c;
    case "sequence": return p.c === q.c && p.b === q.b;
    case "position": return p.c === q.c && p.t === q.t;
    default: return p.c === q.c && p.b === q.b && q.t <= p.t;
  }
}

// {count, mean, size, y} of number i. Pads, a set of tokens, are in no statistic and have no y.
function stepsOf({ over, centred, running }, x, pads, i) {
  const values = (running ? FIRST_BATCH : x).filter((_, j) => (running || !pads.has(where(j).token)) && shares(over, i, j));
  const mean = centred ? values.reduce((a, b) => a + b, 0) / values.length : 0;
  const size = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length + EPS);
  return { count: values.length, mean, size, y: pads.has(where(i).token) ? NaN : (x[i] - mean) / size };
}

const outputsOf = (norm, x, pads) => x.map((_, i) => stepsOf(norm, x, pads, i).y);
const rounded = value => Number.isNaN(value) ? "–" : value.toFixed(Math.abs(value) < 100 ? 2 : 0).replace("-", "−");

const numbers = {
  x: FIRST_BATCH.slice(), pads: new Set(), selected: 2, before: null, changed: [], extra: { over: "sequence", centred: true },

  get norms() { return [...NORMS, { name: "Your choice", ...this.extra }]; },

  open() {
    byId("number-edits").append(...EDITS.map(([text, edit]) => button(text, () => this.change(edit(this.x)))),
      button("Start again", () => { Object.assign(this, { x: FIRST_BATCH.slice(), pads: new Set(), before: null, changed: [], selected: 2 }); this.draw(); }));
    const over = h("select", { "aria-label": "statistic over", onchange: () => { this.extra.over = over.value; this.forget(); } },
      ...Object.entries(SETS).map(([value, text]) => h("option", { value, selected: value === "sequence" }, text)));
    const centred = h("input", { type: "checkbox", checked: true, onchange: () => { this.extra.centred = centred.checked; this.forget(); } });
    byId("number-choice").append(h("label", {}, "over ", over), h("label", {}, centred, " minus the mean"));
    this.fields = this.x.map((_, i) => h("input", { type: "number", step: "any", "aria-label": this.nameOf(i), onfocus: () => { this.selected = i; this.draw(); },
      oninput: ({ target }) => { if (target.value !== "" && Number.isFinite(+target.value)) this.change([[i, +target.value]]); } }));
    this.padButtons = Array.from({ length: B * T }, (_, token) => button("pad", () => {
      if (!this.pads.delete(token)) this.pads.add(token);
      this.forget();
    }, { "aria-label": `token ${token % T + 1} of sequence ${Math.floor(token / T) + 1} is a pad`, class: "off" }));
    byId("number-inputs").append(...this.tables(i => this.fields[i], token => this.padButtons[token]));
    this.panels = this.norms.map(() => this.x.map(() => h("span")));
    byId("number-outputs").append(...this.norms.map(({ name }, k) => h("div", { class: "norm" }, h("h4", {}, name), ...this.tables(i => this.panels[k][i]))));
    this.draw();
  },

  // A table for each sequence: a row for each token.
  tables(cellOf, extraOf = () => null) {
    return Array.from({ length: B }, (_, b) => h("table", { class: "batch" }, h("caption", {}, `sequence ${b + 1}`),
      ...Array.from({ length: T }, (_, t) => h("tr", {}, h("th", { scope: "row" }, `token ${t + 1} `, extraOf(b * T + t)),
        ...Array.from({ length: C }, (_, c) => h("td", {}, cellOf((b * T + t) * C + c)))))));
  },

  nameOf(i) { return `sequence ${where(i).b + 1}, token ${where(i).t + 1}, channel ${where(i).c + 1}`; },
  forget() { this.before = null; this.changed = []; this.draw(); },

  change(edits) {
    this.before = this.norms.map(norm => outputsOf(norm, this.x, this.pads));
    for (const [i, value] of edits) this.x[i] = value;
    Object.assign(this, { changed: edits.map(([i]) => i), selected: edits[0][0] });
    this.draw();
  },

  // Outputs that moved, and those of them that belong to a token before each changed one of its sequence.
  movedIn(k) {
    if (!this.before) return { moved: [], leaks: [] };
    const y = outputsOf(this.norms[k], this.x, this.pads);
    const moved = [...y.keys()].filter(i => Math.abs(y[i] - this.before[k][i]) > 1e-6); // an epsilon moves a little
    return { moved, leaks: moved.filter(i => this.changed.every(j => where(j).b === where(i).b && where(j).t > where(i).t)) };
  },

  draw() {
    this.fields.forEach((field, i) => {
      if (document.activeElement !== field || +field.value !== this.x[i]) field.value = this.x[i];
      this.padButtons[where(i).token].setAttribute("aria-pressed", this.pads.has(where(i).token));
      field.parentElement.className = i === this.selected ? "chosen" : this.pads.has(where(i).token) ? "pad" : "";
    });
    this.norms.forEach((norm, k) => {
      const { moved, leaks } = this.movedIn(k);
      this.panels[k].forEach((cell, i) => {
        const { y } = stepsOf(norm, this.x, this.pads, i), td = cell.parentElement, strength = Math.min(Math.abs(y) / 2, 1) * 55;
        td.className = [!norm.running && shares(norm.over, this.selected, i) && !this.pads.has(where(i).token) ? "share" : "", leaks.includes(i) ? "leak" : ""].join(" ").trim();
        td.style.background = Number.isNaN(y) ? "" : `color-mix(in srgb, var(--${y < 0 ? "bn" : "ln"}) ${strength.toFixed(0)}%, transparent)`;
        td.dataset.y = y;
        cell.replaceChildren(rounded(y), ...(moved.includes(i) ? [h("s", { "aria-label": "before" }, rounded(this.before[k][i]))] : []));
      });
    });
    byId("number-steps").replaceChildren(...this.norms.map(norm => this.stepsRow(norm)));
    byId("number-selected").textContent = `The chosen number, ${this.nameOf(this.selected)}, is ${rounded(this.x[this.selected])}`;
    byId("number-said").replaceChildren(...(this.before ? this.norms.map((norm, k) => this.sentence(norm, k)) : []));
  },

  stepsRow(norm) {
    const { count, mean, size, y } = stepsOf(norm, this.x, this.pads, this.selected), x = rounded(this.x[this.selected]);
    const filled = norm.centred ? `(${x} − ${mean < 0 ? `(${rounded(mean)})` : rounded(mean)}) / ${rounded(size)}` : `${x} / ${rounded(size)}`;
    const cells = [`${SETS[norm.over]}${norm.running ? ", kept from training" : ""} (${count})`, norm.centred ? rounded(mean) : "–", rounded(size), `${filled} = ${rounded(y)}`];
    return h("tr", {}, h("th", { scope: "row" }, norm.name), ...cells.map(text => h("td", {}, text)));
  },

  sentence({ name }, k) {
    const { moved, leaks } = this.movedIn(k), others = moved.filter(i => this.changed.every(j => where(j).b !== where(i).b));
    const what = leaks.length ? `${leaks.length} numbers of earlier tokens moved: a model that is trained like this sees the token that it should predict.`
      : others.length ? `${moved.length} numbers moved, ${others.length} of them in the other sequence, but none of an earlier token.`
      : moved.length ? `only the changed token moved, in ${moved.length} numbers.` : "nothing moved.";
    return h("li", { class: leaks.length ? "fails" : "" }, `${name}: ${what}`);
  },
};
