// Package remote reaches `dragoman serve` as another machine would: the console through `ssh -L`.
//
// Each test runs in namespaces of its own, so that the ports, names and paths of the documents can be
// used. It must therefore run as root. `make remote` unpacks Debian's package of a program that isn't
// installed.
package remote
