// @ai-sdk/mcp. It has no ping and no callback for progress. Of the requests that a server
// may send, it supports only elicitation.
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp'
import { StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio'
import { person, run, target } from './steps.mjs'

run(async () => {
  const client = await createMCPClient({
    capabilities: { elicitation: {} },
    transport: target.url
      ? { type: 'http', url: target.url, headers: target.headers }
      : new StdioMCPTransport({ command: target.command, args: target.args, stderr: 'inherit' }),
  })
  client.onElicitationRequest(ElicitationRequestSchema, () => ({ action: 'accept', content: person }))
  const call = (name, args, options) => client.callTool({ name, arguments: args, options })
  return {
    revision: client.initializeResult.protocolVersion,
    tools: cursor => client.listTools({ params: { cursor } }),
    call,
    elicitation: name => call(name, {}),
    resources: async () => (await client.listResources()).resources,
    read: uri => client.readResource({ uri }),
    prompts: () => client.listPrompts(),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    // On a pipe, the client cancels a call without notifying the server.
    cancellation: target.url && ((name, args, signal) => call(name, args, { signal })),
    close: () => client.close(),
  }
})
