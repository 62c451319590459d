// The run as a tree of calls, steps and loops. A branch is made when it is opened.
const FIRST_ITERATIONS = 2, MORE_AT_ONCE = 200;

const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

// Scrolls one box and never the page, so that a narrow window stays where its reader is.
function reveal(box, row) {
  const outer = box.getBoundingClientRect(), inner = row.getBoundingClientRect();
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top + 20;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom + 20;
}

class Outline {
  constructor(data, place, go) {
    this.data = data;
    this.go = go;
    this.here = null;
    this.leaves = new Map();
    for (const root of data.roots) place.append(this.activation(root, true));
  }

  source(line) {
    return (this.data.lines[line - 1] || "").trim();
  }

  branch(title, className, fill, t, open = false) {
    const details = element("details");
    const summary = element("summary", className);
    summary.append(...title);
    const inner = element("div", "inner");
    details.append(summary, inner);
    let made = false;
    const make = () => { if (details.open && !made) { made = true; fill(inner); } };
    details.addEventListener("toggle", make);
    summary.addEventListener("click", () => { if (t !== null) this.go(t); });
    details.open = open;
    if (t !== null) this.leaves.set(t, summary);
    make();
    return details;
  }

  activation(frame, open = false) {
    const call = this.data.activations[frame];
    const words = call.name === "<module>" ? this.data.filename : `${call.name}()`;
    return this.branch([element("span", "", words)], "", (inner) => this.nodes(inner, call.body), call.first, open);
  }

  nodes(place, body, from = 0) {
    for (const node of body.slice(from, from + MORE_AT_ONCE)) place.append(node[0] === "step" ? this.step(node) : this.loop(node));
    if (body.length > from + MORE_AT_ONCE) this.rest(place, body.length - from - MORE_AT_ONCE, "steps", () => this.nodes(place, body, from + MORE_AT_ONCE));
  }

  rest(place, count, what, fill) {
    const button = element("div", "leaf skipped", `… ${count} more ${what} …`);
    button.addEventListener("click", () => { button.remove(); fill(); });
    place.append(button);
  }

  title(line, truth) {
    const parts = [element("span", "line", String(line)), element("span", "", shortened(this.source(line), 60))];
    if (truth !== null) parts.push(element("span", "truth", truth ? "  true" : "  false"));
    return parts;
  }

  step([, t, line, truth, calls]) {
    if (calls.length) {
      return this.branch(this.title(line, truth), "", (inner) => { for (const frame of calls) inner.append(this.activation(frame)); }, t);
    }
    const leaf = element("div", "leaf");
    leaf.append(...this.title(line, truth));
    leaf.addEventListener("click", () => this.go(t));
    this.leaves.set(t, leaf);
    return leaf;
  }

  loop([, line, , exit, count, iterations, folds, closing]) {
    const words = `${this.source(line)}   ${count}×${exit ? ", " + exit : ""}`;
    const title = [element("span", "line", String(line)), element("span", "", shortened(words, 70))];
    const fill = (inner) => {
      this.iterations(inner, iterations.slice(0, FIRST_ITERATIONS));
      const middle = iterations.slice(FIRST_ITERATIONS, -1);
      if (middle.length) this.rest(inner, middle.length, "iterations", () => inner.replaceChildren(...this.all(iterations, closing)));
      for (const [record, , number] of folds) {
        const row = element("div", "leaf skipped", `… ${number} iterations were not recorded …`);
        row.addEventListener("click", () => this.go(record));
        inner.append(row);
      }
      if (iterations.length > FIRST_ITERATIONS) this.iterations(inner, iterations.slice(-1));
      if (closing) inner.append(this.step(closing));
    };
    return this.branch(title, "", fill, null);
  }

  all(iterations, closing) {
    const place = element("div");
    this.iterations(place, iterations);
    if (closing) place.append(this.step(closing));
    return [place];
  }

  iterations(place, iterations, from = 0) {
    for (const [number, body] of iterations.slice(from, from + MORE_AT_ONCE)) {
      const first = body.length && body[0][0] === "step" ? body[0][1] : null;
      place.append(this.branch([element("span", "", `iteration ${number}`)], "", (inner) => this.nodes(inner, body), first));
    }
    if (iterations.length > from + MORE_AT_ONCE) this.rest(place, iterations.length - from - MORE_AT_ONCE, "iterations", () => this.iterations(place, iterations, from + MORE_AT_ONCE));
  }

  mark(t) {
    if (this.here) this.here.classList.remove("here");
    this.here = this.leaves.get(t) || null;
    if (this.here) { this.here.classList.add("here"); reveal(document.getElementById("outline"), this.here); }
  }
}
