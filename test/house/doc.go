// Package house measures the matrix through a `dragoman serve` with all that a team decides about tools: keys, rules, pins
// and the audit. Nothing of it may change what works.
//
// The matrix takes a minute, so it runs only if DRAGOMAN_HOUSE is set, for which there is `make house`. With it, the tests of
// packages peers and clients use such a serve as well. The conformance suite has legs of this kind in each run.
package house
