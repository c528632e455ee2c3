// Package archtest enforces the architecture rules of the repository: which packages may import
// which others, which comments every package must have, and which statements are forbidden. In the
// code a "room" is a package together with the packages in its subfolders.
//
// Load parses every Go file of the main module for all operating systems, except nested modules and
// testdata. It also reads README.md and docs/*.md. A rule is a function from the parsed tree to a
// list of breaches. Rules use only the syntax of the files, so they need no type checking and no
// tool other than the standard library. The tests of this package run all rules over the
// repository, and each rule over a fixture that breaks the rule. Exceptions to a rule are in
// rooms.go, with their reasons. An exception that is no longer needed is also a breach.
//
// Nothing imports this package.
package archtest
