package doctor

// The codes of what is found over HTTP.
const (
	BodyUnreadable      = "DRG-HTTP-BODY"
	StatusOfLostSession = "DRG-HTTP-UNKNOWN-404"
	StatusOfUnknown     = "DRG-HTTP-UNKNOWN-STATUS"
)

// conditionsOfHTTP is the table of these codes.
var conditionsOfHTTP = []Condition{
	{BodyUnreadable, Error, "a success whose body is no message", "The client cannot read the answer.", "Send JSON-RPC as application/json or text/event-stream.", "Dragoman reports the status and the beginning of the body."},
	{StatusOfLostSession, Warning, "unknown methods get the status 404", "Up to 2025-11-25, 404 says that the session is lost: clients open a new one each time.", "Answer with 200 and the error -32601.", "Dragoman looks at the error in the body first, and keeps the session."},
	{StatusOfUnknown, Warning, "unknown methods get the status 200", "2026-07-28 has 404 for unknown methods; what stands between client and server cannot tell.", "Answer with 404 and the error -32601.", "Dragoman looks at the error in the body."},
}
