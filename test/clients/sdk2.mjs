// @modelcontextprotocol/client, the second version of the TypeScript SDK, in the
// mode that the second argument names: legacy (the default) or auto.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { person, roots, run, sampled, target } from './steps.mjs'

run(async () => {
  const mode = process.argv[3]
  const client = new Client({ name: `sdk2-${mode}`, version: '1' }, {
    capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
    ...(mode === 'auto' && { versionNegotiation: { mode } }),
  })
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: person }))
  client.setRequestHandler('sampling/createMessage', () => sampled)
  client.setRequestHandler('roots/list', () => roots)
  await client.connect(target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers: target.headers } })
    : new StdioClientTransport({ command: target.command, args: target.args, stderr: 'inherit' }))
  const call = (name, args, options) => client.callTool({ name, arguments: args }, options)
  const modern = client.getProtocolEra() === 'modern'
  return {
    revision: client.getNegotiatedProtocolVersion(),
    tools: cursor => client.listTools({ cursor }),
    call,
    elicitation: name => call(name, {}),
    sampling: call,
    roots: name => call(name, {}),
    resources: async () => (await client.listResources()).resources,
    read: uri => client.readResource({ uri }),
    prompts: () => client.listPrompts(),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    progress: (name, args, onprogress) => call(name, args, { onprogress }),
    cancellation: (name, args, signal, onprogress) => call(name, args, { signal, onprogress }),
    ping: modern ? undefined : () => client.ping(), // 2026-07-28 has no ping
    instructions: () => client.getInstructions(),
    close: () => client.close(),
  }
})
