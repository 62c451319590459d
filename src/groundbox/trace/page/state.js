// Names and objects at a moment, rebuilt from records. Objects are never changed in place,
// so a keyframe is a copy of the maps alone.
const SPACING = 400;

const keyOf = (value) => JSON.stringify(value);
const isRef = (value) => value !== null && typeof value === "object" && "ref" in value;
const isGap = (item) => item !== null && typeof item === "object" && "gap" in item;

class State {
  constructor() {
    this.t = -1;
    this.frames = new Map();
    this.heap = new Map();
    this.globals = new Map();
    this.module = 0;
  }

  copy() {
    const twin = new State();
    twin.t = this.t;
    twin.module = this.module;
    twin.frames = new Map(this.frames);
    twin.heap = new Map(this.heap);
    twin.globals = new Map(this.globals);
    return twin;
  }

  frame(number) {
    const frame = this.frames.get(number);
    const twin = { ...frame, names: new Map(frame.names), others: new Map(frame.others) };
    this.frames.set(number, twin);
    return twin;
  }

  apply(record) {
    this.t += 1;
    switch (record.k) {
      case "call": return this.call(record);
      case "line": { this.frame(record.f).line = record.n; return; }
      case "set": return this.assign(record, true);
      case "del": return this.assign(record, false);
      case "return": case "unwind": { const frame = this.frame(record.f); frame.line = record.n; frame.status = "ended"; return; }
      case "yield": { this.frame(record.f).status = "waits"; return; }
      case "resume": case "raise": { this.frame(record.f).status = "runs"; return; }
      case "object": { this.heap.set(record.id, describe(record)); return; }
      case "mutate": { this.heap.set(record.id, changed(this.heap.get(record.id), record)); return; }
    }
  }

  call(record) {
    const names = new Map(Object.entries(record.args || {}));
    this.frames.set(record.f, {
      number: record.f, parent: record.p, name: record.name, line: record.n, thread: record.thread || null,
      names, others: new Map(), status: "runs",
    });
    if (record.name === "<module>" && !this.module) {
      this.module = record.f;
      for (const [name, value] of this.globals) names.set(name, value);
    }
  }

  assign(record, gives) {
    let places;
    if (record.scope === "global") {
      places = [this.module ? this.frame(this.module).names : this.globals];
    } else if (record.scope === "nonlocal") {
      places = [this.frame(record.f).others, ...this.enclosing(record)];
    } else {
      places = [this.frame(record.f).names];
    }
    for (const place of places) {
      if (gives) place.set(record.name, record.v);
      else place.delete(record.name);
    }
  }

  // Where several activations of the enclosing function may be meant, none is changed but marked as unknown.
  enclosing(record) {
    let name = this.frames.get(record.f).name;
    while (name.includes(".<locals>.")) {
      name = name.slice(0, name.lastIndexOf(".<locals>."));
      const holders = [...this.frames.values()].filter((f) => f.name === name && f.names.has(record.name));
      if (holders.length === 1) return [this.frame(holders[0].number).names];
      for (const holder of holders) this.frame(holder.number).names.set(record.name, { opaque: "not known" });
      if (holders.length) return [];
    }
    return [];
  }

  running() {
    return [...this.frames.values()].filter((frame) => frame.status !== "ended");
  }
}

// Sets are told sorted by the JSON text of their items.
const sortText = (item) => (item !== null && typeof item === "object" && "float" in item ? item.float : keyOf(item));

const listed = (record, head) => {
  const items = [...(head || [])];
  if (record.elided) items.push({ gap: record.elided });
  return items.concat(record.tail || []);
};

function describe(record) {
  return fill({ id: record.id, type: record.type, class: record.class || null }, record);
}

function fill(object, record) {
  object.items = object.pairs = null;
  object.attrs = new Map(Object.entries(record.attrs || {}));
  object.hidden = 0;
  if (object.type === "dict") object.pairs = listed(record, record.pairs);
  else if (object.type === "object" || object.type === "class") object.hidden = record.elided || 0;
  else if (object.type === "bytearray") { object.hex = record.hex || ""; object.length = record.len || 0; }
  else object.items = listed(record, record.items);
  if (record.maxlen !== undefined && record.maxlen !== null) object.maxlen = record.maxlen;
  if (record.shape) object.shape = record.shape;
  return object;
}

function changed(old, record) {
  const object = { ...old, attrs: new Map(old.attrs) };
  if (record.op === "replace") {
    fill(object, record);
    if (!record.attrs && old.type !== "object" && old.type !== "class") object.attrs = new Map(old.attrs);
  } else if (record.op === "splice") {
    object.items = spliced(object.items, record.start, record.removed, record.items || []);
  } else if (record.op === "add" || record.op === "discard") {
    const gone = new Set((record.items || []).map(keyOf));
    object.items = object.items.filter((item) => isGap(item) || !gone.has(keyOf(item)));
    if (record.op === "add") object.items = object.items.concat(record.items || []);
    if (!object.items.some(isGap)) object.items.sort((a, b) => (sortText(a) < sortText(b) ? -1 : 1));
  } else if (object.pairs !== null) {
    changePairs(object, record);
  } else if (object.items !== null) {
    for (const [at, value] of record.at || []) object.items = spliced(object.items, at, 1, [value]);
  } else {
    for (const entry of record.at || []) {
      if (record.op === "set") object.attrs.set(entry[0], entry[1]);
      else object.attrs.delete(entry);
    }
  }
  return object;
}

function changePairs(object, record) {
  const pairs = object.pairs.slice();
  for (const entry of record.at || []) {
    const key = keyOf(record.op === "set" ? entry[0] : entry);
    const at = pairs.findIndex((pair) => !isGap(pair) && keyOf(pair[0]) === key);
    if (record.op === "remove") { if (at >= 0) pairs.splice(at, 1); }
    else if (at >= 0) pairs[at] = [pairs[at][0], entry[1]];
    else pairs.push(entry);
  }
  object.pairs = pairs;
}

// Indexes are those of the real list; a gap counts as many as it hides.
function spliced(items, start, removed, put) {
  const before = [], after = [];
  let at = 0;
  for (const item of items) {
    const size = isGap(item) ? item.gap : 1;
    const head = Math.max(0, Math.min(size, start - at));
    const tail = Math.max(0, Math.min(size, at + size - (start + removed)));
    if (!isGap(item)) { if (head) before.push(item); else if (tail) after.push(item); }
    else { if (head) before.push({ gap: head }); if (tail) after.push({ gap: tail }); }
    at += size;
  }
  return before.concat(put, after);
}

class Player {
  constructor(records) {
    this.records = records;
    this.keyframes = [new State()];
    this.state = new State();
  }

  at(t) {
    if (this.state.t > t || t - this.state.t > SPACING) {
      const nearest = Math.min(Math.floor((t + 1) / SPACING), this.keyframes.length - 1);
      if (this.state.t > t || this.keyframes[nearest].t > this.state.t) this.state = this.keyframes[nearest].copy();
    }
    while (this.state.t < t) {
      this.state.apply(this.records[this.state.t + 1]);
      if ((this.state.t + 1) % SPACING === 0 && (this.state.t + 1) / SPACING === this.keyframes.length) {
        this.keyframes.push(this.state.copy());
      }
    }
    return this.state;
  }
}
