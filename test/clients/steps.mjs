// What every client is put through. A client's script says how each step is done
// with it; one that it has no way for is left out. The server and the way to it come
// as JSON in the first argument, what came of it goes to standard output.
import { setTimeout as pause } from 'node:timers/promises'

export const target = JSON.parse(process.argv[2])

// What the two servers call their things.
const names = {
  modern: { ask: 'ask', asked: /Hello, Ada/, long: 'long', prompt: 'city', prompted: /Tell me of Vienna/ },
  legacy: {
    ask: 'trigger-elicitation-request', asked: /Ada/, long: 'trigger-long-running-operation',
    prompt: 'args-prompt', prompted: /in Vienna/,
  },
}[target.era]

export const person = { name: 'Ada', check: true, email: 'ada@example.com', integer: 42 }

const must = (ok, what) => {
  if (!ok) throw new Error(typeof what === 'string' ? what : JSON.stringify(what))
}
const matches = (result, pattern) => must(pattern.test(JSON.stringify(result)), result)

const steps = {
  async tools(c) {
    matches(await c.tools(), /"echo"/)
  },
  async call(c) {
    matches(await c.call('echo', { message: 'grüß Gott' }), /Echo: grüß Gott/)
  },
  async elicitation(c) {
    matches(await c.elicitation(names.ask), names.asked)
  },
  async resources(c) {
    const [first] = await c.resources()
    matches(await c.read(first.uri), /"(text|blob)"/)
  },
  async prompts(c) {
    matches(await c.prompts(), new RegExp(`"${names.prompt}"`))
    matches(await c.prompt(names.prompt, { city: 'Vienna' }), names.prompted)
  },
  async progress(c) {
    const heard = []
    matches(await c.progress(names.long, { duration: 0.4, steps: 4 }, p => heard.push(p.progress)), /content/)
    // On a pipe the TypeScript clients lose the last word where the answer comes with
    // it, without a bridge too.
    must(heard.length >= 3 && heard.every((p, i) => p === i + 1), `heard ${heard}`)
  },
  async cancellation(c) {
    const before = target.era === 'modern' && JSON.stringify(await c.call('given-up', {}))
    const abort = new AbortController()
    // A client that hears of progress knows when the call runs.
    let begin
    const begun = c.progress ? new Promise(done => { begin = done }) : pause(500)
    const call = c.cancellation(names.long, { duration: 3, steps: 30 }, abort.signal, () => begin())
    const ended = call.then(r => JSON.stringify(r), () => 'cancelled')
    await Promise.race([begun, ended])
    abort.abort(new Error('no longer wanted'))
    must(await ended === 'cancelled', 'the call went on')
    matches(await c.call('echo', { message: 'after' }), /Echo: after/)
    if (target.era !== 'modern') return
    for (let i = 0; JSON.stringify(await c.call('given-up', {})) === before; i++) {
      must(i < 100, 'the server was not told')
      await pause(100)
    }
  },
  async ping(c) {
    await c.ping()
  },
}

// run opens a client, takes it through the steps that it has and closes it.
export async function run(open) {
  const out = { revision: '', steps: {} }
  let client
  try {
    client = await open()
    out.revision = client.revision ?? ''
    out.steps.open = 'works'
  } catch (e) {
    out.steps.open = `fails: ${e.message}`
  }
  for (const [name, step] of Object.entries(steps)) {
    if (!client?.[name]) {
      out.steps[name] = 'none'
      continue
    }
    try {
      await step(client)
      out.steps[name] = 'works'
    } catch (e) {
      out.steps[name] = `fails: ${e.message}`
    }
  }
  await client?.close?.()
  process.stdout.write(JSON.stringify(out) + '\n', () => process.exit(0))
}
