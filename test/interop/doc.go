// Package interop sets clients and servers that nobody here wrote on either side
// of Dragoman: the official Go SDK and mcp-go, two independent code bases, each as
// client and as server, in each era and on each transport that it has. Everything
// runs in one process, save servers on standard input and output, which are this
// test binary once more.
//
//	go test -v ./interop            the whole table
//	go test -short ./interop        the corners of it
//	go test -v -run 'Interop/cells/go-sdk.*_sse/mcp-go' ./interop
//
// A step that fails through Dragoman fails the test, unless limits_test.go knows it
// as a limit of one of the SDKs; then the same step has to fail without Dragoman
// too, between that SDK and a partner that can do it.
//
// The strict peers of internal/fake, by which the matrix of this module is
// measured, are checked in the same way: SDKs take their places, one side at a time
// (strict_test.go), and speak with them directly (fake_test.go).
package interop
