//go:build unix

// Conformance runs the official MCP conformance suite against Dragoman and compares the
// results with the expected ones.
//
//	go run ./conformance                     every leg of the table in legs.go
//	go run ./conformance -only run/ -v       some legs, with each scenario
//	go run ./conformance -only sign-in       the scenarios in which Dragoman signs in
//	go run ./conformance -direct             the SDK's own server and client, no
//	                                         Dragoman: tests the test set-up itself
//
// A leg is one run of the suite with one set-up. The program needs Go and npm. It installs
// everything else below .cache/conformance: the suite (package-lock.json pins it with all its
// dependencies) and a Node that is new enough. All processes listen on loopback, have a time
// limit. The program ends them at the end of the run. A process that outlives its leg is a failure.
//
// Exit status: 0 as expected, 1 worse than expected, 2 usage, 3 the test set-up failed.
package main
