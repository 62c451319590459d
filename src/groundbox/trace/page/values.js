// Values as text, as Python would write them.
const quoted = (text) => {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = text.replace(/[\\\n\r\t\u0000-\u001f\u007f-\u009f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]|['"]/gu, (c) => {
    if (c === "'" || c === '"') return c === mark ? "\\" + c : c;
    const known = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" }[c];
    return known || "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  });
  return mark + body + mark;
};

const shortened = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const MOST_ITEMS = 60;
const counted = (items) => items.reduce((sum, item) => sum + (isGap(item) ? item.gap : 1), 0);
const more = (count) => `… ${count} more …`;

function atomText(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quoted(value);
  return String(value);
}

// depth: how many levels of objects are written out; deeper ones are named by their kind.
function valueText(state, value, depth = 3, open = new Set()) {
  if (value === null || typeof value !== "object") return atomText(value);
  const inner = (item) => valueText(state, item, depth - 1, open);
  if ("ref" in value) return objectText(state, value.ref, depth, open);
  if ("float" in value) return value.float;
  if ("int" in value) return typeof value.int === "string" ? value.int : `<int of ${value.int.bits} bits>`;
  if ("str" in value) return `${quoted(value.str.head)} ${more(value.str.len - value.str.head.length - value.str.tail.length)} ${quoted(value.str.tail)}`;
  if ("tuple" in value) {
    const parts = listed(value, value.tuple).map((item) => (isGap(item) ? more(item.gap) : inner(item)));
    return `${value.class || ""}(${parts.join(", ")}${parts.length === 1 && !value.class ? "," : ""})`;
  }
  if ("frozenset" in value) {
    return `frozenset({${listed(value, value.frozenset).map((item) => (isGap(item) ? more(item.gap) : inner(item))).join(", ")}})`;
  }
  if ("complex" in value) return `(${inner(value.complex[0])}+${inner(value.complex[1])}j)`;
  if ("bytes" in value) return `b${quoted(bytesText(value.bytes.hex))}` + (value.bytes.len * 2 > value.bytes.hex.length ? ` ${more(value.bytes.len - value.bytes.hex.length / 2)}` : "");
  if ("range" in value) return `range(${value.range.map(inner).slice(0, value.range[2] === 1 ? 2 : 3).join(", ")})`;
  if ("function" in value) return `<function ${value.function}>`;
  if ("builtin" in value) return `<built-in ${value.builtin}>`;
  if ("method" in value) return `<method ${value.method} of ${inner(value.of)}>`;
  if ("module" in value) return `<module ${value.module}>`;
  if ("repr" in value) return value.repr;
  if ("opaque" in value) return `<${value.opaque}>`;
  if ("class" in value) return `<class ${value.class}>`;
  return "?";
}

function bytesText(hex) {
  let text = "";
  for (let at = 0; at < hex.length; at += 2) {
    const code = parseInt(hex.slice(at, at + 2), 16);
    text += code >= 32 && code < 127 ? String.fromCharCode(code) : "·";
  }
  return text;
}

function objectText(state, label, depth, open) {
  const object = state.heap.get(label);
  if (!object || open.has(label)) return `<#${label}>`;
  if (object.type === "class") return `<class ${object.class}>`;
  const named = object.class && object.class !== object.type ? object.class : "";
  if (depth <= 0) return `<${named || object.type}>`;
  open.add(label);
  const inner = (item) => valueText(state, item, depth - 1, open);
  const row = (items, word) => {
    const shown = items.slice(0, MOST_ITEMS).map((item) => (isGap(item) ? more(item.gap) : word(item)));
    if (items.length > MOST_ITEMS) shown.push(more(counted(items.slice(MOST_ITEMS))));
    return shown.join(", ");
  };
  const attrs = row([...object.attrs], ([name, value]) => `${name}=${inner(value)}`);
  let text;
  if (object.type === "object") text = `${object.class || "object"}(${attrs})`;
  else if (object.type === "bytearray") text = `bytearray(b${quoted(bytesText(object.hex))})`;
  else if (object.pairs !== null) text = `{${row(object.pairs, ([key, value]) => `${inner(key)}: ${inner(value)}`)}}`;
  else if (object.type === "set") text = object.items.length ? `{${row(object.items, inner)}}` : "set()";
  else text = `[${row(object.items, inner)}]`;
  open.delete(label);
  if (object.maxlen !== undefined) text += `, maxlen=${object.maxlen}`;
  if (object.type === "deque" || object.type === "array") text = `${object.type}(${text})`;
  else if (named && object.type !== "object") text = `${named}(${text})`;
  return text;
}
