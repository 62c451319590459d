// Values as text, as Python would write them.
// What is not printable is escaped; in a text that is shown as it is, only what would hide or turn round its neighbours.
const escape = (c) => {
  const known = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" }[c];
  const code = c.codePointAt(0).toString(16);
  return known || (code.length <= 2 ? "\\x" + code.padStart(2, "0") : code.length <= 4 ? "\\u" + code.padStart(4, "0") : "\\U" + code.padStart(8, "0"));
};
const word = (name) => name.replace(/(?! )[\p{C}\p{Z}]/gu, escape);
const quoted = (text) => {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  return mark + text.replace(/\\|(?! )[\p{C}\p{Z}]|['"]/gu, (c) => (c === "'" || c === '"' ? (c === mark ? "\\" + c : c) : escape(c))) + mark;
};
const visible = (text) => text.replace(/(?![\n\t])\p{Cc}|[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (c) =>
  c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

const shortened = (text, most) => (text.length > most ? text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "") + "…" : text);
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
  if ("int" in value) return typeof value.int === "string" ? value.int : `<${value.int.sign < 0 ? "negative " : ""}int of ${value.int.bits} bits>`;
  if ("str" in value) return `${quoted(value.str.head)} ${more(value.str.len - value.str.head.length - value.str.tail.length)} ${quoted(value.str.tail)}`;
  if ("tuple" in value) {
    const parts = listed(value, value.tuple).map((item) => (isGap(item) ? more(item.gap) : inner(item)));
    return `${word(value.class || "")}(${parts.join(", ")}${parts.length === 1 && !value.class ? "," : ""})`;
  }
  if ("frozenset" in value) {
    const items = listed(value, value.frozenset).map((item) => (isGap(item) ? more(item.gap) : inner(item))).join(", ");
    return items ? `${word(value.class || "frozenset")}({${items}})` : "frozenset()";
  }
  if ("complex" in value) return complexText(...value.complex.map(inner));
  if ("bytes" in value) return bytesText(value.bytes.hex, value.bytes.len);
  if ("range" in value) return `range(${value.range.map(inner).slice(0, value.range[2] === 1 ? 2 : 3).join(", ")})`;
  if ("function" in value) return `<function ${word(value.function)}>`;
  if ("builtin" in value) return `<built-in ${word(value.builtin)}>`;
  if ("method" in value) return `<method ${word(value.method)} of ${inner(value.of)}>`;
  if ("module" in value) return `<module ${word(value.module)}>`;
  if ("repr" in value) return word(value.repr);
  if ("opaque" in value) return `<${word(value.opaque)}>`;
  if ("class" in value) return `<class ${word(value.class)}>`;
  return "?";
}

function complexText(real, imaginary) {
  const [a, b] = [real, imaginary].map((part) => part.replace(/\.0$/, ""));
  return a === "0" ? `${b}j` : `(${a}${b.startsWith("-") ? "" : "+"}${b}j)`;
}

function bytesText(hex, length) {
  const codes = (hex.match(/../g) || []).map((pair) => parseInt(pair, 16));
  const mark = codes.includes(39) && !codes.includes(34) ? '"' : "'";
  const text = codes.map((code) => {
    const c = String.fromCharCode(code);
    return c === mark || c === "\\" ? "\\" + c : code >= 32 && code < 127 ? c : escape(c);
  }).join("");
  return `b${mark}${text}${mark}` + (length > codes.length ? ` ${more(length - codes.length)}` : "");
}

function objectText(state, label, depth, open) {
  const object = state.heap.get(label);
  if (!object || open.has(label)) return `<#${label}>`;
  if (object.type === "class") return `<class ${word(object.class || "?")}>`;
  const named = object.class && object.class !== object.type ? word(object.class) : "";
  if (depth <= 0) return `<${named || object.type}>`;
  open.add(label);
  const inner = (item) => valueText(state, item, depth - 1, open);
  const row = (items, word) => {
    const shown = items.slice(0, MOST_ITEMS).map((item) => (isGap(item) ? more(item.gap) : word(item)));
    if (items.length > MOST_ITEMS) shown.push(more(counted(items.slice(MOST_ITEMS))));
    return shown.join(", ");
  };
  const known = row([...object.attrs], ([name, value]) => `${word(name)}=${inner(value)}`);
  const attrs = [known, object.hidden ? more(object.hidden) : ""].filter(Boolean).join(", ");
  let text;
  if (object.type === "object") text = `${named || "object"}(${attrs})`;
  else if (object.type === "bytearray") text = bytesText(object.hex, object.length);
  else if (object.pairs !== null) text = `{${row(pairsOf(object), ([key, value]) => `${inner(key)}: ${inner(value)}`)}}`;
  else if (object.type === "set") text = itemsOf(object).length ? `{${row(itemsOf(object), inner)}}` : "set()";
  else text = `[${row(object.items, inner)}]`;
  open.delete(label);
  if (object.type === "object" || (!named && !["deque", "bytearray", "array"].includes(object.type))) return text;
  const parts = [named && ["set()", "{}", "[]"].includes(text) ? "" : text];
  if (object.maxlen !== undefined) parts.push(`maxlen=${object.maxlen}`);
  parts.push(attrs);
  return `${object.type === "array" || !named ? object.type : named}(${parts.filter(Boolean).join(", ")})`;
}
