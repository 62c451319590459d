// One run as it is shown: its program, what it printed and showed, how it ended, and its receipt.

import {askBlob, pathOf} from "./api.js";
import {pictureOf, shown} from "./bundles.js";
import {count, duration, onOneLine, Printed, size, visible} from "./text.js";
import {highlight} from "./vendor/codemirror.js";

const OUTCOMES = {
  ok: "Done", error: "Failed", timeout: "Out of time", memory: "Out of memory", signal: "Ended by a signal",
  cancelled: "Stopped",
};
const GRAPH = "application/vnd.groundbox.graph+json"; // besides its picture
const MOST_PICTURE_BYTES = 4 * 1024 * 1024;
const MOST_HIGHLIGHTED_CHARS = 50_000;

/** Fill an element with a source, coloured. */
export function highlighted(element, source, language) {
  const text = visible(source);
  const pieces = text.length > MOST_HIGHLIGHTED_CHARS ? [[text, ""]] : highlight(text, language);
  element.replaceChildren(...pieces.map(([piece, classes]) => {
    if (!classes) return document.createTextNode(piece);
    const span = document.createElement("span");
    span.className = classes;
    span.textContent = piece;
    return span;
  }));
}

/** A run. `actions` has `edit(cell)` and `steps(cell)`. */
export class Cell {
  constructor(source, language, number, actions) {
    Object.assign(this, {source, language, actions, execution: null, showed: 0});
    this.element = make("li", "cell");
    const head = make("div", "cell-head");
    head.append(make("span", "number", number ? `${number}` : ""), make("span", "language", language));
    this.head = head;
    const pre = make("pre", "source");
    pre.tabIndex = 0;
    pre.setAttribute("role", "group");
    pre.setAttribute("aria-label", `Program ${number}`);
    const code = make("code");
    highlighted(code, source, language);
    pre.append(code);
    this.output = make("div", "output");
    this.footer = make("div", "footer");
    this.element.append(head, pre, this.output, this.footer);
    this.#button("Edit", "Put the program into the editor", () => actions.edit(this));
  }

  /** Show that it goes on. */
  begin() {
    this.element.classList.add("running");
    this.footer.replaceChildren(make("span", "quiet", "Running…"));
  }

  /** One event of its stream. */
  take({kind, data}) {
    if (kind === "stdout" || kind === "stderr") this.#print(kind, data.text);
    else if (kind === "display") this.#show(data.display);
    else if (kind === "end") this.end(data.execution);
    else if (kind === "failed") this.fail(data.error?.message ?? data.message);
  }

  /** Show how it ended; what was shown meanwhile is not shown again. */
  end(execution) {
    this.execution = execution;
    if (!this.showed && !this.printed) {
      if (execution.stdout) this.#print("stdout", execution.stdout);
      if (execution.stderr) this.#print("stderr", execution.stderr);
    }
    this.printed?.flush();
    for (const display of execution.displays.slice(this.showed)) this.#show(display);
    if (execution.value && GRAPH in execution.value && execution.displays.length) {
      const details = make("details");
      details.append(make("summary", "", "As text"), shown(execution.value));
      this.output.append(details);
    } else if (execution.value) this.#show(execution.value, "value");
    if (execution.error) this.output.append(failure(execution.error));
    for (const warning of execution.warnings) this.output.append(told(warning));
    this.output.append(...dropped(execution));
    this.#artifacts(execution);
    this.element.classList.remove("running");
    this.element.dataset.outcome = execution.outcome;
    const {usage} = execution;
    const facts = [duration(usage.wall_s)];
    if (usage.peak_memory_bytes !== null) facts.push(size(usage.peak_memory_bytes));
    const outcome = make("span", "outcome", OUTCOMES[execution.outcome] ?? onOneLine(execution.outcome, 40));
    this.footer.replaceChildren(outcome, make("span", "quiet", facts.join(" · ")), receipt(execution));
    if (execution.trace) this.#button("Steps", "Step through the run", () => this.actions.steps(this));
  }

  /** It was not run, or nobody knows how it ended. */
  fail(message) {
    this.printed?.flush();
    this.element.classList.remove("running");
    this.element.dataset.outcome = "refused";
    this.footer.replaceChildren(make("span", "outcome", "No result"), make("span", "", onOneLine(String(message), 500)));
  }

  #print(stream, text) {
    if (!this.printed || this.printed.pre !== this.output.lastElementChild) {
      const pre = make("pre", "printed");
      pre.tabIndex = 0;
      pre.setAttribute("role", "group");
      pre.setAttribute("aria-label", "Output");
      this.printed?.flush();
      this.printed = new Printed(pre, (characters) => {
        pre.dataset.cut = `${count(characters, "character")} before this are not shown`;
      });
      this.output.append(pre);
    }
    this.printed.add(stream, text);
  }

  #show(bundle, kind = "display") {
    this.printed?.flush();
    if (kind === "display") this.showed += 1;
    const holder = make("div", kind);
    holder.append(shown(bundle));
    this.output.append(holder);
  }

  #button(label, title, act) {
    const button = make("button", "plain", label);
    button.title = title;
    button.addEventListener("click", act);
    this.head.append(button);
  }

  #artifacts(execution) {
    if (!execution.artifacts.length) return;
    const list = make("ul", "artifacts");
    for (const {path, size_bytes, media_type} of execution.artifacts) {
      const from = pathOf("/v1/executions", execution.execution_id, "artifacts", path);
      const item = make("li");
      const link = make("a", "", onOneLine(path, 200));
      link.href = from;
      link.download = path.split("/").at(-1);
      item.append(link, make("span", "quiet", size(size_bytes)));
      list.append(item);
      if (/^image\/(png|jpeg|gif|webp|svg\+xml)$/.test(media_type) && size_bytes <= MOST_PICTURE_BYTES) {
        askBlob(from, media_type).then((blob) => item.append(pictureOf(blob, path)), () => {});
      }
    }
    this.output.append(list);
  }
}

function failure(error) {
  const box = make("div", "failure");
  const line = make("p");
  line.append(make("strong", "", onOneLine(error.type, 100)));
  const where = error.line === null ? "" : ` (line ${error.line})`;
  line.append(`${error.message ? ": " : ""}${visible(error.message)}${where}`);
  box.append(line);
  const locals = Object.entries(error.locals ?? {});
  if (locals.length) {
    const list = make("dl", "locals");
    for (const [name, value] of locals) {
      const pair = make("div");
      pair.append(make("dt", "", visible(name)), make("dd", "", onOneLine(value, 300)));
      list.append(pair);
    }
    box.append(list);
  }
  for (const hint of error.hints ?? []) box.append(hinted(hint));
  if (error.traceback) {
    const details = make("details");
    const pre = make("pre", "", visible(error.traceback));
    pre.tabIndex = 0;
    details.append(make("summary", "", "Traceback"), pre);
    box.append(details);
  }
  return box;
}

/** A sentence in which what stands between backticks is code. */
function hinted(sentence) {
  const line = make("p", "hint");
  line.append(...visible(sentence).split(/`([^`]+)`/).map((part, number) => (number % 2 ? make("code", "", part) : part)));
  return line;
}

/** A warning. */
export function told(warning) {
  const box = make("div", `warning ${warning.tier === "error" ? "grave" : ""}`);
  const line = make("p");
  line.append(make("code", "", onOneLine(warning.code, 80)), ` ${visible(warning.message)}`);
  box.append(line);
  if (warning.hint) box.append(hinted(warning.hint));
  if (Object.keys(warning.evidence ?? {}).length) {
    const details = make("details");
    const pre = make("pre", "", visible(JSON.stringify(warning.evidence, null, 2)));
    pre.tabIndex = 0;
    details.append(make("summary", "", "Evidence"), pre);
    box.append(details);
  }
  return box;
}

function dropped(execution) {
  const {stdout, stderr, displays, artifacts} = execution.dropped_bytes;
  const notes = [];
  for (const [stream, bytes] of [["stdout", stdout], ["stderr", stderr]]) {
    if (!bytes) continue;
    const note = make("p", "quiet", `${size(bytes)} of ${stream} are left out of the result. `);
    const link = make("a", "", "Download the beginning");
    link.href = `${pathOf("/v1/executions", execution.execution_id, "output", stream)}?size=${16 * 1024 * 1024}`;
    link.download = `${stream}.txt`;
    note.append(link);
    notes.push(note);
  }
  if (displays) notes.push(make("p", "quiet", `${count(displays, "display")} over the limit left out.`));
  if (artifacts) notes.push(make("p", "quiet", `${count(artifacts, "file")} over the limit left out.`));
  return notes;
}

function receipt(execution) {
  const {usage, isolation} = execution;
  const details = make("details", "receipt");
  details.append(make("summary", "", "Receipt"));
  const facts = [
    ["Run", execution.execution_id],
    ["Outcome", execution.outcome],
    ["Told by", execution.trust === "kernel" ? "the kernel" : "the guest's process"],
    ["Exit", execution.exit_signal !== null ? `signal ${execution.exit_signal}` : String(execution.exit_code)],
    ["Wall time", duration(usage.wall_s)],
    ["Processor time", usage.cpu_s === null ? "not counted" : duration(usage.cpu_s)],
    ["Peak memory", usage.peak_memory_bytes === null ? "not counted" : size(usage.peak_memory_bytes)],
    ["Wait for a turn", usage.queue_s === undefined ? "not kept" : duration(usage.queue_s)],
    ["Start of the sandbox", duration(usage.start_s)],
    ["Sandbox", {kept: "kept", lost: "lost, with its variables", ended: "ended"}[execution.state] ?? execution.state],
    ["Walls", `${isolation.backend}: ${isolation.layers.join(", ")}`],
    ["Missing walls", isolation.missing.join(", ") || "none"],
  ];
  if (execution.tool_calls) facts.push(["Tool calls", String(execution.tool_calls.total)]);
  if (execution.trace) facts.push(["Trace", execution.trace.complete ? "complete" : execution.trace.reasons.join("; ")]);
  const list = make("dl");
  for (const [name, value] of facts) {
    const pair = make("div");
    pair.append(make("dt", "", name), make("dd", "", onOneLine(value, 600)));
    list.append(pair);
  }
  details.append(list);
  return details;
}

/** An element. */
export function make(name, classes = "", text = "") {
  const element = document.createElement(name);
  if (classes) element.className = classes.trim();
  if (text) element.textContent = text;
  return element;
}
