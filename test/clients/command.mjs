// Code shared by the clients that are commands. Such a client starts a process for each step.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

// command returns a function that runs a package's command and parses its output.
export function command(script) {
  const main = fileURLToPath(new URL(`node_modules/${script}`, import.meta.url))
  return (...args) => new Promise((resolve, reject) => {
    execFile(process.execPath, [main, ...args], { timeout: 60_000, maxBuffer: 1 << 24 }, (err, stdout, stderr) => {
      if (err) return reject(new Error(`${args.join(' ')}: ${err.message} ${stdout} ${stderr}`))
      try {
        resolve(JSON.parse(stdout))
      } catch {
        reject(new Error(`${args.join(' ')}: no JSON: ${stdout}`))
      }
    })
  })
}
