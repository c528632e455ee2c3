// A server of SDK v2 that supports only 2026-07-28 and refuses older revisions.
import { acceptedContent, inputRequired, McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

let givenUp = 0
const says = text => ({ content: [{ type: 'text', text }] })

serveStdio(() => {
  const server = new McpServer({ name: 'strictly-modern', version: '1.0.0' })
  server.registerTool('echo', { description: 'Says it back', inputSchema: z.object({ message: z.string() }) },
    ({ message }) => says(`Echo: ${message}`))
  server.registerTool('ask', { description: 'Asks for a name' }, ctx => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'name')
    if (answer) return says(`Hello, ${answer.name}`)
    return inputRequired({ inputRequests: { name: inputRequired.elicit({
      message: 'What is your name?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    }) } })
  })
  server.registerTool('sample', { description: 'Asks a model', inputSchema: z.object({ prompt: z.string() }) }, ({ prompt }, ctx) => {
    const answer = ctx.mcpReq.inputResponses?.sample
    if (answer) return says(answer.content.text)
    return inputRequired({ inputRequests: { sample: inputRequired.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens: 10,
    }) } })
  })
  server.registerTool('roots', { description: 'Asks for the roots' }, ctx => {
    const answer = ctx.mcpReq.inputResponses?.roots
    return answer ? says(answer.roots.map(r => r.uri).join(' ')) : inputRequired({ inputRequests: { roots: inputRequired.listRoots() } })
  })
  server.registerTool('long', {
    description: 'Takes its time', inputSchema: z.object({ duration: z.number(), steps: z.number() }),
  }, async ({ duration, steps }, ctx) => {
    const token = ctx.mcpReq._meta?.progressToken
    for (let i = 1; i <= steps; i++) {
      await new Promise(done => setTimeout(done, duration * 1000 / steps))
      if (ctx.mcpReq.signal.aborted) {
        givenUp++
        break
      }
      if (token !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: token, progress: i, total: steps } })
    }
    return says('done')
  })
  server.registerTool('given-up', { description: 'How many calls were cancelled' }, () => says(`${givenUp}`))
  server.registerResource('about', 'test://about', { mimeType: 'text/plain' },
    uri => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'about this server' }] }))
  server.registerPrompt('city', { description: 'Asks about a city', argsSchema: z.object({ city: z.string() }) },
    ({ city }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Tell me of ${city}` } }] }))
  return server
}, { legacy: 'reject' })
