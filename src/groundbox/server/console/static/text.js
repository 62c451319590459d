// Text of a guest with nothing in it that is not seen: the rules of groundbox/unseen.py, for the page.

const SEQUENCE = new RegExp(
  "(?:\\x1b\\[|\\x9b)[0-?]*[ -/]*[@-~]" +
  "|(?:\\x1b[\\]PX^_]|[\\x90\\x98\\x9d-\\x9f])[^\\x07\\x1b\\x90\\x98\\x9c-\\x9f]*(?:\\x07|\\x1b\\\\|\\x9c)" +
  "|\\x1b[ -/]*[0-OQ-WYZ\\\\`-~]", "gu",
);
const UNSEEN = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e\\u200b\\u200e\\u200f" +
  "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e0fff}" +
  "\\u{1d173}-\\u{1d17a}]", "gu",
);
const SHOWN_CHARS = 200_000;

/** The text with nothing in it that is not seen. Newlines and tabs stay; `\r\n` becomes a newline. */
export function visible(text) {
  return text.replaceAll("\r\n", "\n").replace(SEQUENCE, "").replace(UNSEEN, escaped);
}

/** The same on one line, cut to so many characters. */
export function onOneLine(text, most) {
  const line = visible(text.slice(0, most + 1)).replaceAll("\n", " ").replaceAll("\t", " ");
  return text.length > most ? `${line.slice(0, most)}…` : line;
}

function escaped(character) {
  const code = character.codePointAt(0);
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

/** Bytes for people, in units of 1024. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB"];
  let value = bytes;
  let unit = -1;
  while (value >= 1024 && unit < 2) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** Seconds for people. */
export function duration(seconds) {
  if (seconds < 0.001) return "under 1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/** A number with the right form of its noun. */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** What a run prints, drawn as it comes: a carriage return begins its line anew, and the end of long output is kept. */
export class Printed {
  /** `onCut(characters)` is told how many characters at the beginning are no longer shown. */
  constructor(pre, onCut = () => {}) {
    this.pre = pre;
    this.onCut = onCut;
    this.chars = 0;
    this.cut = 0;
    this.waiting = [];
  }

  /** Show it with the next frame that is drawn. */
  add(stream, text) {
    if (!this.waiting.length) requestAnimationFrame(() => this.flush());
    const last = this.waiting.at(-1);
    if (last?.stream === stream) last.text += text;
    else this.waiting.push({stream, text});
  }

  /** Show all that came. */
  flush() {
    for (const {stream, text} of this.waiting.splice(0)) this.#write(stream, text);
    if (this.chars > 2 * SHOWN_CHARS) this.#shorten();
  }

  #write(stream, text) {
    if (this.stream !== stream) {
      this.stream = stream;
      this.raw = "";
      const span = document.createElement("span");
      span.className = stream;
      this.done = document.createTextNode("");
      this.open = document.createTextNode("");
      span.append(this.done, this.open);
      this.pre.append(span);
    }
    this.raw += text;
    const end = this.raw.lastIndexOf("\n") + 1;
    const lines = overwritten(this.raw.slice(0, end));
    this.done.appendData(lines);
    this.raw = this.raw.slice(end).slice(-SHOWN_CHARS);
    this.open.data = overwritten(this.raw);
    this.chars += lines.length;
  }

  #shorten() {
    while (this.chars > SHOWN_CHARS) {
      const first = this.pre.firstElementChild;
      const node = first.firstChild;
      const surplus = Math.min(this.chars - SHOWN_CHARS, node.data.length);
      node.deleteData(0, surplus);
      this.chars -= surplus;
      this.cut += surplus;
      if (node.data.length || first === this.pre.lastElementChild) break;
      first.remove();
    }
    this.onCut(this.cut);
  }
}

function overwritten(text) {
  return visible(text.replaceAll("\r\n", "\n").replace(/[^\n]*\r(?=[^\r\n])/g, "").replace(/\r+(?=\n|$)/g, ""));
}
