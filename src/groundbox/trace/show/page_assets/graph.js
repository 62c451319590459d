// Objects as boxes, with arrows from names and from the parts that hold them: lists, dicts, trees, linked nodes.
const SVG = "http://www.w3.org/2000/svg";
const MOST_OBJECTS = 60, MOST_COUNTED = 5000, MOST_ROWS = 14, MOST_CELLS = 16;
const CHAR = 7.9, ROW = 22, PAD = 8, GAP_X = 56, GAP_Y = 16;
const LEAST_SCALE = 0.75;
const BROAD = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

const wide = (text) => [...text].reduce((sum, c) => sum + (BROAD.test(c) ? 2 : 1), 0) * CHAR;

const svg = (name, attributes, text) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = visible(text);
  return element;
};

// A text, and the whole of it where the reader points at what was shortened.
const label = (attributes, part) => {
  const made = svg("text", attributes, part.text);
  if (part.whole !== undefined && part.whole !== part.text) made.append(svg("title", {}, part.whole));
  return made;
};
const MOST_WHOLE = 2000;
const fitting = (text, most) => ({ text: shortened(text, most), whole: shortened(text, MOST_WHOLE) });

class Graph {
  constructor(state, changes, elsewhere = new Set()) {
    this.state = state;
    this.elsewhere = elsewhere;
    this.changes = changes;
    this.boxes = new Map();
    this.left = new Set();
  }

  // The objects of outer frames are laid out first, so that a tree stays where it is while calls walk through it.
  draw(frames) {
    const roots = [];
    for (const frame of frames.slice().reverse()) {
      const names = [...frame.names, ...frame.others];
      for (const [name, value] of names) {
        if (isRef(value) && this.worth(value.ref)) roots.push({ frame, name, label: value.ref, top: frame === frames[0] });
      }
    }
    for (const root of roots) this.add(root.label);
    if (!roots.length) return [element("div", "none", "none")];
    const picture = this.render(roots);
    if (!this.left.size) return [picture];
    const count = this.left.size < MOST_COUNTED ? this.left.size : `${MOST_COUNTED} or`;
    return [picture, element("div", "none", `… ${count} more objects …`)];
  }

  worth(label) {
    const object = this.state.heap.get(label);
    return object !== undefined && !this.elsewhere.has(label) && (object.type !== "class" || object.attrs.size > 0);
  }

  add(start) {
    const waiting = [start];
    while (waiting.length) {
      const label = waiting.shift();
      if (this.boxes.has(label) || !this.state.heap.has(label)) continue;
      const full = this.boxes.size >= MOST_OBJECTS;
      if (full && (this.left.has(label) || this.left.size >= MOST_COUNTED)) continue;
      const box = this.box(label);
      if (full) this.left.add(label);
      else this.boxes.set(label, box);
      for (const link of box.links) waiting.push(link.to);
    }
  }

  box(label) {
    const object = this.state.heap.get(label);
    const touched = this.changes.objects.get(label);
    const title = (object.class || object.type) + (object.shape ? ` ${object.shape.join("×")}` : "");
    const box = { label, title, rows: [], cells: null, links: [], children: [], touched: touched !== undefined };
    const attrs = [...object.attrs].map(([name, value]) => ({ key: word(name), place: name, value }));
    if (object.hidden) attrs.push({ gap: object.hidden });
    if (object.type === "object" || object.type === "class") this.rows(box, attrs, touched);
    else if (object.pairs !== null) this.rows(box, [...pairsOf(object).map((pair) => this.entry(pair)), ...attrs], touched);
    else if (itemsOf(object) === null) box.cells = [fitting(bytesText(object.hex, object.length), 24)];
    else if (attrs.length || itemsOf(object).some(isRef)) this.rows(box, [...numbered(itemsOf(object)), ...attrs], touched);
    else this.cells(box, object, touched);
    this.measure(box);
    return box;
  }

  entry(pair) {
    return isGap(pair) ? pair : { key: valueText(this.state, pair[0], 1), place: pair[0], value: pair[1] };
  }

  rows(box, entries, touched) {
    for (const entry of entries.slice(0, MOST_ROWS)) {
      if (isGap(entry)) { box.rows.push({ key: { text: "" }, text: more(entry.gap) }); continue; }
      const { place, value } = entry;
      const row = { key: fitting(entry.key, 18), fresh: isTouched(touched, place), text: "" };
      if (isRef(value) && this.worth(value.ref)) { row.link = value.ref; box.links.push({ row: box.rows.length, to: value.ref }); }
      else Object.assign(row, fitting(valueText(this.state, value, 1), 26), { string: typeof value === "string" });
      box.rows.push(row);
    }
    const rest = entries.slice(MOST_ROWS);
    if (rest.length) box.rows.push({ key: { text: "" }, text: more(counted(rest)) });
    if (!entries.length) box.rows.push({ key: { text: "" }, text: "empty" });
  }

  cells(box, object, touched) {
    let items = itemsOf(object).map((item, index) => ({ item, index }));
    if (items.length > MOST_CELLS) {
      const hidden = counted(items.slice(MOST_CELLS - 4, -3).map(({ item }) => item));
      items = [...items.slice(0, MOST_CELLS - 4), { item: { gap: hidden }, index: -1 }, ...items.slice(-3)];
    }
    const ordered = object.type !== "set";
    box.cells = items.map(({ item, index }) => isGap(item) ? { text: `… ${item.gap} …` } : {
      ...fitting(valueText(this.state, item, 1), 14),
      index: ordered && !itemsOf(object).slice(0, index).some(isGap) ? index : null,
      fresh: isTouched(touched, ordered ? index : item), string: typeof item === "string",
    });
    if (!box.cells.length) box.cells.push({ text: "empty" });
  }

  measure(box) {
    if (box.cells) {
      for (const cell of box.cells) cell.width = Math.max(22, wide(cell.text) + 2 * PAD);
      box.width = Math.max(wide(box.title) * 0.85 + 4, box.cells.reduce((sum, cell) => sum + cell.width, 0));
      box.height = 16 + ROW + 12;
    } else {
      box.keys = Math.max(...box.rows.map((row) => wide(row.key.text))) + 2 * PAD;
      const values = Math.max(18, ...box.rows.map((row) => wide(row.text) + 2 * PAD));
      box.width = Math.max(wide(box.title) * 0.85 + 4, box.keys + values);
      box.height = 16 + box.rows.length * ROW;
    }
  }

  render(all) {
    let roots = all;
    const placed = new Set(), columns = [];
    // Each object hangs below the first arrow that leads to it; depth is its column.
    const hang = (label, depth) => {
      const stack = [[label, depth]];
      while (stack.length) {
        const [here, level] = stack.pop();
        const box = this.boxes.get(here);
        box.depth = level;
        columns[level] = Math.max(columns[level] || 0, box.width);
        for (const link of box.links) {
          if (this.boxes.has(link.to) && !placed.has(link.to)) { placed.add(link.to); box.children.push(link.to); stack.push([link.to, level + 1]); }
        }
      }
    };
    const tops = [];
    for (const root of roots) {
      if (this.boxes.has(root.label) && !placed.has(root.label)) { placed.add(root.label); tops.push(root.label); hang(root.label, 0); }
    }
    // Names of what hangs on something else stand beside it, all others in a column of their own.
    this.beside(roots.filter((root) => !tops.includes(root.label)));
    roots = roots.filter((root) => tops.includes(root.label));
    const names = roots.map((root) => fitting(rootText(root), 30));
    const margin = Math.max(...names.map((name) => wide(name.text))) + 30;
    for (const box of this.boxes.values()) {
      if (box.beside) columns[box.depth] = Math.max(columns[box.depth], (wide(box.title) + wide(box.beside.text) + 4 * CHAR) * 0.85);
    }
    const starts = [];
    let x = margin + 34;
    for (const width of columns) { starts.push(x); x += width + GAP_X; }
    let y = 12;
    for (const top of tops) y = this.stack(top, y, starts) + GAP_Y;
    y = this.spread(roots, Math.max(y, 8));
    const width = Math.ceil(x), height = Math.ceil(y + 10);
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    picture.style.minWidth = `${Math.ceil(width * LEAST_SCALE)}px`;
    picture.append(svg("title", {}, "Objects and the names that lead to them"));
    this.arrows(picture, roots, margin);
    roots.forEach((root, index) => {
      const fresh = this.changes.names.has(`${root.frame.number}:${root.name}`);
      picture.append(label({ x: margin - 14, y: root.y + 4, "text-anchor": "end", class: fresh ? "root changed" : "root" }, names[index]));
      picture.append(svg("circle", { cx: margin - 6, cy: root.y, r: 3, class: "dot" }));
    });
    for (const box of this.boxes.values()) if (box.x !== undefined) this.paint(picture, box);
    return picture;
  }

  beside(roots) {
    for (const root of roots) {
      const box = this.boxes.get(root.label);
      if (!box) continue;
      const before = box.beside ? box.beside.text : "";
      if (before.endsWith("…") || before.includes(rootText(root))) continue;
      const text = before.length > 24 ? before + ", …" : (before ? before + ", " : "← ") + rootText(root);
      const fresh = this.changes.names.has(`${root.frame.number}:${root.name}`) || (box.beside || {}).fresh;
      box.beside = { text, fresh };
    }
  }

  // Places a box and what hangs on it from y on; returns where they end. Written without recursion, for long chains.
  stack(top, y, starts) {
    const order = [];
    const waiting = [top];
    while (waiting.length) { const label = waiting.pop(); order.push(label); waiting.push(...this.boxes.get(label).children); }
    for (const label of order.slice().reverse()) {
      const box = this.boxes.get(label);
      const below = box.children.reduce((sum, child) => sum + this.boxes.get(child).tall + GAP_Y, -GAP_Y);
      box.tall = Math.max(box.height, below);
    }
    this.boxes.get(top).from = y;
    for (const label of order) {
      const box = this.boxes.get(label);
      box.x = starts[box.depth];
      const below = box.children.reduce((sum, child) => sum + this.boxes.get(child).tall + GAP_Y, -GAP_Y);
      // A single child stands level with its parent, so that a chain is a straight row.
      box.y = box.children.length > 1 ? box.from + (box.tall - box.height) / 2 : box.from;
      let at = box.from + Math.max(0, (box.tall - below) / 2);
      if (box.children.length === 1) at = box.from;
      for (const child of box.children) { this.boxes.get(child).from = at; at += this.boxes.get(child).tall + GAP_Y; }
    }
    return y + this.boxes.get(top).tall;
  }

  // Names stand level with what they hold, apart from each other, in the order of what they hold.
  spread(roots, bottom) {
    const level = (root) => { const box = this.boxes.get(root.label); return box && box.y !== undefined ? box.y + 16 + ROW / 2 : bottom; };
    let last = -ROW;
    for (const root of roots.slice().sort((a, b) => level(a) - level(b))) { root.y = Math.max(level(root), last + 20); last = root.y; }
    return Math.max(bottom, last + 20);
  }

  arrows(picture, roots, margin) {
    const count = new Map();
    const point = (to) => count.set(to, (count.get(to) || 0) + 1);
    roots.forEach((root) => point(root.label));
    this.boxes.forEach((box) => box.links.forEach((link) => point(link.to)));
    // An arrow to what stands no further right turns round and comes in from the right, at the title's end of the box.
    const line = (x, y, to) => {
      const box = this.boxes.get(to);
      if (!box || box.x === undefined) return;
      const back = box.x < x + 12;
      const aim = back ? { x: box.x + box.width + 2, y: box.y + 16 + 4 } : { x: box.x - 2, y: box.y + 16 + ROW / 2 };
      const bend = back ? 46 : Math.max(20, (aim.x - x) / 2);
      const path = back
        ? `M${x},${y} C${Math.max(x, aim.x) + bend},${y} ${Math.max(x, aim.x) + bend},${aim.y} ${aim.x + 6},${aim.y}`
        : `M${x},${y} C${x + bend},${y} ${aim.x - bend},${aim.y} ${aim.x - 5},${aim.y}`;
      picture.append(svg("path", { d: path, class: count.get(to) > 1 ? "arrow alias" : "arrow" }));
      picture.append(svg("path", { d: `M${aim.x},${aim.y} l${back ? 7 : -7},-4 v8 z`, class: "head-of-arrow" }));
    };
    for (const root of roots) line(margin - 6, root.y, root.label);
    for (const box of this.boxes.values()) {
      if (box.x === undefined) continue;
      for (const link of box.links) line(box.x + box.width - 9, box.y + 16 + link.row * ROW + ROW / 2, link.to);
    }
  }

  paint(picture, box) {
    const title = svg("text", { x: box.x + 1, y: box.y + 11, class: "label" }, `${box.title} #${box.label}  `);
    if (box.beside) title.append(svg("tspan", { class: box.beside.fresh ? "root changed" : "root" }, box.beside.text));
    picture.append(title);
    const top = box.y + 16, height = box.cells ? ROW : box.rows.length * ROW;
    picture.append(svg("rect", { x: box.x, y: top, width: box.width, height, rx: 4, class: box.touched ? "box changed" : "box" }));
    if (box.cells) this.paintCells(picture, box, top);
    else this.paintRows(picture, box, top);
  }

  paintCells(picture, box, top) {
    let x = box.x;
    for (const cell of box.cells) {
      if (cell.fresh) picture.append(svg("rect", { x: x + 1, y: top + 1, width: cell.width - 2, height: ROW - 2, class: "cell new" }));
      if (x > box.x) picture.append(svg("line", { x1: x, x2: x, y1: top, y2: top + ROW, class: "cell" }));
      picture.append(label({ x: x + cell.width / 2, y: top + 15, "text-anchor": "middle", class: cell.string ? "atom string" : "atom" }, cell));
      if (cell.index !== null && cell.index !== undefined) {
        picture.append(svg("text", { x: x + cell.width / 2, y: top + ROW + 11, "text-anchor": "middle", class: "label" }, String(cell.index)));
      }
      x += cell.width;
    }
  }

  paintRows(picture, box, top) {
    box.rows.forEach((row, index) => {
      const y = top + index * ROW;
      if (row.fresh) picture.append(svg("rect", { x: box.x + 1, y: y + 1, width: box.width - 2, height: ROW - 2, class: "cell new" }));
      if (index) picture.append(svg("line", { x1: box.x, x2: box.x + box.width, y1: y, y2: y, class: "cell" }));
      picture.append(label({ x: box.x + PAD, y: y + 15, class: "key" }, row.key));
      if (row.link) picture.append(svg("circle", { cx: box.x + box.width - 9, cy: y + ROW / 2, r: 3, class: "dot" }));
      else picture.append(label({ x: box.x + box.keys + 2, y: y + 15, class: row.string ? "atom string" : "atom" }, row));
    });
  }
}

const rootText = (root) => (root.top || root.frame.name === "<module>" ? "" : root.frame.name.split(".").pop() + " · ") + root.name;

function numbered(items) {
  const entries = [];
  let at = 0;
  for (const item of items) {
    entries.push(isGap(item) ? item : { key: String(at), place: at, value: item });
    at += isGap(item) ? item.gap : 1;
  }
  return entries;
}

// touched: true for all of an object, else the places that changed.
const isTouched = (touched, place) => touched === true || (touched !== undefined && touched.has(keyOf(place)));
