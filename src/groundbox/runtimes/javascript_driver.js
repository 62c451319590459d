// The process that keeps the state of JavaScript cells: evaluates what is asked on descriptor 3, a line of JSON each way.
//
// Cells are evaluated as DevTools and Node's own prompt do (V8's REPL mode): in one global scope, where `let`, `const`
// and `class` may be declared again by a later cell, and `await` stands anywhere. Everything here runs in that same
// scope, so what it uses is taken at the start, before a cell can replace it.
'use strict';
const inspector = require('node:inspector');
const module_ = require('node:module');
const net = require('node:net');
const util = require('node:util');
const vm = require('node:vm');

const { parse, stringify } = JSON;
const { isArray } = Array;
const { isInteger, isFinite } = Number;
const { keys, getPrototypeOf } = Object;
const later = setImmediate;
const MOST_TEXT = 1 << 20, MOST_DATA = 10000, MOST_DEPTH = 20;

const session = new inspector.Session();
session.connect();
const host = new net.Socket({ fd: 3, readable: true, writable: true });
const start = new vm.Script('__begin()', { filename: 'node:groundbox' });
const outputs = [process.stdout, process.stderr].map((stream) => ({ stream, write: stream.write.bind(stream) }));
let running = null;
let cells = 0;

// A value that the inspector knows by a handle only is handed over by calling a function of ours with it.
let taken;
globalThis.__hand = { take(value) { taken = value; } };
let hand;
session.post('Runtime.evaluate', { expression: '__hand' }, (_, found) => { hand = found.result.objectId; });
delete globalThis.__hand;

function take({ objectId, unserializableValue, value }) {
  if (objectId === undefined && unserializableValue === undefined) return value;
  const handle = objectId === undefined ? { unserializableValue } : { objectId };
  taken = undefined;
  session.post('Runtime.callFunctionOn', {
    objectId: hand, functionDeclaration: 'function (value) { this.take(value); }', arguments: [handle],
  });
  const got = taken;
  taken = undefined;
  return got;
}

function send(message) {
  host.write(`${stringify(message)}\n`);
}

function answer(cell, message) {
  if (running !== cell) return;
  running = null;
  whenWritten(() => send({ ev: 'done', id: cell.id, ...message }));
}

// What a full pipe did not take at once is still to come, and belongs to the cell that wrote it.
function whenWritten(then) {
  const waiting = outputs.filter(({ stream }) => stream.writableLength > 0 && !stream.destroyed);
  let left = waiting.length;
  if (left === 0) then();
  for (const { write } of waiting) write('', () => { if (--left === 0) then(); });
}

function evaluate({ id, source }) {
  const cell = { id, name: `cell-${++cells}.js`, shift: 0, uncaught: null };
  running = cell;
  const code = withoutImports(source);
  let expression = code;
  if (/^\s*\{/.test(code) && !/;\s*$/.test(code) && isExpression(`(${code}\n)`)) {
    expression = `(${code}\n)`;  // an object, as at Node's own prompt, and not a block
    cell.shift = 1;
  }
  expression += `\n//# sourceURL=${cell.name}`;
  const begin = () => session.post(
    'Runtime.evaluate', { expression, replMode: true, awaitPromise: true },
    (error, result) => later(finish, cell, error, result),
  );
  Object.defineProperty(globalThis, '__begin', { value: begin, configurable: true });
  try {
    start.runInThisContext({ breakOnSigint: true });
  } catch (error) {
    if (error?.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
    interrupted();
  } finally {
    delete globalThis.__begin;
  }
}

// The inspector evaluates neither `import` statements nor `import()`: both become calls of ours, on the same lines.
function withoutImports(source) {
  if (!source.includes('import')) return source;
  return source.replace(TOKENS, (all, skipped, names, quoted) => {
    if (skipped !== undefined) return all;
    if (quoted === undefined) return '__import(';
    const lines = '\n'.repeat(all.split('\n').length - 1);
    return `${bound(names)}await __import(${quoted})${lines}`;
  });
}

// Comments, strings and templates, which are skipped; import statements, by what they bind and from where; `import(`.
const TOKENS = new RegExp([
  /(\/\/.*|\/\*[^]*?\*\/|"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|`(?:[^`\\]|\\[^])*`)/,
  /(?<=^[ \t]*)import\s*(?:([\w$*{][\w$*{},\s]*?)\s*from\s*)?("[^"\n]*"|'[^'\n]*')/,
  /(?<![\w$.])import\s*\(/,
].map((each) => each.source).join('|'), 'gm');

function bound(names) {
  if (names === undefined) return '';
  const [, first, rest] = /^([\w$]+)?\s*,?\s*([^]*)$/.exec(names);
  const all = /^\*\s*as\s+([\w$]+)$/.exec(rest);
  if (all) return first ? `const { default: ${first} } = ${all[1]} = ` : `const ${all[1]} = `;
  const parts = first ? [`default: ${first}`] : [];
  if (rest) parts.push(rest.replace(/^\{|\}$/g, '').replace(/([\w$]+)\s+as\s+/g, '$1: '));
  return `const { ${parts.join(', ').replace(/\s+/g, ' ')} } = `;
}

function isExpression(text) {
  try {
    return Boolean(new vm.Script(text));
  } catch {
    return false;
  }
}

function finish(cell, error, result) {
  try {
    if (error) answer(cell, { ok: false, error: { type: 'Error', message: error.message } });
    else if (result.exceptionDetails) answer(cell, failed(cell, result.exceptionDetails));
    else if (cell.uncaught) answer(cell, { ok: false, error: cell.uncaught });
    else answer(cell, { ok: true, value: shown(take(result.result)) });
  } catch (fault) {  // a value whose own code fails when it is looked at
    answer(cell, { ok: false, error: failure(cell, fault) });
  }
}

function failed(cell, details) {
  const told = failure(cell, take(details.exception));
  if (told.type === 'SyntaxError' && told.line === null) {
    told.line = details.lineNumber + 1;
    told.column = details.columnNumber + 1 - (details.lineNumber === 0 ? cell.shift : 0);
    told.traceback = `${cell.name}:${told.line}:${told.column}\n${told.traceback}`;
  }
  return { ok: false, error: told };
}

function failure(cell, thrown) {
  if (!util.types.isNativeError(thrown)) {
    const text = util.inspect(thrown);
    return { type: 'Uncaught', message: cut(text), line: null, column: null, traceback: cut(`Uncaught ${text}`) };
  }
  const type = String(thrown.name), message = String(thrown.message).split('\nRequire stack:')[0];
  const frames = String(thrown.stack).split('\n').filter((line) => /^\s+at .*cell-\d+\.js:\d+:\d+\)?$/.test(line));
  const own = frames.map((line) => /cell-(\d+)\.js:(\d+):(\d+)\)?$/.exec(line)).find((at) => `cell-${at[1]}.js` === cell.name);
  const line = own ? Number(own[2]) : null;
  const column = own ? Number(own[3]) - (line === 1 ? cell.shift : 0) : null;
  const hints = [];
  if (thrown.code === 'MODULE_NOT_FOUND' || thrown.code === 'ERR_MODULE_NOT_FOUND') {
    hints.push("There is no npm here: Node's own modules and files of the workdir can be loaded.");
  }
  const traceback = cut([`${type}: ${message}`, ...frames.slice(0, 20)].join('\n'));
  return { type, message: cut(message), line, column, traceback, hints };
}

function cut(text) {
  return text.length <= MOST_TEXT ? text : `${text.slice(0, MOST_TEXT)}… ${text.length - MOST_TEXT} characters left out`;
}

function shown(value) {
  if (value === undefined) return null;
  const bundle = { 'text/plain': cut(util.inspect(value)) };
  const left = { items: MOST_DATA, text: MOST_TEXT };
  if (isPlain(value, left, 0)) bundle['application/json'] = value;
  return bundle;
}

// Whether a value is data and nothing else, and not too much of it.
function isPlain(value, left, depth) {
  if (--left.items < 0 || depth > MOST_DEPTH) return false;
  if (value === null || typeof value === 'boolean') return true;
  if (typeof value === 'number') return isFinite(value) && (!isInteger(value) || Number.isSafeInteger(value));
  if (typeof value === 'string') return (left.text -= value.length) >= 0;
  if (typeof value !== 'object' || util.types.isProxy(value)) return false;
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isPlain(value[i], left, depth + 1)) return false;
    return true;
  }
  const proto = getPrototypeOf(value);
  if (proto !== null && getPrototypeOf(proto) !== null) return false;
  if (Object.prototype.toString.call(value) !== '[object Object]' || typeof value.toJSON === 'function') return false;
  return keys(value).every((key) => isPlain(value[key], left, depth + 1));
}

function interrupted() {
  if (running) answer(running, { ok: false, error: { type: 'Interrupted', message: 'the run was interrupted' } });
}

// What fails outside of any call of ours fails the cell that runs; between two cells it is only said.
function uncaught(error) {
  const told = failure(running ?? { name: '' , shift: 0 }, error);
  if (running) running.uncaught ??= told;
  else process.stderr.write(`Uncaught ${told.traceback}\n`);
}

process.on('SIGINT', interrupted);
process.on('uncaughtException', uncaught);
process.on('unhandledRejection', uncaught);
process.execArgv = [];
globalThis.require = module_.createRequire(`${process.cwd()}/`);
Object.defineProperty(globalThis, '__import', { value: (name) => import(name) });
globalThis.display = (value) => {
  const bundle = isBundle(value) ? value : shown(value);
  if (bundle) send({ ev: 'display', data: bundle });
};

function isBundle(value) {
  return isPlain(value, { items: 100, text: 1 << 23 }, 0) && !isArray(value) && value !== null
    && typeof value === 'object' && keys(value).length > 0 && keys(value).every((key) => /^\w+\/[\w.+-]+$/.test(key));
}

let rest = [];
host.on('data', (data) => {
  const end = data.indexOf(10);
  rest.push(end < 0 ? data : data.subarray(0, end));
  if (end < 0) return;
  const question = parse(Buffer.concat(rest).toString());
  rest = [];
  evaluate(question);
});
host.on('close', () => process.exit());
