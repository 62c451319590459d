// The console: sandboxes and files at the side, runs in the middle, the editor below.

import {ask, events, follow, pathOf, Refused} from "./api.js";
import {tellTheme} from "./bundles.js";
import {Cell, highlighted} from "./cells.js";
import {Curves, Samples} from "./curves.js";
import {notebook} from "./notebook.js";
import {openSteps} from "./steps.js";
import {Talk} from "./talk.js";
import {SandboxTerminal} from "./terminal.js";
import {duration, onOneLine, size} from "./text.js";
import {createEditor} from "./vendor/codemirror.js";

const POLL_MS = 2000;
const MOST_RESTORED = 30;
const QUESTION = "question"; // in place of a language
const EXAMPLES = {
  chart: ["python", `import numpy as np
import plotly.graph_objects as go

x = np.linspace(0, 10, 400)
fig = go.Figure()
for k in (1, 2, 3):
    fig.add_scatter(x=x, y=np.sin(k * x) * np.exp(-x / 6), name=f"k = {k}")
fig`],
  table: ["python", `import pandas as pd

cities = pd.DataFrame({
    "city": ["Oslo", "Lima", "Pune", "Kyoto", "Accra"],
    "people": [717_710, 10_092_000, 3_124_458, 1_463_723, 284_124],
    "height_m": [23, 154, 560, 50, 61],
})
cities`],
  picture: ["python", `import matplotlib.pyplot as plt
import numpy as np

values = np.random.default_rng(7).normal(size=(2, 500))
plt.figure(figsize=(6, 3.6))
plt.scatter(*values, s=14, alpha=0.6)
plt.title("500 points")
plt.show()`],
  sql: ["sql", `SELECT range AS n, range * range AS square, sqrt(range) AS root
FROM range(1, 25)`],
  diagram: ["dot", `digraph {
  rankdir = LR
  node [shape = box]
  program -> sandbox -> output
  sandbox -> files
}`],
  steps: ["python", `def collatz(n):
    path = [n]
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        path.append(n)
    return path

print(collatz(6))`],
};

const $ = (id) => document.getElementById(id);
const samples = new Samples();
const curves = new Curves($("curves"));
const cells = new Map(); // sandbox to its cells and conversations, or a promise of them
const running = new Map(); // sandbox to {cell, stop, asked, conversation}
const lost = new Set(); // sandboxes whose process has gone; the next run begins another one with the same files
let sandboxes = [];
let selected = null;

const editor = createEditor({
  parent: $("editor"),
  nonce: document.querySelector("meta[name=groundbox-nonce]").content,
  hint: "A program, or its next part",
  attributes: {"aria-label": "Program", spellcheck: "false"},
  keys: [
    {key: "Mod-Enter", run: () => (run(), true)},
    {key: "Shift-Enter", run: () => (run(), true)},
    {key: "Ctrl-.", run: () => (interrupt(), true)},
  ],
});
editor.speak("python");
editor.focus();

// Runs

async function run() {
  const source = editor.text;
  if (!source.trim()) return;
  if (running.has(selected)) {
    tell("A run goes on in this sandbox. Interrupt it, or wait.");
    return;
  }
  const language = $("language").value;
  const begun = {cell: null, stop: new AbortController(), asked: false};
  running.set(selected, begun);
  let id = selected;
  try {
    if (id === null) {
      id = (await makeSandbox({})).sandbox_id;
      running.delete(null);
      running.set(id, begun);
      await select(id);
    }
    await (language === QUESTION ? askAgent(id, source, begun) : runIn(id, source, language, begun));
  } catch (error) {
    if (begun.cell && !begun.ended) lost.add(id);
    const message = error.name === "AbortError" ? "Stopped. Variables are gone; files stay." : words(error);
    if (begun.cell) begun.cell.fail(message);
    else tell(message);
  } finally {
    running.delete(null);
    running.delete(id);
    drawState();
    await poll();
    if (id === selected) await drawFiles();
  }
}

async function runIn(id, source, language, begun) {
  const body = {code: source, language, restart: "auto"};
  if (language === "python" && $("trace").checked) body.trace = true;
  const list = await cells.get(id);
  begun.cell = new Cell(source, language, list.length + 1, actions);
  list.push(begun.cell);
  if (id === selected) show(begun.cell);
  begun.cell.begin();
  editor.text = "";
  drawState();
  for await (const event of events(pathOf("/v1/sandboxes", id, "run"), body, begun.stop.signal)) {
    begun.ended ||= event.kind === "end" || event.kind === "failed";
    begun.cell.take(event);
    if (event.kind === "end" && event.data.execution.state === "kept") lost.delete(id);
    else if (event.kind === "end" || event.kind === "failed") lost.add(id);
  }
  if (!begun.ended) begun.cell.fail("The connection ended before the result came.");
}

async function askAgent(id, question, begun) {
  const asked = await ask("POST", "/v1/conversations", {question, sandbox_id: id});
  editor.text = "";
  const talk = new Talk(question, asked.model, actions);
  (await cells.get(id)).push(talk);
  if (id === selected) show(talk);
  await followTalk(id, asked.conversation_id, talk, begun);
}

/** Show a conversation until its end. */
async function followTalk(id, conversation, talk, begun) {
  begun.cell = talk;
  begun.conversation = conversation;
  begun.ended = true; // the sandbox goes on, whatever becomes of the connection
  drawState();
  for await (const event of follow(pathOf("/v1/conversations", conversation, "events"), begun.stop.signal)) {
    await talk.take(event);
    if (event.kind === "observed" && id === selected) await drawFiles();
  }
  if (!talk.element.dataset.outcome) talk.fail("The connection ended; the conversation goes on. Load the page anew.");
}

/** Follow a conversation that goes on already. */
async function rejoined(id, conversation, talk) {
  const begun = {cell: talk, stop: new AbortController(), asked: false};
  running.set(id, begun);
  await tried(() => followTalk(id, conversation, talk, begun));
  running.delete(id);
  drawState();
}

async function interrupt() {
  const current = running.get(selected);
  if (!current?.cell) return;
  if (current.conversation) {
    current.asked = true;
    drawState();
    await tried(() => ask("POST", pathOf("/v1/conversations", current.conversation, "cancel")));
    return;
  }
  if (current.asked) {
    current.stop.abort();
    return;
  }
  current.asked = true;
  drawState();
  await tried(() => ask("POST", pathOf("/v1/sandboxes", selected, "interrupt")));
}

const actions = {
  edit(cell) {
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    editor.text = cell.source;
    speak(cell.language);
    editor.focus();
  },
  steps(cell) {
    return tried(() => openSteps(cell.execution, (element, line) => highlighted(element, line, cell.language)));
  },
};

function show(cell) {
  $("cells").append(cell.element);
  $("welcome").hidden = true;
  toEnd();
}

function toEnd() {
  followed = true;
  $("runs").scrollTo(0, $("runs").scrollHeight);
}

// Pictures and frames get their height late: the end stays in sight until somebody scrolls or opens something.
let followed = true;
new ResizeObserver(() => followed && $("runs").scrollTo(0, $("runs").scrollHeight)).observe($("cells"));
for (const kind of ["wheel", "keydown", "pointerdown"]) {
  $("runs").addEventListener(kind, () => (followed = false), {passive: true});
}

// The terminal, in place of the runs

let terminal = null;

function showTerminal(isShown) {
  terminal?.close();
  terminal = null;
  $("terminal").hidden = !isShown;
  $("open-terminal").setAttribute("aria-pressed", String(isShown));
  document.querySelector("main").classList.toggle("at-terminal", isShown);
  if (!isShown) return;
  terminal = new SandboxTerminal($("terminal"), selected, () => $("open-terminal").focus());
  tried(() => terminal.open());
}

$("open-terminal").addEventListener("click", () => {
  showTerminal(terminal === null);
  if (terminal === null) editor.focus();
});

// Sandboxes

async function makeSandbox(body) {
  const names = new Set(sandboxes.map(nameOf));
  let number = sandboxes.length + 1;
  while (names.has(`Sandbox ${number}`)) number += 1;
  const labels = {name: `Sandbox ${number}`, ...body.labels};
  const made = await ask("POST", "/v1/sandboxes", {...body, labels});
  cells.set(made.sandbox_id, []);
  sandboxes.push(made);
  return made;
}

async function select(id) {
  if (id !== selected) showTerminal(false);
  selected = id;
  followed = true;
  sessionStorage.setItem("groundbox.sandbox", id ?? "");
  if (id !== null && !cells.has(id)) cells.set(id, restored(id));
  drawSandboxes();
  drawState();
  const list = id === null ? [] : await cells.get(id);
  if (selected !== id) return;
  cells.set(id, list);
  $("cells").replaceChildren(...list.map((cell) => cell.element));
  drawState();
  toEnd();
  await drawFiles();
}

/** Cells of runs that the server still keeps. */
async function restored(id) {
  const [talks, told] = await Promise.all([
    conversed(id), tried(() => ask("GET", `/v1/executions?sandbox=${id}&limit=${MOST_RESTORED}`)),
  ]);
  const of = new Set(talks.flatMap(({runs}) => runs));
  const past = (told?.executions ?? []).filter(({execution_id: run}) => !of.has(run)).reverse();
  const found = await Promise.all(past.map(({execution_id: run}) => tried(() => ask("GET", pathOf("/v1/executions", run)))));
  const list = found.filter(Boolean).map((execution, number) => {
    const cell = new Cell(execution.source, execution.language, number + 1, actions);
    cell.end(execution);
    return [execution.ended, cell];
  });
  return [...list, ...talks.map(({begun, talk}) => [begun, talk])].sort(([left], [right]) => left - right).map(([, item]) => item);
}

/** Conversations of a sandbox that the server still keeps, and the runs of theirs. One that goes on is followed. */
async function conversed(id) {
  const list = await tried(() => ask("GET", `/v1/conversations?sandbox=${id}`));
  const found = await Promise.all((list?.conversations ?? []).map(async ({conversation_id: conversation}) => {
    const told = await tried(() => ask("GET", pathOf("/v1/conversations", conversation)));
    if (!told) return null;
    const talk = new Talk(told.question, told.model, actions);
    if (!told.over) rejoined(id, conversation, talk);
    else for (const line of told.events) await talk.take({kind: line.event, data: line});
    return {begun: told.begun, talk, runs: told.events.flatMap(({receipt}) => receipt?.execution_id ?? [])};
  }));
  return found.filter(Boolean);
}

function nameOf({labels, sandbox_id: id}) {
  return labels.name ? onOneLine(labels.name, 60) : id.slice(0, 8);
}

async function poll() {
  if (document.visibilityState !== "visible") return;
  try {
    const told = (await ask("GET", "/v1/sandboxes")).sandboxes;
    const known = new Set(told.map(({sandbox_id: id}) => id));
    sandboxes = told;
    samples.take(told);
    if (selected !== null && !known.has(selected) && !running.has(selected)) {
      tell("The sandbox was closed.");
      await select(null);
    }
    drawSandboxes();
    drawState();
  } catch (error) {
    if (!(error instanceof Refused)) tell("The server does not answer.");
    else tell(error.message);
  }
}

function drawSandboxes() {
  const list = $("sandboxes");
  const there = new Map([...list.children].map((item) => [item.dataset.id, item]));
  for (const sandbox of sandboxes) {
    const id = sandbox.sandbox_id;
    let item = there.get(id);
    there.delete(id);
    if (!item) {
      item = document.createElement("li");
      item.dataset.id = id;
      const button = document.createElement("button");
      button.className = "plain";
      button.append(...["name", "figures"].map((name) => {
        const span = document.createElement("span");
        span.className = name;
        return span;
      }));
      button.addEventListener("click", () => {
        showSide(false);
        select(id);
      });
      item.append(button);
      list.append(item);
    }
    const button = item.firstElementChild;
    const isBusy = sandbox.busy || running.has(id);
    const last = samples.of(id).at(-1);
    const figures = running.has(id) ? ["running"] : isBusy ? ["in use"] : [];
    if (isBusy && last) figures.push(`${Math.round(last.cpu)} %`);
    if (sandbox.load) figures.push(size(sandbox.load.memory_bytes));
    button.classList.toggle("busy", isBusy);
    button.querySelector(".name").textContent = nameOf(sandbox);
    button.querySelector(".figures").textContent = figures.join(" · ");
    if (id === selected) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  for (const item of there.values()) item.remove();
  $("no-sandboxes").hidden = sandboxes.length > 0;
}

function drawState() {
  const sandbox = sandboxes.find(({sandbox_id: id}) => id === selected);
  const current = running.get(selected);
  const isRunning = running.has(selected);
  $("name").textContent = sandbox ? nameOf(sandbox) : "New sandbox";
  $("state").textContent = isRunning ? (current.asked ? "interrupting" : "running") : "";
  $("run").disabled = isRunning;
  $("run").firstChild.data = $("language").value === QUESTION ? "Ask " : "Run ";
  $("interrupt").disabled = !current?.cell || Boolean(current.conversation && current.asked);
  const isTalk = Boolean(current?.conversation);
  $("interrupt").textContent = current?.asked || isTalk ? "Stop" : "Interrupt";
  const ends = isTalk ? "End the conversation; the sandbox stays" : "End the process; variables go, files stay";
  $("interrupt").title = current?.asked || isTalk ? ends : "Like Ctrl-C; variables stay";
  $("save-notebook").hidden = !sandbox || $("cells").childElementCount === 0;
  $("welcome").hidden = $("cells").childElementCount > 0;
  $("open-terminal").hidden = !sandbox;
  $("use").hidden = $("files-section").hidden = !sandbox;
  if (!sandbox) return;
  const list = samples.of(selected);
  const last = list.at(-1);
  $("use-cpu").textContent = sandbox.load ? `${Math.round(last?.cpu ?? 0)} % of one` : "–";
  $("use-memory").textContent = sandbox.load ? `${size(sandbox.load.memory_bytes)} of ${size(sandbox.limits.memory_bytes)}` : "–";
  $("use-processes").textContent = sandbox.load ? String(sandbox.load.process_count) : "–";
  $("use-closes").textContent = duration(sandbox.closes_in_s);
  $("use-network").textContent = sandbox.network.allow.map((host) => onOneLine(host, 80)).join(", ") || "none";
  curves.draw(list);
}

$("restart").addEventListener("click", async () => {
  const id = selected;
  const told = await tried(() => ask("POST", pathOf("/v1/sandboxes", id, "restart")));
  if (told) {
    lost.delete(id);
    tell("Restarted. Variables are gone; files stay.");
  }
  await poll();
  await drawFiles();
});

$("close").addEventListener("click", async () => {
  const id = selected;
  if (!confirm("Close this sandbox? Its files and variables go.")) return;
  running.get(id)?.stop.abort();
  await tried(() => ask("DELETE", pathOf("/v1/sandboxes", id)));
  sandboxes = sandboxes.filter(({sandbox_id: each}) => each !== id);
  cells.delete(id);
  await select(sandboxes.at(-1)?.sandbox_id ?? null);
  editor.focus();
});

const making = $("making");
$("new").addEventListener("click", async () => {
  const {environments = [], default: usual} = (await tried(() => ask("GET", "/v1/environments"))) ?? {};
  $("make-environment").replaceChildren(...environments.map(({name, python, packages}) => {
    const option = new Option(`${name}: Python ${python}, ${Object.keys(packages).length} packages`, name);
    option.selected = name === usual;
    return option;
  }));
  making.querySelector(".problem").textContent = "";
  making.returnValue = "";
  making.showModal();
});
making.querySelector("form").addEventListener("submit", async (event) => {
  if (event.submitter?.value !== "make") return;
  event.preventDefault();
  const wallS = Number($("make-wall").value);
  const allow = $("make-hosts").value.split(/\s+/).filter(Boolean);
  const body = {
    environment: $("make-environment").value,
    limits: {memory_bytes: Number($("make-memory").value) * 2 ** 20, wall_s: wallS, cpu_s: Math.max(wallS, 30)},
    ...(allow.length && {network: {allow}}),
    ...($("make-name").value.trim() && {labels: {name: $("make-name").value.trim()}}),
  };
  try {
    const made = await makeSandbox(body);
    making.close();
    await select(made.sandbox_id);
    editor.focus();
  } catch (error) {
    making.querySelector(".problem").textContent = words(error);
  }
});

// Files

async function drawFiles() {
  const id = selected;
  $("drop").textContent = lost.has(id) ? "Files are there again with the next run" : "Drop files here";
  const answer = id === null || lost.has(id) ? null : await tried(() => ask("GET", pathOf("/v1/sandboxes", id, "files")));
  if (id !== selected) return;
  const entries = Object.entries(answer?.files ?? {}).sort(([left], [right]) => left.localeCompare(right, "en"));
  $("files").replaceChildren(...entries.map(([path, bytes]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = pathOf("/v1/sandboxes", id, "files", path);
    link.download = path.split("/").at(-1);
    link.textContent = onOneLine(path, 200);
    const figure = document.createElement("span");
    figure.className = "quiet";
    figure.textContent = size(bytes);
    const button = document.createElement("button");
    button.className = "plain";
    button.textContent = "×";
    button.setAttribute("aria-label", `Delete ${onOneLine(path, 200)}`);
    button.addEventListener("click", async () => {
      if (!confirm(`Delete ${onOneLine(path, 200)}?`)) return;
      await tried(() => ask("DELETE", link.href));
      await drawFiles();
    });
    item.append(link, figure, button);
    return item;
  }));
}

async function addFiles(files) {
  if (selected === null) await select((await makeSandbox({})).sandbox_id);
  for (const file of files) {
    tell(`Adding ${onOneLine(file.name, 80)}…`);
    const done = await tried(async () => {
      await ask("PUT", pathOf("/v1/sandboxes", selected, "files", file.name), file);
      return true;
    });
    if (done) tell(`${onOneLine(file.name, 80)} is in the sandbox.`);
  }
  await drawFiles();
}

$("add-files").addEventListener("click", () => $("chosen-files").click());
$("chosen-files").addEventListener("change", ({target}) => {
  addFiles([...target.files]);
  target.value = "";
});
addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dropping");
});
addEventListener("drop", (event) => {
  document.body.classList.remove("dropping");
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  addFiles([...event.dataTransfer.files]);
});

// History

$("open-history").addEventListener("click", async () => {
  const {executions = []} = (await tried(() => ask("GET", "/v1/executions?limit=200"))) ?? {};
  $("past").replaceChildren(...executions.map((past) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.className = "plain";
    button.dataset.outcome = past.outcome;
    const head = document.createElement("code");
    head.textContent = onOneLine(past.source_head.trim() || "(empty)", 80);
    const facts = document.createElement("span");
    facts.className = "quiet";
    const when = new Date(past.ended * 1000).toLocaleTimeString("en", {hour: "2-digit", minute: "2-digit", hour12: false});
    facts.textContent = [when, past.language, past.outcome, duration(past.wall_s)].join(" · ");
    button.append(head, facts);
    button.addEventListener("click", async () => {
      const execution = await tried(() => ask("GET", pathOf("/v1/executions", past.execution_id)));
      if (!execution) return;
      for (const each of $("past").querySelectorAll("[aria-current]")) each.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      const list = document.createElement("ol");
      const cell = new Cell(execution.source, execution.language, "", actions);
      cell.end(execution);
      list.append(cell.element);
      $("past-run").replaceChildren(list);
    });
    item.append(button);
    return item;
  }));
  $("history").querySelector(".list p").hidden = executions.length > 0;
  const note = document.createElement("p");
  note.className = "quiet";
  note.textContent = "Choose a run.";
  $("past-run").replaceChildren(note);
  $("history").showModal();
});

for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => { // beside it
    if (event.target === dialog) dialog.close();
  });
}

// The rest of the page

$("run").addEventListener("click", () => {
  run();
  editor.focus();
});
$("interrupt").addEventListener("click", interrupt);
$("language").addEventListener("change", ({target}) => speak(target.value));

function speak(language) {
  $("language").value = language;
  $("trace").disabled = language !== "python";
  editor.speak(language);
  drawState();
}

for (const button of document.querySelectorAll("[data-example]")) {
  button.addEventListener("click", () => {
    const [language, source] = EXAMPLES[button.dataset.example];
    speak(language);
    $("trace").checked = button.dataset.example === "steps";
    editor.text = source;
    editor.focus();
  });
}

$("save-notebook").addEventListener("click", async () => {
  const text = notebook((await cells.get(selected)).flatMap((item) => item.runs ?? [item]));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: "application/x-ipynb+json"}));
  link.download = `${$("name").textContent.replace(/[^\w.-]+/g, "-").toLowerCase()}.ipynb`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
});

const THEMES = {auto: ["Auto", "as the system"], light: ["Light", "light"], dark: ["Dark", "dark"]};
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function drawTheme() {
  const chosen = localStorage.getItem("groundbox.theme") ?? "auto";
  const [label, spoken] = THEMES[chosen] ?? THEMES.auto;
  document.documentElement.dataset.theme = chosen === "auto" ? (darkSystem.matches ? "dark" : "light") : chosen;
  $("theme").textContent = label;
  $("theme").setAttribute("aria-label", `Theme: ${spoken}`);
  tellTheme();
  drawState();
}

$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const at = names.indexOf(localStorage.getItem("groundbox.theme") ?? "auto");
  localStorage.setItem("groundbox.theme", names[(at + 1) % names.length]);
  drawTheme();
});
darkSystem.addEventListener("change", drawTheme);

function showSide(isShown) {
  document.body.classList.toggle("side", isShown);
  $("menu").setAttribute("aria-expanded", String(isShown));
  if (isShown) drawState();
}
$("menu").addEventListener("click", () => showSide(!document.body.classList.contains("side")));
document.querySelector("main").addEventListener("pointerdown", () => showSide(false));
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.body.classList.contains("side")) {
    showSide(false);
    $("menu").focus();
  }
});

let toldUntil;
function tell(message) {
  $("told").textContent = message;
  clearTimeout(toldUntil);
  toldUntil = setTimeout(() => ($("told").textContent = ""), 5000);
}

function words(error) {
  return error instanceof Refused ? error.message : `The server does not answer: ${error.message}`;
}

/** The result, or undefined after the page has told why there is none. */
async function tried(work) {
  try {
    return await work();
  } catch (error) {
    tell(words(error));
    return undefined;
  }
}

drawTheme();
const {languages = []} = (await tried(() => ask("GET", "/v1/languages"))) ?? {};
for (const option of $("language").options) {
  const known = languages.find(({name}) => name === option.value);
  option.disabled = known ? !known.available : false;
}
const {model = null} = (await tried(() => ask("GET", "/v1/conversations"))) ?? {};
$("language").querySelector(`[value=${QUESTION}]`).hidden = model === null;
$("language").querySelector(`[value=${QUESTION}]`).disabled = model === null;
await poll();
const former = sessionStorage.getItem("groundbox.sandbox");
const first = sandboxes.find(({sandbox_id: id}) => id === former) ?? sandboxes.at(-1);
if (first && selected === null && !running.has(null)) await select(first.sandbox_id);
document.documentElement.dataset.ready = "";
setInterval(poll, POLL_MS);
