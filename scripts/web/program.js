/* The compiled program: what it can do, and one call of it. Each call has a worker of its own.
     program.call(args, files, heard)   {stop(), ended}; heard(message) gets what worker.js sends
     program.ask(args, files)           a promise of {status, out, err}: for calls that only print
     program.options()                  a promise of [{name, topic, kind, default, values, min, max, help}]
     program.formulas()                 a promise of {norm: its formula} */
"use strict";

const program = (() => {
  const source = id => document.getElementById(id).textContent;
  const address = URL.createObjectURL(new Blob([source("train-js"), source("worker-js")], { type: "text/javascript" }));
  const bytes = Uint8Array.from(atob(source("train-wasm").trim()), character => character.charCodeAt(0));
  const compiled = WebAssembly.compile(bytes); // once, for all workers
  compiled.catch(() => {}); // each call says it
  let table = null, listed = null;

  function call(args, files, heard) {
    const worker = new Worker(address);
    let settle;
    const ended = new Promise(resolve => { settle = resolve; });
    const end = message => { worker.terminate(); settle(message); };
    const fail = why => { heard({ err: `train: ${why}\n` }); end({ status: 1, files: {} }); };
    worker.onmessage = ({ data }) => { heard(data); if ("status" in data) end(data); };
    worker.onerror = event => { event.preventDefault(); fail(event.message); };
    compiled.then(module => worker.postMessage({ module, args, files }), ({ message }) => fail(
      `this browser cannot run the program: ${message} (it needs WebAssembly with SIMD: Chrome 91, Firefox 89, Safari 16.4, or later)`));
    return { ended, stop: () => end({ status: null, files: null }) };
  }

  async function ask(args, files = {}) {
    const said = { out: "", err: "" };
    const { status } = await call(args, files, message => {
      for (const name of ["out", "err"]) said[name] += message[name] ?? "";
    }).ended;
    return { status, ...said };
  }

  async function printed(words) {
    const { status, out, err } = await ask(words);
    if (status) throw new Error(reasonIn(err));
    return out;
  }

  const formulasIn = text => Object.fromEntries([...text.replace(/\n {14}/g, " ").matchAll(/^(\S+) {2,}(.+)$/gm)].map(([, name, formula]) => [name, formula]));

  return { call, ask, formulas: () => listed ??= printed(["--list-norms"]).then(formulasIn),
           options: () => table ??= printed(["--help=json"]).then(text => JSON.parse(text).options) };
})();

// {norm: "bn", "bn-shards": 32} as words of a command line.
const argsOf = options => Object.entries(options).map(([name, value]) => `--${name}=${value}`);
const quoted = word => /^[\w.,:=\/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
// The one line that the program gives as the reason why it ended.
const reasonIn = text => text.trim().split("\n").filter(line => line.startsWith("train: ")).pop()?.slice(7) ?? "";
