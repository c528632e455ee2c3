// mcporter, as a command.
import { writeFileSync } from 'node:fs'
import { command } from './command.mjs'
import { run, target } from './steps.mjs'

run(async () => {
  // Use a separate file, so that mcporter does not read the files of other programs.
  writeFileSync('mcporter.json', JSON.stringify({
    imports: [],
    mcpServers: { s: target.url ? { url: target.url, headers: target.headers } : { command: target.command, args: target.args } },
  }))
  const porter = command('mcporter/dist/cli.js')
  const ask = (...args) => porter('--config', 'mcporter.json', ...args)
  const opened = ask('list', 's', '--json')
  await opened
  return {
    tools: () => opened,
    call: (name, args) => ask('call', '--server', 's', '--tool', name, '--output', 'json', '--args', JSON.stringify(args)),
    resources: async () => (await ask('resource', 's', '--json')).resources,
    read: uri => ask('resource', 's', uri, '--json'),
  }
})
