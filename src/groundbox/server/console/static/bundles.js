// Shows MIME bundles of a guest. Nothing of them becomes markup of this page: text is text, pictures are `data:`, and
// markup goes into a frame of another origin.

import {count, onOneLine, visible} from "./text.js";

const TABLE = "application/vnd.dataresource+json";
const CHART = "application/vnd.plotly.v1+json";
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST_CELL_CHARS = 300;
const MOST_FRAME_PX = 640;

const frames = new Map(); // to what is done with their messages

addEventListener("message", ({source, data}) => {
  if (typeof data !== "object" || data === null) return;
  for (const [frame, told] of frames) {
    if (frame.contentWindow === source) told(data);
  }
});

/** Whether the page is dark now. */
export function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/** Tell all frames which theme there is now. */
export function tellTheme() {
  for (const frame of frames.keys()) {
    if (frame.isConnected) frame.contentWindow?.postMessage({dark: isDark()}, "*");
    else frames.delete(frame);
  }
}

/** An element that shows the best form of a bundle. */
export function shown(bundle) {
  const plain = typeof bundle["text/plain"] === "string" ? bundle["text/plain"] : "";
  if (isTable(bundle[TABLE])) return table(bundle[TABLE]);
  if (bundle[CHART]) return chart(bundle, plain);
  if (typeof bundle["image/svg+xml"] === "string") {
    const bytes = new TextEncoder().encode(bundle["image/svg+xml"]);
    return picture("image/svg+xml", base64(bytes), plain || "Diagram");
  }
  for (const type of PICTURES) {
    if (typeof bundle[type] === "string") return picture(type, bundle[type], plain || "Picture");
  }
  if (typeof bundle["text/html"] === "string") return markup(bundle["text/html"]);
  if (typeof bundle["text/markdown"] === "string") return markdown(bundle["text/markdown"]);
  if (plain) return text(plain);
  const [type, value] = Object.entries(bundle)[0] ?? ["nothing", ""];
  return text(typeof value === "string" ? value : `${type}\n${JSON.stringify(value, null, 2)}`);
}

/** A picture of a blob, for files. */
export function pictureOf(blob, label) {
  const image = document.createElement("img");
  image.alt = onOneLine(label, 200);
  image.src = URL.createObjectURL(blob);
  image.addEventListener("load", () => URL.revokeObjectURL(image.src), {once: true});
  return image;
}

function text(content) {
  const pre = document.createElement("pre");
  pre.textContent = visible(content);
  return pre;
}

function picture(type, data, label) {
  const holder = document.createElement("div");
  holder.className = "picture";
  const image = document.createElement("img");
  image.alt = onOneLine(label, 200);
  image.src = `data:${type};base64,${data}`;
  holder.append(image);
  return holder;
}

function base64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

// Tables

function isTable(table) {
  return Array.isArray(table?.data) && Array.isArray(table?.schema?.fields) && table.schema.fields.length > 0;
}

function table(resource) {
  const {fields} = resource.schema;
  const rows = resource.data;
  const holder = document.createElement("div");
  holder.className = "table";
  const scroller = document.createElement("div");
  scroller.className = "scroller";
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "group");
  scroller.setAttribute("aria-label", "Table");
  const element = document.createElement("table");
  const head = element.createTHead().insertRow();
  const body = element.createTBody();
  const isNumber = fields.map(({type}) => type === "integer" || type === "number");
  let sorted = {column: -1, direction: "none"};

  const fill = (ordered) => body.replaceChildren(...ordered.map((row) => rowOf(row, fields, isNumber)));
  fields.forEach((field, column) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    if (isNumber[column]) cell.className = "number";
    const button = document.createElement("button");
    button.className = "plain";
    button.textContent = onOneLine(String(field.name), MOST_CELL_CHARS);
    button.title = `Sort; ${onOneLine(String(field.sql_type ?? field.dtype ?? field.type ?? ""), 100)}`;
    button.addEventListener("click", () => {
      const turns = {none: "ascending", ascending: "descending", descending: "none"};
      const direction = sorted.column === column ? turns[sorted.direction] : "ascending";
      sorted = {column, direction};
      for (const each of head.cells) each.removeAttribute("aria-sort");
      if (direction !== "none") cell.setAttribute("aria-sort", direction);
      fill(direction === "none" ? rows : inOrder(rows, field.name, direction));
    });
    cell.append(button);
    head.append(cell);
  });
  fill(rows);
  scroller.append(element);
  const note = document.createElement("p");
  note.className = "quiet";
  const all = resource.row_count ?? rows.length;
  const columns = resource.column_count ?? fields.length;
  const told = [all > rows.length ? `${rows.length} of ${count(all, "row")}` : count(all, "row")];
  told.push(columns > fields.length ? `${fields.length} of ${count(columns, "column")}` : count(columns, "column"));
  note.textContent = told.join(", ");
  holder.append(scroller, note);
  return holder;
}

function rowOf(row, fields, isNumber) {
  const line = document.createElement("tr");
  fields.forEach((field, column) => {
    const cell = line.insertCell();
    const value = row?.[field.name];
    if (isNumber[column]) cell.className = "number";
    if (value === null || value === undefined) {
      cell.classList.add("none");
      cell.textContent = "none";
      return;
    }
    const content = typeof value === "object" ? JSON.stringify(value) : String(value);
    const isLong = typeof value === "number" && !Number.isInteger(value) && content.length > 10;
    cell.textContent = isLong ? String(Number(value.toPrecision(7))) : onOneLine(content, MOST_CELL_CHARS);
    if (isLong || content.length > MOST_CELL_CHARS) cell.title = visible(content.slice(0, 2000));
  });
  return line;
}

function inOrder(rows, name, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  return [...rows].sort((left, right) => {
    const [a, b] = [left?.[name], right?.[name]];
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1; // none comes last either way
    if (b === null || b === undefined) return -1;
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", {numeric: true});
  });
}

// Frames

/** A frame of ours with another origin, which is sent `message` and the theme; `onTold` gets what it answers. */
export function framed(name, title, message, onTold = () => {}) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("referrerpolicy", "no-referrer");
  frame.title = title;
  frame.src = `/console/frame/${name}`;
  frame.addEventListener("load", () => {
    frame.contentWindow.postMessage({...message, dark: isDark()}, "*");
  }, {once: true});
  frames.set(frame, (data) => {
    if (name !== "terminal" && Number.isFinite(data.height)) frame.style.height = `${Math.min(Math.max(data.height, 20), MOST_FRAME_PX)}px`;
    onTold(data);
  });
  return frame;
}

function chart(bundle, plain) {
  const holder = document.createElement("div");
  holder.className = "chart";
  const figure = bundle[CHART];
  const label = onOneLine(plain || "Chart", 200);
  const frame = framed("chart", label, {figure, label}, (data) => {
    if (data.drawn) holder.dataset.drawn = "";
    const problem = typeof data.missing === "string"
      ? `Charts of the kind ${onOneLine(data.missing, 40)} are not drawn here.`
      : typeof data.failed === "string" ? `The chart could not be drawn: ${onOneLine(data.failed, 200)}` : "";
    if (!problem) return;
    const rest = {...bundle};
    delete rest[CHART];
    const note = document.createElement("p");
    note.className = "quiet";
    note.textContent = problem;
    holder.replaceChildren(note, shown(rest));
  });
  frame.style.height = "400px";
  holder.append(frame);
  return holder;
}

function markup(html) {
  const holder = document.createElement("div");
  holder.className = "markup";
  holder.append(framed("still", "Output", {html}));
  if (/<script|\son[a-z]+\s*=/i.test(html)) {
    const bar = document.createElement("p");
    bar.className = "quiet";
    bar.append("Its scripts are off. ");
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = "Run them in a closed frame";
    button.addEventListener("click", () => holder.replaceChildren(framed("lively", "Output with scripts", {html})));
    bar.append(button);
    holder.append(bar);
  }
  return holder;
}

function markdown(source) {
  const holder = document.createElement("div");
  holder.className = "markup";
  import("./vendor/marked.esm.js").then(({marked}) => {
    holder.append(framed("still", "Output", {html: marked.parse(visible(source))}));
  });
  return holder;
}
