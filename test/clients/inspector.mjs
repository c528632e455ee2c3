// @modelcontextprotocol/inspector --cli, in the era that the second argument names. The
// default is legacy.
import { writeFileSync } from 'node:fs'
import { command } from './command.mjs'
import { run, target } from './steps.mjs'

run(async () => {
  const server = target.url ? { type: 'streamable-http', url: target.url, headers: target.headers } : { command: target.command, args: target.args }
  writeFileSync('inspector.json', JSON.stringify({ mcpServers: { s: { ...server, protocolEra: process.argv[3] } } }))
  const inspect = command('@modelcontextprotocol/inspector/clients/launcher/build/index.js')
  const ask = (method, ...flags) => inspect('--cli', '--config', 'inspector.json', '--server', 's', '--method', method, ...flags)
  const pairs = (flag, args) => Object.entries(args).flatMap(([k, v]) => [flag, `${k}=${v}`])
  const opened = ask('tools/list')
  await opened
  return {
    tools: () => opened,
    call: (name, args) => ask('tools/call', '--tool-name', name, ...pairs('--tool-arg', args)),
    resources: async () => (await ask('resources/list')).resources,
    read: uri => ask('resources/read', '--uri', uri),
    instructions: async () => (await ask('initialize')).instructions,
    prompts: () => ask('prompts/list'),
    prompt: (name, args) => ask('prompts/get', '--prompt-name', name, ...pairs('--prompt-args', args)),
  }
})
