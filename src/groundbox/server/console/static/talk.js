// A conversation of the agent as it is shown: the question, what the model says, the programs it runs, its answer.

import {ask, pathOf} from "./api.js";
import {Cell, make, told} from "./cells.js";
import {count, duration, onOneLine, visible} from "./text.js";

const NOTICES = {
  malformed: "The model was told that its reply cannot be used",
  read: "The model read on in an output",
  restart: "The model was told that the sandbox was started afresh",
  promise: "The model was asked to do what it promised",
  mend: "The model was asked to mend its answer, of which something is not borne out by a run",
};

/** A question and what comes of it. `actions` are those of its cells. */
export class Talk {
  constructor(question, model, actions) {
    Object.assign(this, {question, actions, runs: [], cells: new Map(), last: null});
    this.element = make("li", "talk running");
    const head = make("div", "cell-head");
    head.append(make("span", "language", `Question to ${onOneLine(model, 80)}`));
    this.steps = make("ol", "steps");
    this.footer = make("div", "footer");
    this.footer.append(make("span", "quiet", "Thinking…"));
    this.element.append(head, make("p", "question", visible(question)), this.steps, this.footer);
  }

  /** One event of it. Resolves when what it tells is shown. */
  async take({kind, data}) {
    if (kind === "replied") this.#says(data.text);
    else if (kind === "started") this.#begins(data);
    else if (kind === "observed") await this.#observes(data);
    else if (kind === "noticed") this.#notes(data);
    else if (kind === "ended") this.#end(data);
    else if (kind === "failed") this.fail(data.error?.message ?? data.message);
  }

  /** Nothing more is known of it. */
  fail(message) {
    this.#over("refused", "No answer", onOneLine(String(message), 500));
  }

  #says(text) {
    if (!text.trim()) return;
    this.last = {text, element: make("p", "said", visible(text))};
    const item = make("li");
    item.append(this.last.element);
    this.steps.append(item);
  }

  #begins({run, source, language}) {
    const cell = new Cell(source, language, run, this.actions);
    cell.begin();
    this.runs.push(cell);
    this.cells.set(run, cell);
    this.steps.append(cell.element);
    this.footer.replaceChildren(make("span", "quiet", `Running program ${run}…`));
  }

  async #observes({run, verdict, why, findings, receipt}) {
    const cell = this.cells.get(run);
    let execution = receipt; // without bytes of pictures
    if (receipt.isolation.backend !== "calc") { // which is worked out without a sandbox, and not kept
      try {
        execution = await ask("GET", pathOf("/v1/executions", receipt.execution_id));
      } catch {
        // no longer kept
      }
    }
    if (!cell) return;
    cell.end(execution);
    for (const finding of findings) cell.output.append(told(finding));
    if (verdict !== "accept") cell.output.append(make("p", "quiet", `The model is asked again: ${onOneLine(why, 300)}`));
    this.footer.replaceChildren(make("span", "quiet", "Thinking…"));
  }

  #notes({kind, text}) {
    const details = make("details", "quiet");
    const pre = make("pre", "", visible(text));
    pre.tabIndex = 0;
    details.append(make("summary", "", NOTICES[kind] ?? onOneLine(kind, 40)), pre);
    const item = make("li");
    item.append(details);
    this.steps.append(item);
  }

  #end({ending, answer, why, unsupported, spent}) {
    if (answer !== null && this.last?.text !== answer) this.#says(answer);
    if (answer !== null && this.last) {
      this.last.element.classList.add("answer");
      this.last.element.append(...unsupported.map(told));
    }
    const facts = [count(spent.runs, "program"), count(spent.tokens, "token"), duration(spent.wall_s)];
    if (ending !== "answered") facts.unshift(onOneLine(why, 300));
    const words = ending === "answered" ? "Answered" : "No answer";
    this.#over(ending === "answered" ? "ok" : ending, words, facts.join(" · "));
    this.spent = spent;
  }

  #over(outcome, words, facts) {
    for (const cell of this.runs) if (!cell.execution) cell.fail("It was called off.");
    this.element.classList.remove("running");
    this.element.dataset.outcome = outcome;
    this.footer.replaceChildren(make("span", "outcome", words), make("span", "quiet", facts));
  }
}
