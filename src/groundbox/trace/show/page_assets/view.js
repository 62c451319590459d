// The page: where the reader is, and what is shown there.
const data = JSON.parse(document.getElementById("trace").textContent);
const get = (id) => document.getElementById(id);
const player = new Player(data.records);
const MOST_OUTPUT = 20000, MOST_FRAMES = 12, MOST_VALUE = 400;

const view = { stops: [], index: 0, folded: new Set(data.spans.map((_, number) => number)), position: null };

// Stops that are not folded away. A folded span is one stop, before the iterations that it hides.
function findStops() {
  const folding = get("fold").checked;
  const spans = folding ? data.spans.map((span, number) => ({ span, number })).filter(({ number }) => view.folded.has(number)) : [];
  spans.sort((a, b) => a.span[0] - b.span[0] || b.span[1] - a.span[1]);
  const outer = [];
  for (const each of spans) if (!outer.length || each.span[0] > outer[outer.length - 1].span[1]) outer.push(each);
  const stops = [];
  let at = 0;
  for (const [t, frame, line, kind] of data.positions) {
    while (at < outer.length && t > outer[at].span[1]) { stops.push(gapStop(outer[at])); at += 1; }
    if (at < outer.length && t >= outer[at].span[0]) continue;
    stops.push({ t, frame, line, kind });
  }
  while (at < outer.length) { stops.push(gapStop(outer[at])); at += 1; }
  view.stops = stops;
  noteOrigins();
}

// Where the line that led to a stop began: the stop before, or, after a call, the line of this frame that made it.
function noteOrigins() {
  const last = new Map();
  let before = null;
  for (const stop of view.stops) {
    stop.origin = before && before.frame !== stop.frame && before.kind !== "gap" ? last.get(stop.frame) || before : before;
    if (stop.kind === "line") last.set(stop.frame, stop);
    before = stop;
  }
}

const gapStop = ({ span, number }) => ({ t: span[1], frame: span[4], line: span[3], kind: "gap", text: span[2], number });

function nearestStop(t) {
  let low = 0, high = view.stops.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (view.stops[middle].t < t) low = middle + 1; else high = middle;
  }
  return low;
}

function goTo(index) {
  view.index = Math.max(0, Math.min(view.stops.length - 1, index));
  show();
}

// A moment that is folded away is unfolded first.
function goToRecord(t) {
  const hiding = data.spans.map((span, number) => ({ span, number })).filter(({ span, number }) => view.folded.has(number) && span[0] <= t && t <= span[1]);
  if (hiding.length && get("fold").checked) { for (const { number } of hiding) view.folded.delete(number); findStops(); }
  goTo(nearestStop(t));
}

// How deep each frame lies below the one that no user code called; a frame is called after its parent.
const depths = new Map([[0, 0]]);
for (const record of data.records) if (record.k === "call") depths.set(record.f, (depths.get(record.p) || 0) + 1);
const depthOf = (stop) => depths.get(stop.frame) || 0;

function stepOver(direction) {
  const depth = depthOf(view.stops[view.index]);
  let index = view.index + direction;
  while (index > 0 && index < view.stops.length - 1 && view.stops[index].kind !== "gap" && depthOf(view.stops[index]) > depth) index += direction;
  goTo(index);
}

function changesBetween(from, to) {
  const names = new Set(), objects = new Map(), printed = [];
  for (let t = from + 1; t <= to; t += 1) {
    const record = data.records[t];
    if (record.k === "set") names.add(`${record.scope === "global" ? player.state.module : record.f}:${record.name}`);
    else if (record.k === "call") for (const name of Object.keys(record.args || {})) names.add(`${record.f}:${name}`);
    else if (record.k === "object") objects.set(record.id, true);
    else if (record.k === "mutate") noteMutation(objects, record);
    else if (record.k === "out") printed.push(record.text);
  }
  return { names, objects, printed };
}

function noteMutation(objects, record) {
  if (objects.get(record.id) === true) return;
  const places = objects.get(record.id) || new Set();
  if (record.op === "replace") { objects.set(record.id, true); return; }
  if (record.op === "splice") for (let n = 0; n < (record.items || []).length; n += 1) places.add(keyOf(record.start + n));
  for (const entry of record.at || []) places.add(keyOf(record.op === "set" ? entry[0] : entry));
  for (const item of record.op === "add" ? record.items || [] : []) places.add(keyOf(item));
  objects.set(record.id, places);
}

function show() {
  const stop = view.stops[view.index];
  if (!stop) return;
  const state = player.at(stop.t);
  const before = stop.origin;
  const changes = changesBetween(before ? before.t : -1, stop.t);
  get("slider").max = view.stops.length - 1;
  get("slider").value = view.index;
  get("count").textContent = `${view.index + 1} / ${view.stops.length}`;
  const where = visible(whereText(stop, state));
  get("where").textContent = get("where").title = stop.kind === "gap" ? "" : where;
  get("slider").setAttribute("aria-valuetext", `${view.index + 1} of ${view.stops.length}: ${where}`);
  showNotice(stop);
  showSource(stop, before, state, changes);
  const frames = shownFrames(stop, state);
  showStack(frames, stop, state, changes);
  const seen = nearFrames(frames).filter(Boolean);
  const tables = tablesOf(seen, state, changes);
  get("tables").replaceChildren(...tables.shown);
  get("tables").previousElementSibling.hidden = !tables.shown.length;
  get("graph").replaceChildren(...new Graph(state, changes, tables.labels).draw(seen));
  showOutput(stop.t);
  view.outline.mark(stop.t);
}

function whereText(stop, state) {
  if (stop.kind === "end") return `the program has ended${endText(state)}`;
  if (stop.kind === "gap") return stop.text;
  const frame = state.frames.get(stop.frame);
  const record = data.records[stop.t];
  const name = nameText(frame);
  const value = () => shortened(valueText(state, record.v === undefined ? null : record.v), 120);
  switch (stop.kind) {
    case "return": return `${name} returns ${value()}`;
    case "yield": return `${name} yields ${value()}`;
    case "unwind": return `an exception leaves ${name}`;
    case "raise": return raisedText(record, state);
    default: return `line ${stop.line} of ${name} is about to run`;
  }
}

const nameText = (frame) => word(frame.name.split(".<locals>.").pop());
const raisedText = (record, state) => shortened(`${word(record.type)}(${(record.args || []).map((arg) => valueText(state, arg)).join(", ")})`, 200);

// The exception that ended the program: the last one that came up by itself, if frames were left by it until the end.
const failure = (() => {
  const left = data.records.findLast((record) => ["return", "yield", "unwind", "line"].includes(record.k));
  if (data.outcome !== "error" || !left || left.k !== "unwind") return null;
  return data.records.findLast((record) => record.k === "raise" && (record.from === undefined || record.from === null)) || null;
})();

// What the function that was asked for gave back; a script has none.
const returned = (() => {
  if (data.call === null) return null;
  const frame = data.roots.findLast((root) => data.activations[root].name === data.call);
  const t = frame === undefined ? -1 : data.records.findLastIndex((record) => record.k === "return" && record.f === frame);
  return t < 0 ? null : { name: data.call, value: data.records[t].v };
})();

function endText(state) {
  if (data.outcome === "ok" && returned) return `: ${word(returned.name)} returned ${shortened(valueText(state, returned.value === undefined ? null : returned.value), 200)}`;
  if (data.outcome === "ok") return "";
  return failure ? `: ${raisedText(failure, state)} at line ${failure.n}` : `: ${data.outcome}`;
}

function showNotice(stop) {
  const notice = get("notice");
  const incomplete = !data.complete && view.index === view.stops.length - 1;
  notice.hidden = stop.kind !== "gap" && !incomplete;
  notice.className = incomplete ? "bad" : "";
  notice.replaceChildren();
  if (stop.kind === "gap") {
    notice.append(visible(stop.text));
    const button = element("button", "", "unfold");
    button.title = "Go into them (u)";
    button.addEventListener("click", unfold);
    notice.append(button);
  } else if (incomplete) {
    notice.append(incompleteText());
  }
}

const incompleteText = () => `This trace is not complete: ${visible(data.reasons.join("; "))}.` + (data.outcome === "ok" ? "" : ` The program ended with: ${data.outcome}.`);

function unfold() {
  const stop = view.stops[view.index];
  if (!stop || stop.kind !== "gap") return;
  view.folded.delete(stop.number);
  findStops();
  goTo(nearestStop(data.spans[stop.number][0]));
}

function makeSource() {
  const ran = new Map();
  // A class body begins with the line of its class, which ran once all the same.
  const bodies = new Set(data.records.filter((record) => record.k === "call" && record.body).map((record) => record.f));
  for (const [t, frame, line, kind] of data.positions) {
    if (kind !== "line" || bodies.delete(frame)) continue;
    if (!ran.has(line)) ran.set(line, []);
    ran.get(line).push(t);
  }
  data.lines.forEach((text, index) => {
    const line = index + 1, times = ran.get(line) || [];
    const row = element("div", times.length ? "row runs" : "row never");
    row.append(element("span", "hits", times.length > 1 ? `${times.length}×` : ""), element("span", "number", String(line)), element("span", "text", text || " "), element("span", "note"));
    if (!text.trim() || /^\s*(#|(else|finally|try)\s*:|(global|nonlocal)\b)/.test(text)) row.classList.remove("never");
    if (times.length) row.addEventListener("click", () => goToRecord(times.find((t) => t > view.stops[view.index].t) || times[0]));
    get("source").append(row);
  });
}

// What a line did stands beside it where there is room, and below it where there is none: it covers no source.
function place(row) {
  const note = row.lastChild, text = note.previousSibling, room = get("code").clientWidth;
  row.classList.remove("below");
  note.style.maxWidth = `${Math.max(120, room - 30)}px`;
  if (note.textContent && text.offsetLeft + text.offsetWidth + note.scrollWidth > room) row.classList.add("below");
}

function showSource(stop, before, state, changes) {
  const rows = get("source").children;
  const note = (row, text) => { row.lastChild.textContent = shortened(visible(text), 400); row.lastChild.title = row.lastChild.textContent; place(row); };
  for (const row of get("source").querySelectorAll(".now, .was, .failed")) { row.classList.remove("now", "was", "failed"); row.removeAttribute("aria-current"); note(row, ""); }
  if (before && rows[before.line - 1] && before.kind === "line") {
    const row = rows[before.line - 1];
    row.classList.add("was");
    if (stop.kind !== "gap") note(row, noteText(before, stop, state, changes));
  }
  const failed = stop.kind === "end" && failure ? failure : null;
  const row = rows[(failed ? failed.n : stop.line) - 1];
  if (!row) return;
  row.classList.remove("was");
  row.classList.add(failed || stop.kind === "raise" || stop.kind === "unwind" ? "failed" : "now");
  row.setAttribute("aria-current", "step");
  if (failed) note(row, raisedText(failed, state));
  else if (stop.kind === "raise" || stop.kind === "return" || stop.kind === "yield") note(row, whereText(stop, state));
  reveal(get("code"), row);
}

const MOST_SAID = 6;
const parents = new Map();
for (const record of data.records) if (record.k === "call" && !record.body) parents.set(record.f, record.p);
const parentOf = (frame) => parents.get(frame);

function noteText(before, stop, state, changes) {
  const said = [];
  for (let t = before.t + 1; t <= stop.t; t += 1) {
    const record = data.records[t];
    if (record.k === "return" && parentOf(record.f) === before.frame && said.length < MOST_SAID && data.activations[record.f]) {
      said.push(`${nameText(data.activations[record.f])}() returned ${shortened(valueText(state, record.v === undefined ? null : record.v, 2), 120)}`);
    } else if (record.k === "set" && record.f === before.frame) said.push(`${word(record.name)} = ${valueText(state, record.v, 2)}`);
    else if (record.k === "del" && record.f === before.frame) said.push(`del ${word(record.name)}`);
  }
  if (changes.printed.length) said.push(`prints ${quoted(changes.printed.join(""))}`);
  return said.join("; ");
}

// The frame that runs and those that called it, innermost first, then waiting generators and other threads.
function shownFrames(stop, state) {
  const chain = [];
  let number = stop.frame;
  while (number && state.frames.has(number)) { chain.push(state.frames.get(number)); number = state.frames.get(number).parent; }
  const others = state.running().filter((frame) => !chain.includes(frame)).reverse();
  if (!chain.length && !others.length && state.module) others.push(state.frames.get(state.module));
  return [...chain, ...others];
}

// The innermost and the outermost ones; null stands for those between, of which a deep recursion has thousands.
function nearFrames(frames) {
  if (frames.length <= MOST_FRAMES) return frames;
  return [...frames.slice(0, MOST_FRAMES - 3), null, ...frames.slice(-3)];
}

function showStack(frames, stop, state, changes) {
  const cards = nearFrames(frames).map((frame, index) => (frame ? frameCard(frame, index === 0, state, changes) : element("div", "none", `… ${(frames.length - MOST_FRAMES).toLocaleString("en")} more calls …`)));
  if (state.globals.size && !state.module) cards.push(frameCard({ number: 0, name: "globals", names: state.globals, others: new Map(), status: "runs", line: "" }, false, state, changes));
  get("stack").replaceChildren(...cards);
}

const DEFINITIONS = ["function", "class", "module", "builtin"];

function frameCard(frame, top, state, changes) {
  const card = element("div", `frame${top ? " top" : ""}${frame.status === "waits" ? " waits" : ""}`);
  const head = element("div", "head");
  const waits = frame.status === "waits" ? " (waits)" : "";
  head.append(element("span", "", nameText(frame) + waits), element("span", "at", frame.line ? `line ${frame.line}` : ""));
  card.append(head);
  const table = element("table");
  const plain = [], definitions = [];
  for (const entry of [...frame.names, ...frame.others]) {
    const [, value] = entry;
    const defines = value !== null && typeof value === "object" && (DEFINITIONS.some((kind) => kind in value) || (isRef(value) && (state.heap.get(value.ref) || {}).type === "class"));
    (defines ? definitions : plain).push(entry);
  }
  const isNew = ([name]) => changes.names.has(`${frame.number}:${name}`);
  for (const [name, value] of [...plain, ...definitions.filter(isNew)]) {
    const row = element("tr", changes.names.has(`${frame.number}:${name}`) || (isRef(value) && changes.objects.has(value.ref)) ? "changed" : "");
    row.append(nameCell(name), valueCell(valueText(state, value)));
    table.append(row);
  }
  const quiet = definitions.filter((entry) => !isNew(entry)).map(([name]) => word(name));
  if (quiet.length) {
    const row = element("tr", "defined");
    row.append(element("td", "name", "defined"), valueCell(quiet.join(", ")));
    table.append(row);
  }
  card.append(table.children.length ? table : element("div", "none", frame.status === "ended" ? "no names" : "no names yet"));
  return card;
}

function nameCell(name) {
  const cell = element("td", "name", word(name));
  cell.title = cell.textContent;
  return cell;
}

// A long value is shown by its beginning, with the rest one click away.
function valueCell(text) {
  if (text.length <= MOST_VALUE) return element("td", "value", text);
  const cell = element("td", "value", shortened(text, MOST_VALUE));
  const button = element("button", "rest", `${(text.length - MOST_VALUE + 1).toLocaleString("en")} more characters`);
  button.addEventListener("click", () => { cell.textContent = visible(text); });
  cell.append(button);
  return cell;
}

const outputs = data.records.map((record, t) => ({ record, t })).filter(({ record }) => record.k === "out");

function showOutput(t) {
  const parts = [];
  let size = 0, earlier = 0;
  for (let index = outputs.length - 1; index >= 0; index -= 1) {
    const { record, t: at } = outputs[index];
    if (at > t) continue;
    if (size >= MOST_OUTPUT) { earlier += record.text.length + (record.elided || 0) + (record.tail || "").length; continue; }
    const piece = element("span", record.s === 2 ? "err" : "", record.text);
    if (record.elided) piece.append(element("span", "more", more(record.elided)), element("span", "", record.tail || ""));
    parts.unshift(piece);
    size += record.text.length;
  }
  if (earlier) parts.unshift(element("span", "more", `… ${earlier} characters before …\n`));
  get("output").replaceChildren(...(parts.length ? parts : [element("span", "more", "nothing yet")]));
  get("output").scrollTop = get("output").scrollHeight;
}

function listen() {
  const actions = { first: () => goTo(0), back: () => goTo(view.index - 1), on: () => goTo(view.index + 1), last: () => goTo(view.stops.length - 1), over: () => stepOver(1), "over-back": () => stepOver(-1) };
  for (const [id, action] of Object.entries(actions)) get(id).addEventListener("click", action);
  const keys = { ArrowRight: "on", ArrowLeft: "back", ArrowDown: "over", ArrowUp: "over-back", Home: "first", End: "last", u: "unfold" };
  actions.unfold = unfold;
  document.addEventListener("keydown", (event) => {
    if (Object.hasOwn(keys, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) { event.preventDefault(); actions[keys[event.key]](); }
  });
  get("slider").addEventListener("input", () => goTo(Number(get("slider").value)));
  get("fold").addEventListener("change", () => {
    const t = view.stops[view.index].t;
    view.folded = new Set(data.spans.map((_, number) => number));
    findStops();
    goTo(nearestStop(t));
  });
  get("theme").addEventListener("click", () => {
    const chosen = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = chosen === "dark" ? "light" : "dark";
  });
  addEventListener("hashchange", goToHash);
}

// #120 in the address is a record to begin at, #120-dark the same in the dark.
function goToHash() {
  const [t, theme] = location.hash.slice(1).split("-");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  if (/^[0-9]+$/.test(t)) goToRecord(Number(t)); else goTo(0);
}

function begin() {
  for (const part of document.querySelectorAll("header, main")) part.hidden = false;
  get("title").textContent = visible(data.filename);
  get("incomplete").hidden = data.complete;
  get("incomplete").title = data.complete ? "" : incompleteText();
  makeSource();
  findStops();
  view.outline = new Outline(data, get("outline"), goToRecord);
  if (!view.stops.length) return beginWithNothing();
  listen();
  goToHash();
}

function beginWithNothing() {
  get("where").textContent = "nothing was recorded" + (data.outcome === "ok" ? "" : `, the program ended with: ${data.outcome}`);
  for (const control of document.querySelectorAll(".steps button, #slider, #fold")) control.disabled = true;
  for (const place of ["stack", "graph", "outline"]) get(place).replaceChildren(element("div", "none", "none"));
  showOutput(data.records.length);
  get("notice").hidden = data.complete;
  get("notice").className = "bad";
  get("notice").textContent = data.complete ? "" : incompleteText();
}

begin();
