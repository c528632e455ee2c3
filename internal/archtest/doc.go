// Package archtest holds the rules that the tree obeys: which room may import
// which, what every package has to say of itself, and what may stand nowhere.
//
// Load parses every Go file of the main module (nested modules and testdata are
// left out), for all operating systems at once. A rule is a function from the
// parsed tree to the list of its breaches; it reads syntax only, needs no type
// checking and no tool besides the standard library. The tests of this package
// run all rules over the repository, and each rule over a fixture in which it is
// broken. Where a rule has exceptions they stand in rooms.go, each with its
// reason; an exception that nothing needs any more is a breach too.
//
// Nothing imports this package.
package archtest
