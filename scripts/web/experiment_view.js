/* An experiment on the page: its question, its runs, and what happened. */
"use strict";

const STARTED = new Map(); // name and seed: {lines, answer}, so that an experiment goes on while another is looked at

// Starts the runs of an experiment, unless they have started: {experiment, seed, lines, done}.
function startExperiment(name, seed = 1) {
  const key = `${name} ${seed}`, experiment = EXPERIMENTS.find(one => one.name === name);
  if (!experiment) throw new Error(`no experiment ${name} (${EXPERIMENTS.map(one => one.name).join(", ")})`);
  if (!STARTED.has(key)) {
    const lines = experiment.variants.map(({ name: variant, colour, options }) => ({ name: variant, colour,
      runs: [new Run(variant, { ...experiment.shared, ...options, seed }, null, { experiment: name })] }));
    const done = Promise.all(lines.map(({ runs }) => runs[0].finished)).then(() => claimsOf(experiment, lines));
    STARTED.set(key, { experiment, seed, lines, done });
    lines.forEach(({ runs }) => runs[0].start());
  }
  return STARTED.get(key);
}

// [{holds, text}] by the numbers of these runs.
function claimsOf(experiment, lines) {
  const failed = lines.filter(({ runs }) => runs[0].error);
  if (failed.length) return failed.map(({ name, runs }) => ({ holds: false, text: `${name}: ${runs[0].error}` }));
  const losses = Object.fromEntries(lines.map(({ name, runs }) => [name, runs[0].losses]));
  return experiment.claims(losses).map(([holds, text]) => ({ holds, text }));
}

class ExperimentView {
  constructor() {
    this.tabs = byId("tabs");
    this.place = byId("experiment");
    this.tabs.append(...EXPERIMENTS.map(({ name, title }) => button(title, () => this.open(name), { "data-name": name })));
    this.answers = {};
  }

  open(name) {
    this.experiment = EXPERIMENTS.find(one => one.name === name) ?? EXPERIMENTS[0];
    for (const tab of this.tabs.children) tab.setAttribute("aria-pressed", tab.dataset.name === this.experiment.name);
    const { title, look, question, answers } = this.experiment, text = h("p");
    text.innerHTML = look;
    this.watched = h("div", { hidden: true });
    this.result = h("div", { class: "result", "aria-live": "polite" });
    this.choices = answers.map((answer, i) => button(answer, () => { this.answers[this.experiment.name] = i; this.start(); }));
    this.place.replaceChildren(h("h3", {}, title), text, h("p", { class: "question" }, question),
      h("div", { class: "answers" }, ...this.choices), this.watched, this.result);
    const started = [...STARTED.values()].findLast(one => one.experiment === this.experiment);
    if (started) this.start(started.seed);
  }

  start(seed = 1) {
    const { experiment } = this, started = startExperiment(experiment.name, seed);
    history.replaceState(null, "", `#experiment=${experiment.name}`);
    this.choices.forEach((choice, i) => choice.setAttribute("aria-pressed", i === this.answers[experiment.name]));
    this.watched.hidden = false;
    this.result.replaceChildren();
    new Watch(this.watched).show(started.lines, experiment);
    started.done.then(claims => { if (this.experiment === experiment) this.tell(started, claims); });
    return started;
  }

  tell({ experiment, seed }, claims) {
    const answer = this.answers[experiment.name];
    const marks = claims.map(({ holds, text }) => h("li", { class: holds ? "holds" : "fails" }, text, holds ? "" : " (Not in this run.)"));
    this.result.replaceChildren(
      h("h4", {}, "What happened"),
      answer === undefined ? "" : h("p", {}, answer === experiment.right ? "As you expected." : `You expected otherwise. What happened: ${experiment.answers[experiment.right].toLowerCase()}.`),
      h("ul", {}, ...marks), h("h4", {}, "Why"), h("p", {}, experiment.why),
      h("p", { class: "more" }, `More, on real text: WHY.md, “${experiment.section}”.`),
      h("div", { class: "bar" }, button("Again with another seed", () => this.start(seed + 1)),
        button("Change it in the laboratory", () => laboratory.take(experiment))));
  }
}
