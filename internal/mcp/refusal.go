package mcp

import "strings"

// cannotAnswer separates the method and the reason in the text of RefusalText.
const cannotAnswer = " cannot be answered: "

// RefusalText returns the message of the error with which Dragoman refuses a request of a server.
func RefusalText(method, why string) string { return method + cannotAnswer + why }

// IsEcho reports whether an error answer to the handshake has the message with which Dragoman
// refuses initialize or server/discover. No real server sends Dragoman these requests. So the
// server has sent back Dragoman's request, and then Dragoman's refusal of it.
func IsEcho(message string) bool {
	method, _, ok := strings.Cut(message, cannotAnswer)
	return ok && (method == MethodInitialize || method == MethodDiscover)
}
