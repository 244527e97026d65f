/* The page: what its address asks for, and window.normlab for the console and for tests:
     experiments           their names            start(name, {seed})   trains; gives the promise `done`
     runs                  {experiment, name, options, seed, state, error, rows} of what was started last
     done                  a promise of [{holds, text}], the claims of the experiment that was started last */
"use strict";

const experimentView = new ExperimentView();
let shown = { lines: [], done: Promise.resolve([]) };

function start(name, { seed = 1 } = {}) {
  startExperiment(name, seed);
  experimentView.open(name);
  shown = experimentView.start(seed);
  return shown.done;
}

window.normlab = {
  experiments: EXPERIMENTS.map(({ name }) => name),
  start,
  get runs() {
    return shown.lines.flatMap(({ runs }) => runs).map(({ about, name, options, state, error, rows }) =>
      ({ experiment: about.experiment, name, options, seed: options.seed, state, error, rows }));
  },
  get done() { return shown.done; },
};

function follow() {
  const [what, value] = location.hash.slice(1).split(/=(.*)/s);
  if (what === "experiment" && window.normlab.experiments.includes(value)) start(value);
  if (what === "laboratory" && value) laboratory.restore(value);
  if (value) byId(`${what.replace("experiment", "experiments")}`)?.scrollIntoView();
}
numbers.open();
experimentView.open();
laboratory.open().then(follow, ({ message }) => laboratory.say(message));
addEventListener("hashchange", follow);
// What the laboratory trains is lost with the tab; its variants stay in the address.
addEventListener("beforeunload", event => { if (laboratory.isTraining) event.preventDefault(); });
