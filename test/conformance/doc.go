//go:build unix

// Conformance runs the official MCP conformance suite against Dragoman and
// compares what it finds with what we promise.
//
//	go run ./conformance                     every leg of the table in legs.go
//	go run ./conformance -only run/ -v       some of them, with each scenario
//	go run ./conformance -direct             the SDK's own server and client, no
//	                                         Dragoman: proves the rig itself
//
// Everything it needs besides Go and npm it installs below .cache/conformance:
// the suite (pinned with all its dependencies by package-lock.json) and a Node
// that is new enough. Everything it starts listens on loopback, has a time limit
// and is gone when it ends; a process that survives its leg is a failure.
//
// Exit status: 0 as promised, 1 worse than promised, 2 usage, 3 the rig failed.
package main
