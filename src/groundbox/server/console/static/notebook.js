// Runs as a Jupyter notebook (nbformat 4.5).

/** The text of a notebook. Where not all runs are Python, each is a cell of `%%sandbox`, as groundbox's extension has it. */
export function notebook(runs) {
  const isPython = runs.every(({language}) => language === "python");
  const cells = runs.map(({source, language, execution}, number) => cell(
    isPython ? source : `%%sandbox --language ${language}\n${source}`, execution, number + 1, execution?.execution_id,
  ));
  if (!isPython) cells.unshift(cell("%load_ext groundbox", null, null, "extension"));
  return JSON.stringify({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: {
      kernelspec: {name: "python3", display_name: "Python 3", language: "python"},
      language_info: {name: "python"},
    },
    cells,
  }, null, 1);
}

function cell(source, execution, number, id) {
  return {
    cell_type: "code",
    id: (id ?? crypto.randomUUID()).slice(0, 64),
    metadata: {},
    execution_count: execution ? number : null,
    source: lines(source),
    outputs: execution ? outputs(execution, number) : [],
  };
}

function outputs({stdout, stderr, displays, value, error}, number) {
  const told = [];
  if (stdout) told.push({output_type: "stream", name: "stdout", text: lines(stdout)});
  if (stderr) told.push({output_type: "stream", name: "stderr", text: lines(stderr)});
  for (const data of displays) told.push({output_type: "display_data", data, metadata: {}});
  if (value) told.push({output_type: "execute_result", execution_count: number, data: value, metadata: {}});
  if (error) {
    told.push({output_type: "error", ename: error.type, evalue: error.message, traceback: error.traceback.split("\n")});
  }
  return told;
}

function lines(text) {
  return text.split(/(?<=\n)/);
}
