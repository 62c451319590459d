// Drives E2B's JavaScript SDK, as it is published, against the server that the environment names.
import { Sandbox } from '@e2b/code-interpreter'

const unique = `${Date.now()}-${Math.random()}`
const sandbox = await Sandbox.create({ metadata: { unique }, timeoutMs: 60_000 })
const told = {}

const execution = await sandbox.runCode('print("hi")\n1 + 1')
told.text = execution.text
told.stdout = execution.logs.stdout
told.error = (await sandbox.runCode('1 / 0')).error.name

const written = await sandbox.files.write('a.txt', 'from JavaScript')
told.file = `${written.path}: ${await sandbox.files.read('a.txt')}`
told.command = (await sandbox.commands.run('pwd')).stdout
const handle = await sandbox.commands.run('cat', { background: true, stdin: true })
await sandbox.commands.sendStdin(handle.pid, 'echoed\n')
await sandbox.commands.closeStdin(handle.pid)
told.stdin = (await handle.wait()).stdout

await sandbox.runCode('x = 1')
const context = await sandbox.createCodeContext()
const unknown = (await sandbox.runCode('x', { context })).error.name
told.context = [unknown, (await sandbox.runCode('x = 5\nx', { context })).text]
await sandbox.removeCodeContext(context)

const events = []
await sandbox.files.makeDir('watched')
const watcher = await sandbox.files.watchDir('watched', (event) => events.push(`${event.type} ${event.name}`))
await sandbox.files.write('watched/new.txt', '1')
while (events.length < 2) await new Promise((resolve) => setTimeout(resolve, 50))
await watcher.stop()
told.events = events

told.listed = (await Sandbox.list({ query: { metadata: { unique } } }).nextItems()).length
told.killed = [await sandbox.kill(), await sandbox.isRunning()]
console.log(JSON.stringify(told))
