package mcp

import "strings"

// cannotAnswer separates the method and the reason in the text of RefusalText.
const cannotAnswer = " cannot be answered: "

// RefusalText returns the error message for a server request that Dragoman refuses.
func RefusalText(method, why string) string { return method + cannotAnswer + why }

// IsEcho reports whether message is the error message with which Dragoman refuses initialize or
// server/discover. message comes from a server's error response to the handshake. Real servers do
// not send these requests to Dragoman. So this server echoed Dragoman's request, and then echoed
// Dragoman's refusal.
func IsEcho(message string) bool {
	method, _, ok := strings.Cut(message, cannotAnswer)
	return ok && (method == MethodInitialize || method == MethodDiscover)
}
