// Package documents runs the commands in README.md and docs/.
//
// A shell runs every line of a fenced block marked sh, in the order of the document. Each
// document has its own directory. The program is built from this tree. Documents name example
// servers (npx packages, ./server, https://mcp.example.com). One server of this package stands
// in for all of them, so nothing is downloaded. Commands that run until they are stopped are
// interrupted once they are running. Some commands cannot be run here, because they change the
// system or need a program that is not installed. Such a command must be listed in notRun, with a
// reason.
//
// The package also checks the links between the documents, with their anchors.
package documents
