// Package servername finds a name for a server that has none: from the command that starts it,
// or from the host of its URL.
//
// A command is rarely the name of its server, because a launcher such as npx, uvx, docker or python
// runs another program. So the package knows the command lines of the common launchers and returns
// the name of the package, script, module or image in them. The names are a convenience for people.
// No code depends on unique or stable names.
//
// All functions are pure, and accept any text.
package servername
