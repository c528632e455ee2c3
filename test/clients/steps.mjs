// The steps that every client performs. The script of a client has a function for each step
// that the client supports; run skips the other steps. The first argument is JSON with the
// server, the way to reach it and perhaps the only steps to run. The results are printed to stdout.
import { setTimeout as pause } from 'node:timers/promises'

export const target = JSON.parse(process.argv[2])

// The names of the tools and prompts of each server. A missing name means that the server does
// not have the tool.
const names = {
  modern: {
    echo: 'echo', say: 'message', echoed: 'Echo: ', ask: 'ask', asked: /Hello, Ada/, sample: 'sample', roots: 'roots',
    long: 'long', cancelled: 'given-up', prompt: 'city', prompted: /Tell me of Vienna/,
  },
  everything: {
    echo: 'echo', say: 'message', echoed: 'Echo: ', ask: 'trigger-elicitation-request', asked: /Ada/,
    sample: 'trigger-sampling-request', roots: 'get-roots-list',
    long: 'trigger-long-running-operation', prompt: 'args-prompt', prompted: /in Vienna/,
  },
  fake: {
    echo: 'echo', say: 'text', echoed: '', ask: 'elicit', asked: /accept Ada/, sample: 'sample', roots: 'roots',
    long: 'wait', cancelled: 'cancelled', prompt: 'greet', prompted: /Say hello to Vienna/, violations: 'violations',
  },
}[target.server.replace(/-.*/, '')]
if (target.server === 'fake-2024-11-05') delete names.ask // that revision has no elicitation

// The answers of the clients to requests from the server.
export const person = { name: 'Ada', check: true, email: 'ada@example.com', integer: 42 }
export const sampled = { model: 'none', role: 'assistant', content: { type: 'text', text: 'what a model would say' } }
export const roots = { roots: [{ uri: 'file:///srv/roots', name: 'srv' }] }

const must = (ok, what) => {
  if (!ok) throw new Error(typeof what === 'string' ? what : JSON.stringify(what))
}
const matches = (result, pattern) => must(pattern.test(JSON.stringify(result)), result)

const echo = async (c, text) => matches(await c.call(names.echo, { [names.say]: text }), new RegExp(`"${names.echoed}${text}"`))
const takes = (steps, ms) => ({ steps, ...(names.long === 'wait' ? { ms } : { duration: steps * ms / 1000 }) })

const steps = {
  async tools(c) {
    for (let cursor, page; ; cursor = page.nextCursor) {
      page = await c.tools(cursor)
      if (page.tools.some(t => t.name === 'echo')) return
      must(page.nextCursor, page)
    }
  },
  async call(c) {
    await echo(c, 'grüß Gott')
  },
  async elicitation(c) {
    matches(await c.elicitation(names.ask), names.asked)
  },
  async sampling(c) {
    matches(await c.sampling(names.sample, { prompt: 'Say something' }), /what a model would say/)
  },
  async roots(c) {
    matches(await c.roots(names.roots), /srv.roots/)
  },
  async resources(c) {
    const [first] = await c.resources()
    matches(await c.read(first.uri), /"(text|blob)"/)
  },
  async prompts(c) {
    matches(await c.prompts(), new RegExp(`"${names.prompt}"`))
    matches(await c.prompt(names.prompt, { [names.prompt === 'greet' ? 'name' : 'city']: 'Vienna' }), names.prompted)
  },
  async progress(c) {
    const heard = []
    matches(await c.progress(names.long, takes(4, 100), p => heard.push(p.progress)), /content/)
    // On a pipe, the TypeScript clients lose the last notification if the answer arrives
    // with it. This happens without a bridge too.
    must(heard.length >= 3 && heard.every((p, i) => p === i + 1), `heard ${heard}`)
  },
  async cancellation(c) {
    const before = names.cancelled && JSON.stringify(await c.call(names.cancelled, {}))
    const abort = new AbortController()
    // A client that gets progress knows when the call is running.
    let begin
    const begun = c.progress ? new Promise(done => { begin = done }) : pause(500)
    const call = c.cancellation(names.long, takes(30, 100), abort.signal, () => begin())
    const ended = call.then(r => JSON.stringify(r), () => 'cancelled')
    await Promise.race([begun, ended])
    abort.abort(new Error('no longer wanted'))
    must(await ended === 'cancelled', 'the call went on')
    await echo(c, 'after')
    if (!names.cancelled) return
    for (let i = 0; JSON.stringify(await c.call(names.cancelled, {})) === before; i++) {
      must(i < 100, 'the server was not told')
      await pause(100)
    }
  },
  async ping(c) {
    await c.ping()
  },
  async instructions(c) {
    const got = await c.instructions()
    must(got === target.instructions, `got the instructions ${JSON.stringify(got)}`)
  },
  // Among very many tools, as a model does it: find one, read what it needs, call it. target.task says which.
  async finding(c) {
    const { query, tools, tool, arguments: args, needs, answer } = target.task
    const list = await c.tools()
    must(list.tools.length === 4, list)
    const found = await c.call('search_tools', { query })
    const [head, first] = found.content[0].text.split('\n')
    const name = first.split('(')[0]
    must(Number(/ of (\S+) tools/.exec(head)[1].replace(',', '')) >= tools && name === tool, found)
    matches(await c.call('describe_tools', { names: [name] }), /inputSchema/)
    matches(await c.call('call_tool', { name, arguments: { ...args, [needs]: undefined } }), new RegExp(`arguments.${needs} is missing`))
    const called = JSON.stringify(await c.call('call_tool', { name, arguments: args }))
    must(called.includes(answer), called)
  },
  // A strict server has a tool that lists the client's violations of the revision.
  async rules(c) {
    const { content } = await c.call(names.violations, {})
    must(content.every(b => !b.text), content)
  },
}

// The steps that need an entry in names, with the key of the entry.
const needs = { elicitation: 'ask', sampling: 'sample', roots: 'roots', rules: 'violations' }

// run opens a client, runs the steps that the client supports, and closes the client.
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
    if (target.only ? !target.only.includes(name) : ['instructions', 'finding'].includes(name)) continue
    if (!client || !(client[name] || ['finding', 'rules'].includes(name)) || needs[name] && !names[needs[name]]) {
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
