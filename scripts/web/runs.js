/* Training runs, as many at once as the machine has cores; the others wait.

   A Run has options and a text, and as it goes: rows {step, train_loss, val_loss, ...}, NaN where not measured; a state:
   waiting, training, stopped, done or failed; the program's own line as its error. Stopping ends its worker. Going on starts
   the program again with --resume and the files of its last checkpoint, or from the start if there is none. */
"use strict";

const CORES = Math.max(1, navigator.hardwareConcurrency || 2);
const OF_THE_PAGE = { threads: 1, out: "/run", plot: "off" }; // options that are no part of a variant
const TEXT_FILE = "/text.txt";

// Options and a text as words of a command line, with the file that the text is in.
const wordsOf = (options, text, file = TEXT_FILE) =>
  [...argsOf({ sample: 0, ...options }), ...(text === null ? [] : [file])];
const filesOf = text => text === null ? {} : { [TEXT_FILE]: new TextEncoder().encode(text) };

class Run {
  // name, options, text (null: that of the options); about: what a page wants to keep with it.
  constructor(name, options, text = null, about = {}) {
    Object.assign(this, { name, options, text, about, rows: [], state: "new", error: "", files: {}, sample: "" });
    this.listeners = [];
    this.finished = new Promise(resolve => { this.finish = resolve; });
  }

  get isGoing() { return ["training", "waiting"].includes(this.state); }
  get step() { return this.rows.at(-1)?.step ?? 0; }
  // How many there will be: NaN as long as only the program knows.
  get updates() { return this.hasEnded ? this.step : Number(this.options["max-iters"]); }
  get hasEnded() { return ["done", "failed"].includes(this.state); }
  get canGoOn() { return this.state === "stopped"; }

  // The command that trains the same model without a browser.
  get command() { return ["./train", ...wordsOf(this.options, this.text, "text.txt").map(quoted)].join(" "); }

  // Losses for a sentence. In training: the mean of the last five rows, since batches differ; on new text: the last one.
  get losses() {
    const given = name => this.rows.map(row => row[name]).filter(loss => !Number.isNaN(loss));
    const last = given("train_loss").slice(-5), val = given("val_loss");
    return { train: last.reduce((sum, loss) => sum + loss, 0) / last.length, val: val.at(-1) ?? NaN };
  }

  heard() { for (const listener of this.listeners) listener(this); }
  become(state) { this.state = state; this.heard(); if (this.hasEnded) this.finish(this); }

  async train() {
    const resumed = "/run/checkpoint.safetensors" in this.files;
    const args = resumed ? ["--resume=/run", "--plot=off"] : wordsOf({ ...this.options, ...OF_THE_PAGE }, this.text);
    let said = "";
    if (!resumed) Object.assign(this, { rows: [], sample: "", files: {} });
    this.call = program.call(args, { ...this.files, ...filesOf(this.text) }, message => {
      if (message.rows) this.read(message.rows);
      if (message.samples) this.sample = message.samples.split("\t").pop().replaceAll("\\n", "\n").replaceAll("\\t", "\t").replaceAll("\\\\", "\\");
      if (message.files && Object.keys(message.files).length) this.files = message.files;
      said += message.err ?? "";
      if (message.rows || message.samples) this.heard();
    });
    this.become("training");
    const { status } = await this.call.ended;
    this.error = status ? reasonIn(said) || `ended with status ${status}` : "";
    this.become(status === null ? "stopped" : status ? "failed" : "done");
  }

  // A resumed run writes again the rows after its checkpoint.
  read(lines) {
    for (const cells of lines.trim().split("\n").map(line => line.split(","))) {
      if (cells[0] === "step") { this.columns = cells; continue; }
      const row = Object.fromEntries(this.columns.map((column, i) => [column, cells[i] ? Number(cells[i]) : NaN]));
      while (this.step >= row.step && this.rows.length) this.rows.pop();
      this.rows.push(row);
    }
  }

  start() { this.become("waiting"); queue.add(this); }
  stop() { if (this.state === "training") this.call.stop(); else if (this.state === "waiting") this.become("stopped"); }
}

const queue = (() => {
  const waiting = [];
  let training = 0;
  async function next() {
    if (training >= CORES || !waiting.length) return;
    const run = waiting.shift();
    if (run.state !== "waiting") return next(); // stopped before its turn
    training++;
    next();
    await run.train();
    training--;
    next();
  }
  return { add(run) { waiting.push(run); next(); } };
})();
