// @modelcontextprotocol/sdk, the first version of the TypeScript SDK.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { person, roots, run, sampled, target } from './steps.mjs'

run(async () => {
  const client = new Client({ name: 'sdk1', version: '1' }, { capabilities: { elicitation: {}, sampling: {}, roots: {} } })
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: person }))
  client.setRequestHandler(CreateMessageRequestSchema, () => sampled)
  client.setRequestHandler(ListRootsRequestSchema, () => roots)
  const transport = target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers: target.headers } })
    : new StdioClientTransport({ command: target.command, args: target.args, stderr: 'inherit' })
  let revision
  const settled = transport.setProtocolVersion?.bind(transport)
  transport.setProtocolVersion = v => { revision = v; settled?.(v) }
  await client.connect(transport)
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options)
  return {
    revision,
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
    ping: () => client.ping(),
    instructions: () => client.getInstructions(),
    close: () => client.close(),
  }
})
