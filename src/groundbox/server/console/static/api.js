// Asks /v1 of this server. The cookie goes along by itself; no script sees the key.

/** The server did not do it. `code` is a word for programs, the message a sentence for people. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The JSON of a reply, or null where it has none. */
export async function ask(method, path, body) {
  const answer = await fetch(path, {method, ...sent(body)});
  await check(answer);
  return answer.status === 204 ? null : answer.json();
}

/** The text of a reply. */
export async function askText(path) {
  const answer = await fetch(path);
  await check(answer);
  return answer.text();
}

/** The bytes of a reply, as a blob of a type that we choose. */
export async function askBlob(path, type) {
  const answer = await fetch(path);
  await check(answer);
  return new Blob([await answer.arrayBuffer()], {type});
}

/** Events of a run, as they come: `{kind, data}`. Aborting `signal` ends the run. */
export async function* events(path, body, signal) {
  yield* read(await fetch(path, {method: "POST", signal, ...sent({...body, stream: true})}));
}

/** Events of something that goes on by itself. Aborting `signal` ends the reading alone. */
export async function* follow(path, signal) {
  yield* read(await fetch(path, {signal}));
}

async function* read(answer) {
  await check(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const read = event(block);
      if (read) yield read;
    }
  }
}

/** A path of segments, each escaped. */
export function pathOf(...parts) {
  return parts.map((part) => part.split("/").map(encodeURIComponent).join("/")).join("/");
}

function sent(body) {
  if (body === undefined) return {};
  if (body instanceof Blob) return {body, headers: {"Content-Type": "application/octet-stream"}};
  return {body: JSON.stringify(body), headers: {"Content-Type": "application/json"}};
}

async function check(answer) {
  if (answer.ok) return;
  if (answer.status === 401) location.reload();
  let told = {};
  try {
    told = (await answer.json()).error ?? {};
  } catch {
    // a body that is none of ours, such as a proxy's
  }
  throw new Refused(answer.status, told.code ?? "failed", told.message ?? `The server answered with ${answer.status}.`);
}

function event(block) {
  let kind = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return kind ? {kind, data: JSON.parse(data)} : null;
}
