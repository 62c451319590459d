// Values that are tables, shown as such: arrays of two dimensions, rows as lists of one length, and rows as dicts.
const MOST_TABLES = 8, MOST_TABLE_ROWS = 24, MOST_COLUMNS = 16, MOST_CELL = 40;

const isLeaf = (value) => value === null || typeof value !== "object" || !("ref" in value);

// A table is { columns, rows, total, shape }; a row is { label, cells, id } and a gap { gap }.
function tableOf(state, label) {
  const object = state.heap.get(label);
  if (!object || !object.items || object.items.length < 2) return null;
  if (object.type === "array") return object.shape && object.shape.length === 2 ? arrayTable(object) : null;
  return object.type === "list" && object.items.every((item) => isGap(item) || isRef(item)) ? rowsTable(state, object) : null;
}

function arrayTable(object) {
  const [height, width] = object.shape;
  if (!height || !width || counted(object.items.map((item) => (isGap(item) ? item : { gap: 1 }))) !== height * width) return null;
  const rows = [];
  let at = 0;
  for (const item of object.items) {
    const count = isGap(item) ? item.gap : 1;
    for (let left = count; left > 0;) {
      const row = Math.floor(at / width), column = at % width;
      const whole = isGap(item) && column === 0 ? Math.floor(left / width) : 0;
      if (whole) { rows.push({ gap: whole }); at += whole * width; left -= whole * width; continue; }
      if (column === 0) rows.push({ label: String(row), cells: [] });
      rows[rows.length - 1].cells.push(isGap(item) ? undefined : item);
      at += 1; left -= 1;
    }
  }
  return { columns: numbers(width), rows, total: height, shape: `${height} × ${width}` };
}

const numbers = (count) => Array.from({ length: count }, (_, number) => String(number));

// Rows that are objects of their own, all alike and holding nothing that is an object itself.
function rowsTable(state, object) {
  const rows = [];
  let columns = null, keyed = false, number = 0;
  for (const item of object.items) {
    if (isGap(item)) { rows.push({ gap: item.gap }); number += item.gap; continue; }
    const row = state.heap.get(item.ref);
    if (!row || row.attrs.size || (row.class && row.class !== row.type)) return null;
    const parts = row.type === "dict" ? pairsOf(row) : row.type === "list" ? row.items : null;
    if (!parts || parts.length < 2 || parts.some(isGap)) return null;
    const cells = row.type === "dict" ? parts.map((pair) => pair[1]) : parts;
    const names = row.type === "dict" ? parts.map((pair) => (typeof pair[0] === "string" ? word(pair[0]) : valueText(state, pair[0], 1))) : numbers(parts.length);
    if (!cells.every(isLeaf)) return null;
    if (columns === null) { columns = names; keyed = row.type === "dict"; }
    if (keyed !== (row.type === "dict") || names.join("\n") !== columns.join("\n")) return null;
    rows.push({ label: String(number), cells, id: item.ref });
    number += 1;
  }
  return columns === null ? null : { columns, rows, total: number, shape: `${number} × ${columns.length}` };
}

// The tables that names of these frames lead to, and the labels of all that they show.
function tablesOf(frames, state, changes) {
  const names = new Map(), labels = new Set(), shown = [];
  for (const frame of frames) {
    for (const [name, value] of [...frame.names, ...frame.others]) {
      if (!isRef(value)) continue;
      if (!names.has(value.ref)) names.set(value.ref, []);
      names.get(value.ref).push(word(name));
    }
  }
  for (const [label, called] of names) {
    if (shown.length >= MOST_TABLES) break;
    const table = tableOf(state, label);
    // A row that has a name of its own, or stands twice, is better shown with arrows: it is one object, and not two.
    const ids = table ? table.rows.flatMap((row) => (row.id === undefined ? [] : [row.id])) : [];
    if (!table || new Set(ids).size < ids.length || ids.some((id) => names.has(id))) continue;
    for (const id of [label, ...ids]) labels.add(id);
    shown.push(drawnTable(table, [...new Set(called)].join(", "), state, changes, label));
  }
  return { labels, shown };
}

function drawnTable(table, called, state, changes, label) {
  const figure = element("figure", changes.objects.has(label) ? "data changed" : "data");
  const caption = element("figcaption", "", called);
  caption.append(element("span", "quiet", `  ${table.shape}`));
  const made = element("table"), head = element("tr"), body = element("tbody"), top = element("thead");
  const columns = table.columns.slice(0, MOST_COLUMNS), wider = table.columns.length - columns.length;
  head.append(element("th", "", ""), ...columns.map((name) => element("th", "", shortened(name, MOST_CELL))));
  if (wider) head.append(element("th", "quiet", more(wider)));
  top.append(head);
  const half = MOST_TABLE_ROWS / 2;
  const cut = table.rows.length > MOST_TABLE_ROWS;
  const rows = cut ? [...table.rows.slice(0, half), { gap: gapOf(table.rows.slice(half, -half)) }, ...table.rows.slice(-half)] : table.rows;
  for (const row of rows) body.append(tableRow(row, columns.length + 1 + (wider ? 1 : 0), wider, state, changes));
  made.append(top, body);
  const scroll = element("div", "scroll");
  scroll.append(made);
  figure.append(caption, scroll);
  return figure;
}

const gapOf = (rows) => rows.reduce((sum, row) => sum + (row.gap || 1), 0);

function tableRow(row, width, wider, state, changes) {
  const touched = row.id === undefined ? undefined : changes.objects.get(row.id);
  const made = element("tr", touched === undefined ? "" : "changed");
  if (row.gap) {
    const cell = element("td", "quiet", `… ${row.gap.toLocaleString("en")} more rows …`);
    cell.colSpan = width;
    made.append(cell);
    return made;
  }
  made.append(element("th", "", row.label));
  for (const value of row.cells.slice(0, MOST_COLUMNS)) {
    const text = value === undefined ? "…" : typeof value === "string" ? visible(value) : valueText(state, value, 1);
    const cell = element("td", typeof value === "number" || (value && value.float) ? "number" : "", shortened(text, MOST_CELL));
    if (text.length > MOST_CELL) cell.title = shortened(text, MOST_WHOLE);
    made.append(cell);
  }
  if (wider) made.append(element("td", "quiet", "…"));
  return made;
}
