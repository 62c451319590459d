// Names and objects at a moment, rebuilt from records. A keyframe is a copy of the maps alone: what two states share
// is copied before it is changed, once for each object, and what a state has for itself is changed in place; so a list
// that grows to 50,000 items costs as much as its changes. The number of keyframes is bounded for the same reason.
const SPACING = 400, MOST_KEYFRAMES = 48, MOST_NEAR = 10;

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
    this.own = new Set();
  }

  // From here on both share all objects.
  copy() {
    const twin = new State();
    this.own = new Set();
    twin.t = this.t;
    twin.module = this.module;
    twin.frames = new Map(this.frames);
    twin.heap = new Map(this.heap);
    twin.globals = new Map(this.globals);
    return twin;
  }

  owned(label) {
    if (!this.own.has(label)) { this.heap.set(label, twinOf(this.heap.get(label))); this.own.add(label); }
    return this.heap.get(label);
  }

  change(number, facts) {
    this.frames.set(number, { ...this.frames.get(number), ...facts });
  }

  // The names of a frame, or those that it took from others, to be changed.
  names(number, which = "names") {
    const names = new Map(this.frames.get(number)[which]);
    this.change(number, { [which]: names });
    return names;
  }

  apply(record) {
    this.t += 1;
    switch (record.k) {
      case "call": return this.call(record);
      case "line": return this.change(record.f, { line: record.n });
      case "set": return this.assign(record, true);
      case "del": return this.assign(record, false);
      case "return": case "unwind": return this.change(record.f, { line: record.n, status: "ended" });
      case "yield": return this.change(record.f, { status: "waits" });
      case "resume": case "raise": return this.change(record.f, { status: "runs" });
      case "object": { this.heap.set(record.id, describe(record)); this.own.add(record.id); return; }
      case "mutate": return changeObject(this.owned(record.id), record);
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
      places = [this.module ? this.names(this.module) : this.globals];
    } else if (record.scope === "nonlocal") {
      places = [this.names(record.f, "others"), ...this.enclosing(record)];
    } else {
      places = [this.names(record.f)];
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
      if (holders.length === 1) return [this.names(holders[0].number)];
      for (const holder of holders) this.names(holder.number).set(record.name, { opaque: "not known" });
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
  return fill({ id: record.id, type: record.type, class: record.class || null, attrs: new Map() }, record);
}

// A list has `items`, an array in which gaps stand for what is not shown; a set has `members` and a dict `pairs`, maps
// by the JSON text of item or key, in which the key GAP has a gap.
const GAP = "gap";

function fill(object, record) {
  object.items = object.pairs = object.members = object.shown = null;
  object.attrs = new Map(Object.entries(record.attrs || {}));
  object.hidden = 0;
  if (object.type === "dict") object.pairs = new Map(listed(record, record.pairs).map((pair) => [isGap(pair) ? GAP : keyOf(pair[0]), pair]));
  else if (object.type === "object" || object.type === "class") object.hidden = record.elided || 0;
  else if (object.type === "bytearray") { object.hex = record.hex || ""; object.length = record.len || 0; }
  else if (object.type === "set") object.members = new Map(listed(record, record.items).map((item) => [isGap(item) ? GAP : keyOf(item), item]));
  else { object.items = listed(record, record.items); object.whole = !object.items.some(isGap); object.count = sizeOf(object.items); }
  if (record.maxlen !== undefined && record.maxlen !== null) object.maxlen = record.maxlen;
  if (record.shape) object.shape = record.shape;
  return object;
}

const sizeOf = (items) => items.reduce((sum, item) => sum + (isGap(item) ? item.gap : 1), 0);

function twinOf(object) {
  return { ...object, attrs: new Map(object.attrs), items: object.items && object.items.slice(), pairs: object.pairs && new Map(object.pairs), members: object.members && new Map(object.members), shown: null };
}

// What is to be shown of a list or a set, and of a dict; of maps it is made when it is asked for, and kept until a change.
function itemsOf(object) {
  if (object.members === null) return object.items;
  if (object.shown === null) {
    object.shown = [...object.members.values()];
    if (!object.members.has(GAP)) object.shown.sort((a, b) => (sortText(a) < sortText(b) ? -1 : 1));
  }
  return object.shown;
}

const pairsOf = (object) => object.pairs && (object.shown || (object.shown = [...object.pairs.values()]));

function changeObject(object, record) {
  object.shown = null;
  if (record.op === "replace") {
    const attrs = object.attrs;
    fill(object, record);
    if (!record.attrs && object.type !== "object" && object.type !== "class") object.attrs = attrs;
  } else if (record.op === "splice") {
    splice(object, record.start, record.removed, record.items || []);
  } else if (record.op === "add") {
    for (const item of record.items || []) { object.members.delete(keyOf(item)); object.members.set(keyOf(item), item); }
  } else if (record.op === "discard") {
    for (const item of record.items || []) object.members.delete(keyOf(item));
  } else if (object.pairs !== null) {
    changePairs(object.pairs, record);
  } else if (object.items !== null) {
    for (const [at, value] of record.at || []) splice(object, at, 1, [value]);
  } else {
    for (const entry of record.at || []) {
      if (record.op === "set") object.attrs.set(entry[0], entry[1]);
      else object.attrs.delete(entry);
    }
  }
}

function changePairs(pairs, record) {
  for (const entry of record.at || []) {
    const key = keyOf(record.op === "set" ? entry[0] : entry);
    if (record.op === "remove") pairs.delete(key);
    else pairs.set(key, [pairs.has(key) ? pairs.get(key)[0] : entry[0], entry[1]]);
  }
}

function splice(object, start, removed, put) {
  const past = start - object.count;
  object.count += put.length - removed;
  if (past === 0) object.items.push(...put);
  else if (object.whole) object.items.splice(start, removed, ...put);
  else { object.items = spliced(object.items, start, removed, put); object.whole = !object.items.some(isGap); }
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

// Goes to any moment: from where it is, from a keyframe, or from one of the states that were near where it went last.
class Player {
  constructor(records) {
    this.records = records;
    this.apart = Math.max(SPACING, Math.ceil(records.length / MOST_KEYFRAMES));
    this.keyframes = [new State()];
    this.near = [];
    this.state = new State();
  }

  at(t) {
    if (this.state.t > t || t - this.state.t > SPACING) {
      const from = this.latest(t);
      if (this.state.t > t || from.t > this.state.t) this.state = from.copy();
    }
    while (this.state.t < t) {
      this.state.apply(this.records[this.state.t + 1]);
      this.keep(t);
    }
    return this.state;
  }

  latest(t) {
    let found = this.keyframes[Math.min(Math.floor((t + 1) / this.apart), this.keyframes.length - 1)];
    for (const state of this.near) if (state.t <= t && state.t > found.t) found = state;
    return found;
  }

  keep(t) {
    const done = this.state.t + 1;
    if (done === this.apart * this.keyframes.length) this.keyframes.push(this.state.copy());
    else if (done % SPACING === 0 && t - this.state.t < MOST_NEAR * SPACING && !this.near.some((state) => state.t === this.state.t)) {
      this.near.push(this.state.copy());
      if (this.near.length > MOST_NEAR) this.near.shift();
    }
  }
}
