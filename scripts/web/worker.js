/* Runs ./train once, in a worker. It is sent {module, args, files} and sends
     {out} and {err}: text as the program writes it
     {rows} and {samples}: what it appends to log.csv and to samples.txt of the folder /run
     {files}: those of /run, after each checkpoint
     {status, files}: at the end
   The program blocks its worker until it ends, so whoever wants it to stop ends the worker. */
"use strict";

const TABLES = { "/run/log.csv": "rows", "/run/samples.txt": "samples" };

onmessage = async ({ data: { module, args, files } }) => {
  const decoded = bytes => new TextDecoder().decode(bytes);
  let train;

  const stream = name => {
    let bytes = [];
    const send = () => { if (bytes.length) postMessage({ [name]: decoded(Uint8Array.from(bytes)) }); bytes = []; };
    return { send, put: byte => { bytes.push(byte & 255); if (byte === 10) send(); } };
  };
  const out = stream("out"), err = stream("err");

  function folder() {
    if (!train.FS.analyzePath("/run").exists) return {};
    const names = train.FS.readdir("/run").filter(name => !name.startsWith("."));
    return Object.fromEntries(names.map(name => [`/run/${name}`, train.FS.readFile(`/run/${name}`)]));
  }

  function watch({ FS }) {
    const { write, rename } = FS;
    FS.write = (stream, buffer, offset, length, ...rest) => {
      const table = TABLES[stream.path];
      if (table) postMessage({ [table]: decoded(buffer.slice(offset, offset + length)) });
      return write(stream, buffer, offset, length, ...rest);
    };
    FS.rename = (from, to) => {
      rename(from, to);
      if (to.endsWith("checkpoint.safetensors")) postMessage({ files: folder() });
    };
  }

  try {
    train = await new Promise((resolve, reject) => createTrain({
      stdin: () => null, stdout: out.put, stderr: err.put,
      instantiateWasm(imports, done) { WebAssembly.instantiate(module, imports).then(done, reject); return {}; },
    }).then(resolve, reject));
    for (const [path, bytes] of Object.entries(files)) {
      train.FS.mkdirTree(path.replace(/[^/]*$/, ""));
      train.FS.writeFile(path, bytes);
    }
    watch(train);
    const status = train.callMain(args);
    out.send();
    err.send();
    postMessage({ status, files: folder() });
  } catch (fault) { // the memory of a worker ends earlier than that of the machine
    const full = /memory|allocat/i.test(String(fault));
    postMessage({ err: full ? "train: the model needs more memory than a browser gives (choose smaller sizes)\n" : `train: ${fault}\n` });
    postMessage({ status: 1, files: {} });
  }
};
