// Steps through the trace of a run (docs/trace.md): the line that is about to run, the variables, what was printed.

import {askText, pathOf} from "./api.js";
import {count, onOneLine, visible} from "./text.js";

const MOST_VALUE_CHARS = 200;
const DEEPEST = 3;
const MOST_OUTPUT_CHARS = 20_000;

const dialog = document.getElementById("steps");
const slider = document.getElementById("step-at");
let walk;

/** Open the steps of an execution. `highlighted` fills an element with a line of source. */
export async function openSteps(execution, highlighted) {
  const records = (await askText(pathOf("/v1/executions", execution.execution_id, "trace"))).trim().split("\n");
  const [header, ...rest] = records.map((line) => JSON.parse(line));
  walk = new Walk(rest);
  document.getElementById("steps-told").textContent = [
    count(walk.stops.length, "step"),
    header.folded ? "repeated lines are left out" : "",
    header.complete ? "" : `not complete: ${onOneLine(header.reasons.join("; "), 200)}`,
  ].filter(Boolean).join(", ");
  const lines = visible(header.source).split("\n").map((line) => {
    const item = document.createElement("li");
    const code = document.createElement("code");
    highlighted(code, line);
    item.append(code);
    return item;
  });
  dialog.querySelector("#step-source ol").replaceChildren(...lines);
  slider.max = String(walk.stops.length);
  slider.value = "0";
  dialog.showModal();
  slider.focus();
  draw();
}

slider.addEventListener("input", draw);
for (const [id, change] of [
  ["step-first", () => 0], ["step-back", (at) => at - 1], ["step-on", (at) => at + 1], ["step-last", () => Infinity],
]) {
  document.getElementById(id).addEventListener("click", () => move(change(Number(slider.value))));
}
dialog.addEventListener("keydown", (event) => {
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (by === undefined || event.target === slider || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  move(Number(slider.value) + by);
});

function move(at) {
  slider.value = String(Math.min(Math.max(at, 0), Number(slider.max)));
  draw();
}

function draw() {
  const at = Number(slider.value);
  const state = walk.at(at);
  const last = walk.stops.length;
  document.getElementById("step-number").textContent = at === last ? "end" : `${at + 1} of ${last}`;
  document.getElementById("step-first").disabled = document.getElementById("step-back").disabled = at === 0;
  document.getElementById("step-on").disabled = document.getElementById("step-last").disabled = at === last;
  slider.setAttribute("aria-valuetext", at === last ? "end" : `step ${at + 1} of ${last}, line ${state.line}`);

  const items = dialog.querySelectorAll("#step-source li");
  items.forEach((item, number) => {
    if (number + 1 === state.line && at !== last) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
  items[state.line - 1]?.scrollIntoView({block: "nearest"});

  const names = state.stack.map((frame) => frame.name).reverse();
  const where = at === last ? "The run has ended" : `About to run line ${state.line}`;
  document.getElementById("step-stack").textContent = names.length > 1 ? `${where}, in ${names.join(" ← ")}` : where;
  const top = state.stack.at(-1) ?? state.frames.get(1);
  const module = state.frames.get(1);
  const tables = [];
  if (top && top !== module) tables.push(variables(`Variables of ${top.name}`, top, state));
  if (module) tables.push(variables(top === module ? "Variables" : "Variables of the program", module, state));
  document.getElementById("step-variables").replaceChildren(...tables);
  document.getElementById("step-output").textContent = visible(state.output) || "nothing";
}

function variables(title, frame, state) {
  const table = document.createElement("table");
  const caption = table.createCaption();
  caption.textContent = title;
  const body = table.createTBody();
  for (const [name, value] of frame.variables) {
    if (name === "_") continue;
    const row = body.insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = visible(name);
    row.append(head);
    row.insertCell().textContent = onOneLine(written(value, state.objects, 0), MOST_VALUE_CHARS);
    if (state.changed.has(`${frame.number} ${name}`) || state.changed.has(value?.ref)) {
      row.className = "changed";
      head.title = "changed by the last step";
    }
  }
  if (!body.rows.length) {
    const row = body.insertRow();
    const cell = row.insertCell();
    cell.className = "quiet";
    cell.textContent = "none yet";
  }
  return table;
}

/** The records of a run and where it can be stopped: before each line, and at the end. */
class Walk {
  constructor(records) {
    this.records = records;
    this.stops = records.flatMap((record, number) => (record.k === "line" ? [number] : []));
    this.state = null;
  }

  /** The state before the step of this number; that of all steps is the end. */
  at(step) {
    if (this.state === null || this.step > step) {
      this.state = new State();
      this.step = -1;
    }
    while (this.step < step) {
      this.step += 1;
      this.state.changed = new Set();
      const from = this.step === 0 ? 0 : this.stops[this.step - 1] + 1;
      const to = this.stops[this.step] ?? this.records.length - 1;
      for (let number = from; number <= to; number += 1) this.state.take(this.records[number]);
    }
    return this.state;
  }
}

class State {
  constructor() {
    this.frames = new Map();
    this.stack = [];
    this.objects = new Map();
    this.changed = new Set();
    this.output = "";
    this.line = 0;
  }

  take(record) {
    const frame = this.frames.get(record.f);
    switch (record.k) {
      case "call":
        this.frames.set(record.f, {
          number: record.f, name: visible(record.name === "<module>" ? "the program" : record.name), parent: record.p,
          variables: new Map(Object.entries(record.args ?? {})),
        });
        this.stack.push(this.frames.get(record.f));
        break;
      case "line":
        this.line = record.n;
        break;
      case "set": {
        const owner = this.#owner(frame, record);
        owner?.variables.set(record.name, record.v);
        this.changed.add(`${owner?.number} ${record.name}`);
        break;
      }
      case "del":
        frame?.variables.delete(record.name);
        break;
      case "object":
        this.objects.set(record.id, structuredClone(record));
        break;
      case "mutate":
        mutate(this.objects.get(record.id), record);
        this.changed.add(record.id);
        break;
      case "return": case "unwind": case "yield":
        this.stack = this.stack.filter((each) => each !== frame);
        break;
      case "resume":
        if (frame) this.stack.push(frame);
        break;
      case "out":
        this.output = (this.output + record.text + (record.elided ? `… ${record.elided} more …` : "") + (record.tail ?? ""))
          .slice(-MOST_OUTPUT_CHARS);
        break;
    }
  }

  #owner(frame, record) {
    if (record.scope === "global") return this.frames.get(1);
    if (record.scope !== "nonlocal") return frame;
    let owner = this.frames.get(frame?.parent);
    while (owner && !owner.variables.has(record.name)) owner = this.frames.get(owner.parent);
    return owner ?? frame;
  }
}

function mutate(object, {op, at, start, removed, items, pairs, attrs}) {
  if (!object) return;
  const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);
  if (op === "set" && object.items) for (const [index, value] of at) object.items[index] = value;
  else if (op === "set" && object.pairs) {
    for (const [key, value] of at) {
      const pair = object.pairs.find(([each]) => same(each, key));
      if (pair) pair[1] = value;
      else object.pairs.push([key, value]);
    }
  } else if (op === "set") for (const [name, value] of at) (object.attrs ??= {})[name] = value;
  else if (op === "splice") object.items.splice(start, removed, ...items);
  else if (op === "remove" && object.pairs) object.pairs = object.pairs.filter(([key]) => !at.some((each) => same(each, key)));
  else if (op === "remove") for (const name of at) delete object.attrs?.[name];
  else if (op === "add") object.items.push(...items);
  else if (op === "discard") object.items = object.items.filter((each) => !items.some((gone) => same(gone, each)));
  else if (op === "replace") Object.assign(object, items && {items}, pairs && {pairs}, attrs && {attrs});
}

/** A value as Python would write it, to some depth. */
function written(value, objects, depth) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return String(value);
  const inner = (each) => (depth >= DEEPEST ? "…" : written(each, objects, depth + 1));
  const more = value.elided ? `, … ${value.elided} more` : "";
  if ("ref" in value) {
    const object = objects.get(value.ref);
    return object ? ofObject(object, inner) : "…";
  }
  if ("tuple" in value) {
    const items = value.tuple.map(inner);
    return `(${items.join(", ")}${items.length === 1 && !more ? "," : ""}${more})`;
  }
  if ("frozenset" in value) return `frozenset({${value.frozenset.map(inner).join(", ")}${more}})`;
  if ("range" in value) return `range(${value.range.join(", ")})`;
  if ("int" in value) return typeof value.int === "string" ? value.int : `an integer of ${value.int.bits} bits`;
  if ("float" in value) return value.float;
  if ("complex" in value) return `complex(${value.complex.join(", ")})`;
  if ("str" in value) return `${JSON.stringify(value.str.head).slice(0, -1)}… (${value.str.len} characters)`;
  if ("bytes" in value) return `bytes of ${value.bytes.len}`;
  if ("repr" in value) return value.repr;
  if ("method" in value) return `method ${value.method}`;
  for (const kind of ["function", "builtin", "class", "module"]) if (kind in value) return `${kind} ${value[kind]}`;
  return "opaque" in value ? `<${value.opaque}>` : JSON.stringify(value);
}

function ofObject(object, inner) {
  const more = object.elided ? `, … ${object.elided} more` : "";
  const items = (object.items ?? []).map(inner).join(", ") + more;
  const name = object.class ?? "";
  switch (object.type) {
    case "list":
      return `${name}[${items}]`;
    case "set":
      return object.items?.length ? `${name}{${items}}` : "set()";
    case "deque":
      return `deque([${items}])`;
    case "array":
      return `${name} ${object.dtype} ${JSON.stringify(object.shape)} [${items}]`;
    case "bytearray":
      return `bytearray of ${object.len}`;
    case "dict":
      return `${name}{${(object.pairs ?? []).map(([key, each]) => `${inner(key)}: ${inner(each)}`).join(", ")}${more}}`;
    case "class":
      return `class ${name}`;
    default:
      return `${name}(${Object.entries(object.attrs ?? {}).map(([key, each]) => `${key}=${inner(each)}`).join(", ")}${more})`;
  }
}
