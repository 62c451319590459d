// A shell of the selected sandbox. Its bytes go between a WebSocket and a frame of another origin, which draws them:
// no control sequence of a guest is ever read by this page.

import {ask, pathOf} from "./api.js";
import {framed} from "./bundles.js";
import {onOneLine} from "./text.js";

const TAG = "console";
const TYPE_MS = 10_000;

/** The terminal of one sandbox, inside `holder`. `leave` is called when the keyboard is to go elsewhere. */
export class SandboxTerminal {
  constructor(holder, sandbox, leave) {
    Object.assign(this, {holder, sandbox, size: [24, 80], socket: null, waiting: []});
    this.note = document.createElement("p");
    this.note.className = "quiet";
    this.ready = new Promise((resolve) => {
      this.frame = framed("terminal", "Terminal", {}, (data) => {
        if (Array.isArray(data.size)) this.#resize(data.size.map(Number));
        if (data.ready) resolve();
        if (typeof data.typed === "string") this.#send(new TextEncoder().encode(data.typed));
        if (data.leave) leave();
      });
    });
    holder.replaceChildren(this.frame, this.note);
  }

  /** Take part in the shell that is there, or start one. */
  async open() {
    await this.ready;
    this.note.replaceChildren();
    const path = pathOf("/v1/sandboxes", this.sandbox, "processes");
    const {processes} = await ask("GET", path);
    const there = processes.find(({tag, exit}) => tag === TAG && exit === null);
    const process = there ?? await ask("POST", path, {
      command: ["bash", "-i"], pty: this.size, tag: TAG, env: {TERM: "xterm-256color"},
    });
    const address = new URL(`${path}/${process.pid}/terminal`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.socket = socket;
      for (const each of this.waiting.splice(0)) socket.send(each);
      this.#resize(this.size);
      if (there) this.#send(new Uint8Array([12])); // Ctrl-L: a shell that is there already draws its line again
    });
    socket.addEventListener("message", ({data}) => {
      if (typeof data !== "string") this.frame.contentWindow?.postMessage({bytes: new Uint8Array(data)}, "*");
      else if (JSON.parse(data).exit) this.#ended("The shell has ended. ");
    });
    socket.addEventListener("close", ({reason}) => {
      if (this.socket === socket || this.socket === null) this.#ended(reason ? `${onOneLine(reason, 200)}. ` : "The shell was left. ");
      this.socket = null;
    });
    this.focus();
  }

  focus() {
    this.frame.focus();
    this.frame.contentWindow?.postMessage({focus: true}, "*");
  }

  /** Leave it; the shell goes on. */
  close() {
    this.isClosed = true;
    this.socket?.close();
    this.holder.replaceChildren();
  }

  #send(bytes) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(bytes);
    else if (!this.note.hasChildNodes()) {
      this.waiting.push(bytes);
      setTimeout(() => this.waiting.splice(0), TYPE_MS);
    }
  }

  #resize(size) {
    if (size.length !== 2 || !size.every((each) => Number.isInteger(each) && each > 0 && each < 1000)) return;
    this.size = size;
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({resize: size}));
  }

  #ended(words) {
    if (this.isClosed || this.note.hasChildNodes()) return;
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = "Open again";
    button.addEventListener("click", () => {
      this.frame.contentWindow?.postMessage({clear: true}, "*");
      this.open();
    });
    this.note.replaceChildren(words, button);
  }
}
