package doctor

// The codes of findings in servers over HTTP.
const (
	WantsCredentials     = "DRG-HTTP-CREDENTIALS"
	CredentialsRefused   = "DRG-HTTP-CREDENTIALS-REFUSED"
	HostRefused          = "DRG-HTTP-HOST"
	ServerError          = "DRG-HTTP-SERVER-ERROR"
	NoAnswer             = "DRG-HTTP-NO-ANSWER"
	BodyUnreadable       = "DRG-HTTP-BODY"
	ContentType          = "DRG-HTTP-CONTENT-TYPE"
	ContentTypeUnchecked = "DRG-HTTP-CONTENT-TYPE-UNCHECKED"

	Broadcasts = "DRG-HTTP-BROADCAST"

	Rebinding       = "DRG-HTTP-REBINDING"
	OriginUnchecked = "DRG-HTTP-ORIGIN"
	OriginStatus    = "DRG-HTTP-ORIGIN-STATUS"

	SessionID         = "DRG-HTTP-SESSION-CHARACTERS"
	SessionGuessable  = "DRG-HTTP-SESSION-GUESSABLE"
	SessionUnneeded   = "DRG-HTTP-SESSION-OPTIONAL"
	SessionAny        = "DRG-HTTP-SESSION-ANY"
	SessionLostStatus = "DRG-HTTP-SESSION-STATUS"
	SessionSurvives   = "DRG-HTTP-SESSION-SURVIVES"
	DeleteStatus      = "DRG-HTTP-DELETE-STATUS"
	GetStatus         = "DRG-HTTP-GET-STATUS"

	VersionHeaderUnchecked = "DRG-HTTP-VERSION-UNCHECKED"
	VersionHeaderNeeded    = "DRG-HTTP-VERSION-NEEDED"
	HeadersUnchecked       = "DRG-HTTP-HEADERS-UNCHECKED"
	HeadersStatus          = "DRG-HTTP-HEADERS-STATUS"
	GoneStatus             = "DRG-HTTP-GONE-STATUS"

	NoteStatus          = "DRG-HTTP-NOTIFICATION-STATUS"
	InitializedStatus   = "DRG-HTTP-INITIALIZED-REFUSED"
	StatusOfLostSession = "DRG-HTTP-UNKNOWN-404"
	StatusOfUnknown     = "DRG-HTTP-UNKNOWN-STATUS"
)

// conditionsOfHTTP describes these codes.
var conditionsOfHTTP = []Condition{
	{WantsCredentials, Info, "wants sign-in", "The server answers only clients that have signed in. Nothing else could be checked.", "Nothing is wrong with it. Pass a token: dragoman doctor --header 'Authorization: Bearer …' URL.", "Dragoman sends the headers that its configuration has for the server. Signing in with OAuth comes with a later release."},
	{CredentialsRefused, Error, "refuses the given credentials", "The request had credentials, and the server answered 401 or 403. They may be expired, or for another server. Nothing else could be checked.", "Pass a valid token with --header. Check whether it has expired and what it is allowed to do.", "Dragoman sends the headers that its configuration has for the server, and reports the refusal."},
	{HostRefused, Error, "refuses the host name in the URL", "The server accepts only known values of the Host header, as protection against DNS rebinding. It refuses every client that uses this URL.", "Add the name to the hosts that the server allows, or use the URL that it expects, often http://localhost with its port.", "Dragoman sends the host of the configured URL. Configure the host that the server expects."},
	{ServerError, Warning, "answers a request with a 5xx status", "Clients cannot tell their own mistake from a broken server, and may retry forever.", "Answer with a JSON-RPC error, and answer unreadable requests with 400.", "Dragoman reports the status and the beginning of the body."},
	{NoAnswer, Error, "returns success without an answer", "The server accepted the request, and the response ends without an answer to it.", "Send the answer in the body, or in the stream before it ends.", "Dragoman resumes the stream if the revision allows it. Otherwise it tells the client that the outcome is unknown."},
	{BodyUnreadable, Error, "returns success with a body that is not a message", "The client cannot read the answer. Often it is an HTML page, because the path is wrong.", "Send JSON-RPC as application/json or text/event-stream, and check the URL.", "Dragoman reports the status and the beginning of the body."},
	{ContentType, Warning, "answers with another content type than MCP's", "Clients use the content type to decide how to read the body, and reject unknown types.", "Send application/json or text/event-stream.", "Dragoman reports the status and the beginning of the body."},
	{ContentTypeUnchecked, Info, "accepts JSON with any content type", "A web page can send such a request without a CORS preflight.", "Refuse other types than application/json with 415.", "Dragoman sends application/json, and refuses clients that do not."},

	{Broadcasts, Error, "sends answers to all sessions", "Every client receives the answers of all other clients. Most clients count their ids from 0 or 1, so they accept the answer to another client's request as their own, without an error. Progress, log messages and server requests reach the wrong clients too.", "Send an answer only in the session that sent the request. A wrapper must start one process per session.", "Dragoman uses ids that no other client is likely to use, and drops and counts answers that it did not ask for. While several clients call the server, a server request or log message that does not name its call is refused or dropped."},

	{Rebinding, Error, "accepts requests from web pages of other origins", "The server is for this machine only, but any web page in a browser on it can use the server: it does not check Origin and Host properly (DNS rebinding).", "Refuse a foreign Origin with 403, and on a loopback address a foreign Host.", "Dragoman checks both at its own endpoint. The server's own address stays open."},
	{OriginUnchecked, Warning, "does not check Origin", "Servers must check the header. If nothing else protects the server, a web page can use it.", "Refuse an unknown Origin with 403.", "Dragoman checks Origin at its own endpoint."},
	{OriginStatus, Info, "refuses a foreign Origin with a status other than 403", "Nothing fails.", "Answer 403.", "Nothing needs to be done."},

	{SessionID, Error, "uses a session id with characters that are not allowed in a header", "Clients cannot send it back.", "Use visible ASCII characters only (0x21 to 0x7E).", "Dragoman cannot keep such a session."},
	{SessionGuessable, Warning, "uses session ids that can be guessed", "An attacker who guesses the id takes over another client's session.", "Use 128 random bits, and check the owner of the session on each request.", "Dragoman gives its own clients random ids."},
	{SessionUnneeded, Info, "assigns sessions but does not require them", "Clients that omit the header work, perhaps with another client's state.", "Refuse a request without Mcp-Session-Id with 400.", "Dragoman always sends the header."},
	{SessionAny, Warning, "serves sessions that it has not assigned", "After a restart, clients continue with a session whose state is gone, and do not notice.", "Answer 404, so that clients open a new one.", "Dragoman cannot detect it either."},
	{SessionLostStatus, Warning, "does not answer an unknown session with 404", "Clients open a new session only on 404. After a restart of the server they fail permanently.", "Answer 404.", "Dragoman also checks the text of the error, and opens a new session."},
	{SessionSurvives, Warning, "still serves a session after DELETE", "The server said that it has ended the session, but still serves it.", "End the session, or answer DELETE with 405.", "Dragoman ends its sessions and does not use them again."},
	{DeleteStatus, Info, "answers DELETE with neither success nor 405", "Nothing fails.", "End the session with 200 or 204, or answer 405.", "Dragoman treats any answer as the end of the session."},
	{GetStatus, Warning, "answers GET with neither a stream nor 405", "Clients that open a stream for notifications fail on the status, or retry forever.", "Serve text/event-stream, or answer 405.", "Dragoman works without the stream."},

	{VersionHeaderUnchecked, Info, "accepts an unknown version header", "Clients with a wrong version do not get an error.", "Answer 400.", "Dragoman sends the agreed version."},
	{VersionHeaderNeeded, Info, "refuses a request without the version header", "Some clients omit it after the handshake. The specification tells servers to assume 2025-03-26, or the agreed version.", "Use the version that was agreed for the session.", "Dragoman always sends the header."},
	{HeadersUnchecked, Error, "accepts headers that contradict the body", "Proxies decide by the headers, the server by the body. So rules can be bypassed.", "Answer 400 and -32020 when Mcp-Method, Mcp-Name or MCP-Protocol-Version are missing or differ from the body.", "Dragoman checks the headers of its clients itself, and sends correct ones."},
	{HeadersStatus, Warning, "refuses headers that contradict the body, but not with 400 and -32020", "Clients do not learn what is wrong.", "Answer 400 with the error -32020.", "Dragoman sends correct headers."},
	{GoneStatus, Info, "does not refuse GET or DELETE with 405", "Older clients do not learn that there is no stream and no session.", "Answer 405.", "Dragoman sends neither to a modern server."},

	{NoteStatus, Info, "answers notifications with a status other than 202", "Strict clients report an error.", "Answer 202 without a body.", "Dragoman accepts any success."},
	{InitializedStatus, Error, "refuses notifications/initialized", "Clients treat the handshake as failed.", "Answer 202.", "Dragoman continues if the next request succeeds."},
	{StatusOfLostSession, Warning, "answers unknown methods with status 404", "Up to 2025-11-25, 404 means that the session is lost. Clients open a new one each time.", "Answer with 200 and the error -32601.", "Dragoman opens a new session as well, as the specification requires."},
	{StatusOfUnknown, Warning, "answers unknown methods with status 200", "2026-07-28 defines 404 for unknown methods. Proxies cannot see the error.", "Answer with 404 and the error -32601.", "Dragoman checks the error in the body."},
}
