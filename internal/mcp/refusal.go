package mcp

import "strings"

// cannotAnswer separates the method and the reason in the text of RefusalText.
const cannotAnswer = " cannot be answered: "

// RefusalText returns the message of the error with which Dragoman refuses a request of a server.
func RefusalText(method, why string) string { return method + cannotAnswer + why }

// IsEcho reports whether the message of an error answer to the handshake is the one with which
// Dragoman refuses initialize or server/discover. A server sends such requests only if it sends
// back what it gets, so the answer is Dragoman's own.
func IsEcho(message string) bool {
	method, _, ok := strings.Cut(message, cannotAnswer)
	return ok && (method == MethodInitialize || method == MethodDiscover)
}
