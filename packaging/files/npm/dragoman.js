#!/usr/bin/env node
"use strict";

// Starts the program for this platform, which npm installed as an optional dependency. The
// program gets the stdin, stdout, stderr, arguments and environment of this script unchanged.

const { spawn } = require("node:child_process");

const platform = `${process.platform}-${process.arch}`;
const name = `@dragoman/cli-${platform}`;
const suffix = process.platform === "win32" ? ".exe" : "";

let program;
try {
  program = require.resolve(`${name}/bin/dragoman${suffix}`);
} catch {
  const known = Object.keys(require("../package.json").optionalDependencies ?? {});
  console.error(
    known.includes(name)
      ? `dragoman: error: the package ${name} is not installed\n` +
          "dragoman: hint: install @dragoman/cli again, without --omit=optional or --no-optional"
      : `dragoman: error: there is no npm package of dragoman for ${platform}\n` +
          "dragoman: hint: build it with Go: go install github.com/dragoman-mcp/dragoman/cmd/dragoman@latest",
  );
  process.exit(1);
}

const args = process.argv.slice(2);

// Node 22.15 and newer can replace this process with the program (execve). Without execve, this
// process keeps running beside the program. It costs 40 MB and could lose a signal.
if (typeof process.execve === "function" && process.platform !== "win32") {
  process.removeAllListeners("warning"); // Node warns that the function is experimental
  process.emitWarning = () => {};
  try {
    process.execve(program, [program, ...args], process.env);
  } catch {
    // Start a child process instead.
  }
}

const child = spawn(program, args, { stdio: "inherit" });

child.on("error", (err) => {
  console.error(`dragoman: error: cannot start ${program}: ${err.message}`);
  process.exit(1);
});

// On Ctrl-C, a terminal sends SIGINT both to the program and to this process. If this process
// forwarded SIGINT, the program would get it twice and stop at once. So this process forwards
// SIGINT only if there is no terminal.
const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
const handlers = new Map();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  const handler = () => {
    if (signal !== "SIGINT" || !terminal) {
      child.kill(signal);
    }
  };
  handlers.set(signal, handler);
  process.on(signal, handler);
}

child.on("exit", (code, signal) => {
  for (const [name, handler] of handlers) {
    process.off(name, handler);
  }
  if (signal) {
    process.kill(process.pid, signal); // end with the same signal as the program
  } else {
    process.exit(code ?? 1);
  }
});
