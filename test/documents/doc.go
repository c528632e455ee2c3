// Package documents runs the commands that README.md and docs/ show.
//
// Every line of a fenced block marked sh is run by a shell, in a directory of its own, in
// the order of the document. The program is the one of this tree. Servers that a document
// names as examples (npx packages, ./server, https://mcp.example.com) are played by one
// server of this package, so that nothing is downloaded. Commands that go on until they are
// stopped are interrupted once they run. A command that cannot be run here (it changes the
// system, or needs a program that is not installed) must be listed in notRun, with a reason.
//
// The links between the documents are checked too, with their anchors.
package documents
