// Package interop tests Dragoman with third-party clients and servers: the official Go SDK and
// mcp-go. Each SDK is tested as client and as server, in each era and on each of its transports.
// All tests run in one process, except servers on stdio, which are separate processes of this test
// binary.
//
//	go test -v ./interop            the whole table
//	go test -short ./interop        only the corners of the table
//	go test -v -run 'Interop/cells/go-sdk.*_sse/mcp-go' ./interop
//
// A step that fails through Dragoman fails the test, unless limits_test.go lists it as a limit
// of one of the SDKs. Then the same step must also fail without Dragoman, between that SDK and
// a partner that can perform it.
//
// `dragoman matrix` uses the strict peers of internal/workbench/fake. The SDKs test these peers too: in
// strict_test.go, an SDK replaces one of the two strict peers, and in fake_test.go, the SDKs connect
// to strict peers directly.
package interop
