// Package servername finds a name for a server in the command that starts the server, or in the
// host of its URL.
//
// The program in a command rarely has the name of the server, because a launcher such as npx, uvx,
// docker or python runs another program. So the package knows the command lines of the common
// launchers, and returns the name of the package, script, module or image in them. The names are a
// convenience for people. No code requires that they are unique or stable.
//
// All functions are pure, and accept any text.
package servername
