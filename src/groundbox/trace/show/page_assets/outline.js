// The run as a tree of calls, steps and loops. A branch is made when it is opened.
const FIRST_ITERATIONS = 2, MORE_AT_ONCE = 200;

const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = visible(text);
  if (name === "button") made.type = "button";
  return made;
};

// Scrolls one box and never the page, so that a narrow window stays where its reader is.
function reveal(box, row) {
  const outer = box.getBoundingClientRect(), inner = row.getBoundingClientRect();
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top + 20;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom + 20;
}

// The record with which a step or a loop begins; null for a loop of which nothing is known.
function startOf([kind, ...rest]) {
  if (kind === "step") return rest[0];
  const [, , , , iterations, folds, closing] = rest;
  if (iterations.length && iterations[0][1].length) return startOf(iterations[0][1][0]);
  return folds.length ? folds[0][0] : closing ? startOf(closing) : null;
}

class Outline {
  constructor(data, place, go) {
    this.data = data;
    this.go = go;
    this.here = null;
    this.leaves = new Map();
    this.starts = [];
    this.t = -1;
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
    details.addEventListener("toggle", () => { make(); this.mark(); });
    summary.addEventListener("click", () => { if (t !== null) this.go(t); });
    details.open = open;
    if (t !== null) this.leaves.set(t, summary);
    make();
    return details;
  }

  activation(frame, open = false) {
    const call = this.data.activations[frame];
    const words = call.name === "<module>" ? this.data.filename : `${call.name}()`;
    const title = [element("span", "", words)];
    const end = call.last === null ? undefined : this.data.records[call.last];
    if (end && end.k === "return" && call.name !== "<module>" && (end.v === undefined || isLeaf(end.v))) {
      title.push(element("span", "truth", `  → ${shortened(valueText(null, end.v === undefined ? null : end.v, 1), 40)}`));
    }
    return this.branch(title, "", (inner) => this.nodes(inner, call.body), call.first, open);
  }

  nodes(place, body, from = 0) {
    for (const node of body.slice(from, from + MORE_AT_ONCE)) place.append(node[0] === "step" ? this.step(node) : this.loop(node));
    if (body.length > from + MORE_AT_ONCE) this.rest(place, body.length - from - MORE_AT_ONCE, "steps", startOf(body[from + MORE_AT_ONCE]), () => this.nodes(place, body, from + MORE_AT_ONCE));
  }

  rest(place, count, what, t, fill) {
    const button = element("button", "leaf skipped", `… ${count} more ${what} …`);
    button.addEventListener("click", () => { button.remove(); fill(); });
    if (t !== null) this.leaves.set(t, button);
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
    const leaf = element("button", "leaf");
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
      if (middle.length) this.rest(inner, middle.length, "iterations", startOf(["loop", 0, 0, 0, 0, middle, [], null]), () => inner.replaceChildren(...this.all(iterations, folds, closing)));
      this.end(inner, iterations.length > FIRST_ITERATIONS ? iterations.slice(-1) : [], folds, closing);
    };
    const branch = this.branch(title, "", fill, null);
    const start = startOf(["loop", line, 0, 0, count, iterations, folds, closing]);
    if (start !== null) this.leaves.set(start, branch.firstChild);
    return branch;
  }

  all(iterations, folds, closing) {
    const place = element("div");
    this.iterations(place, iterations);
    this.end(place, [], folds, closing);
    return [place];
  }

  end(place, iterations, folds, closing) {
    for (const [record, , number] of folds) {
      const row = element("button", "leaf skipped", `… ${number} iterations were not recorded …`);
      row.addEventListener("click", () => this.go(record));
      place.append(row);
    }
    this.iterations(place, iterations);
    if (closing) place.append(this.step(closing));
  }

  iterations(place, iterations, from = 0) {
    for (const [number, body] of iterations.slice(from, from + MORE_AT_ONCE)) {
      const first = body.length ? startOf(body[0]) : null;
      place.append(this.branch([element("span", "", `iteration ${number}`)], "", (inner) => this.nodes(inner, body), first));
    }
    if (iterations.length > from + MORE_AT_ONCE) this.rest(place, iterations.length - from - MORE_AT_ONCE, "iterations", startOf(["loop", 0, 0, 0, 0, iterations.slice(from + MORE_AT_ONCE), [], null]), () => this.iterations(place, iterations, from + MORE_AT_ONCE));
  }

  // Marks the last thing that began, as far as branches are open; what is inside a closed one is marked at its title.
  mark(t) {
    if (t !== undefined) this.t = t;
    if (this.here) { this.here.classList.remove("here"); this.here.removeAttribute("aria-current"); }
    this.here = this.beginning(this.t);
    if (!this.here) return;
    for (let at = this.here.closest("details:not([open])"); at; at = at.parentElement.closest("details:not([open])")) this.here = at.firstChild;
    this.here.classList.add("here");
    this.here.setAttribute("aria-current", "step");
    if (t !== undefined) reveal(document.getElementById("outline"), this.here);
  }

  beginning(t) {
    if (this.starts.length !== this.leaves.size) this.starts = [...this.leaves.keys()].sort((a, b) => a - b);
    let low = 0, high = this.starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= t) low = middle + 1; else high = middle;
    }
    return low ? this.leaves.get(this.starts[low - 1]) : null;
  }
}
