package doctor

// The codes of findings about servers that doctor reaches over HTTP.
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

// conditionsOfHTTP describes the codes above.
var conditionsOfHTTP = []Condition{
	{WantsCredentials, Info, "requires authentication", "The server answers only requests with credentials. Doctor looked at the sign-in, and could not check anything else.", "The server is not broken. Pass credentials: dragoman doctor --header 'Authorization: Bearer TOKEN' URL.", "Dragoman sends the headers that are configured for the server. If the server has a sign-in with OAuth, people can sign in with dragoman login."},
	{CredentialsRefused, Error, "refuses the given credentials", "Doctor sent credentials, and the server answered with 401 or 403. The credentials may have expired, or may be for another server. Doctor could not check anything else.", "Pass a valid token with --header. Check when the token expires and which requests the token permits.", "Dragoman sends the headers that are configured for the server, and reports that the server refused the credentials."},
	{HostRefused, Error, "refuses the host name in the URL", "The server accepts only certain values of the Host header, as protection against DNS rebinding. The server refuses every client that uses this URL.", "Add the host name to the allowed hosts of the server, or use the URL that the server expects. The expected URL is often http://localhost with a port.", "Dragoman sends the host name of the configured URL. Configure a URL with a host name that the server accepts."},
	{ServerError, Warning, "answers a request with a 5xx status", "Clients cannot tell whether the request is wrong or the server is broken. Clients may retry forever.", "Answer with a JSON-RPC error. If the request cannot be parsed, answer with HTTP status 400.", "Dragoman reports the status and the beginning of the body."},
	{NoAnswer, Error, "answers with a success status but without a message", "The server accepts the request, but the HTTP response ends without the JSON-RPC answer to this request.", "Send the answer in the body, or in the event stream before the stream ends.", "If the revision supports resuming a stream, Dragoman resumes the stream. Otherwise Dragoman tells the client that the outcome of the call is unknown."},
	{BodyUnreadable, Error, "answers with a success status and a body that is not JSON-RPC", "The client cannot parse the answer. Often the body is an HTML page, because the path of the URL is wrong.", "Send JSON-RPC as application/json or text/event-stream. Check the URL.", "Dragoman reports the status and the beginning of the body."},
	{ContentType, Warning, "answers with a Content-Type that MCP does not define", "Clients use the Content-Type to decide how to parse the body. Clients reject types that MCP does not define.", "Send application/json or text/event-stream.", "Dragoman reports the status and the beginning of the body."},
	{ContentTypeUnchecked, Info, "accepts JSON with any Content-Type", "A web page can send a request with the Content-Type text/plain to the server without a CORS preflight.", "If the Content-Type of a request is not application/json, answer with HTTP status 415.", "Dragoman sends application/json to the server, and refuses client requests that have another Content-Type."},

	{Broadcasts, Error, "sends each answer to all sessions", "Every client receives the answers of all other clients. Most clients count their ids from 0 or 1. A client therefore mistakes answers to other clients for its own answers, and reports no error. Progress notifications, log messages and requests from the server reach the wrong clients in the same way.", "Send an answer only to the session that sent the request. If you wrap a stdio server, start one process for each session.", "Dragoman uses ids that other clients are unlikely to use. Dragoman discards and counts answers that do not match one of its requests. Some requests and log messages from the server do not say which call they belong to. While several clients call the server, Dragoman refuses such requests and discards such log messages."},

	{Rebinding, Error, "accepts requests from web pages of other origins", "The server listens on a loopback address, but does not check the Origin and Host headers. Any web page in a browser on the machine of the server can use the server (DNS rebinding). Every revision says that a server must check the Origin header (Transports, Security Warning).", "Check the Origin header, and answer requests from other origins with HTTP status 403. If the server listens on a loopback address, check the Host header in the same way.", "Dragoman checks the Origin and Host headers of requests to its own address. But web pages can still send requests directly to the address of the server."},
	{OriginUnchecked, Warning, "does not check the Origin header", "Every revision says that a server must check the Origin header (Transports, Security Warning). Without other protection, any web page can use the server.", "Check the Origin header, and answer requests from unknown origins with HTTP status 403.", "Dragoman checks the Origin header of requests to its own address."},
	{OriginStatus, Info, "refuses a foreign Origin with a status other than 403", "No client is affected.", "Answer requests from unknown origins with HTTP status 403.", "Dragoman does nothing, because no client is affected."},

	{SessionID, Error, "uses session ids that are not valid in a header", "Clients cannot send such a session id back to the server.", "Use only visible ASCII characters (0x21 to 0x7E) in session ids.", "Dragoman ignores such a session id, and sends later requests without a session id."},
	{SessionGuessable, Warning, "uses session ids that can be guessed", "An attacker who guesses the id of a session can use the session of another client.", "Use at least 128 random bits for each session id, and check on each request that the client owns the session.", "Dragoman gives its own clients random session ids."},
	{SessionUnneeded, Info, "accepts requests without a session id after it assigned a session id", "A client that omits the Mcp-Session-Id header gets answers, but the answers may contain the state of another client.", "Answer a request without Mcp-Session-Id with HTTP status 400.", "Dragoman always sends the Mcp-Session-Id header."},
	{SessionAny, Warning, "accepts session ids that it has not assigned", "After the server restarts, clients continue to use their old session ids. Clients do not notice that the state of the session is lost.", "Answer an unknown session id with HTTP status 404. The client then opens a new session.", "Dragoman cannot detect that the state of the session is lost."},
	{SessionLostStatus, Warning, "does not answer an unknown session id with the status 404", "Clients open a new session only after the status 404. If the server uses another status after a restart, all later requests of its clients fail. A server must answer with 404 to a request in a session that the server has ended (2025-11-25 Transports, Session Management). After a restart, the server cannot distinguish an ended session from a session that never existed.", "Answer an unknown session id with HTTP status 404.", "If the text of the error says that the session is unknown, Dragoman sends a ping. If the answer to the ping also says that the session is unknown, Dragoman opens a new session."},
	{SessionSurvives, Warning, "still accepts requests in a session after DELETE", "The server reported that the session ended, but the session still works.", "End the session on DELETE, or answer DELETE with HTTP status 405.", "Dragoman sends DELETE when it ends a session, and does not use the session again."},
	{DeleteStatus, Info, "answers DELETE with a status other than 200, 204 or 405", "No client is affected.", "End the session and answer with the status 200 or 204. If clients cannot end a session, answer with the status 405.", "After DELETE, Dragoman treats the session as ended, whatever status the server sends."},
	{GetStatus, Warning, "answers GET with neither an event stream nor 405", "Clients use GET to open a stream for notifications. If the answer is neither a stream nor the status 405, some clients report an error or retry forever.", "Answer GET with text/event-stream. If the server has no stream for notifications, answer with HTTP status 405.", "Dragoman works without a stream for notifications."},

	{VersionHeaderUnchecked, Info, "accepts an unknown MCP-Protocol-Version header", "A client that sends a wrong version does not get an error.", "Answer an unknown version with HTTP status 400.", "Dragoman always sends the negotiated version in the MCP-Protocol-Version header."},
	{VersionHeaderNeeded, Info, "refuses requests without the MCP-Protocol-Version header", "Some clients omit this header after the handshake. The specification tells servers what to do if the header is missing: use the negotiated version, or assume 2025-03-26.", "If the header is missing, use the version that was negotiated for the session.", "Dragoman always sends the MCP-Protocol-Version header."},
	{HeadersUnchecked, Error, "accepts headers that contradict the body", "A proxy may use the headers to decide whether a request is allowed, but the server uses the body. A client can then bypass the rules of the proxy.", "Compare the headers Mcp-Method, Mcp-Name and MCP-Protocol-Version with the body. If a header is missing or differs from the body, answer with HTTP status 400 and the error -32020.", "Dragoman checks the headers of client requests, and sends correct headers to the server."},
	{HeadersStatus, Warning, "refuses headers that contradict the body, but not with 400 and the error -32020", "The client does not learn what is wrong with the request.", "Answer with HTTP status 400 and the error -32020.", "Dragoman sends correct headers to the server."},
	{GoneStatus, Info, "does not answer GET and DELETE with 405, although it supports only 2026-07-28", "A server that supports only the revision 2026-07-28 has neither a GET stream nor sessions. Without the status 405, older clients do not learn that the GET stream and sessions are missing.", "Answer GET and DELETE with HTTP status 405.", "Dragoman does not send GET or DELETE to a server of the revision 2026-07-28."},

	{NoteStatus, Info, "answers notifications with a status other than 202", "Strict clients treat every status other than 202 as an error.", "Answer a notification with HTTP status 202 and an empty body.", "Dragoman accepts every success status."},
	{InitializedStatus, Error, "answers notifications/initialized with an error", "Clients conclude that the handshake failed.", "Answer notifications/initialized with HTTP status 202.", "Dragoman continues if the next request succeeds."},
	{StatusOfLostSession, Warning, "answers unknown methods with HTTP status 404 in revisions up to 2025-11-25", "In revisions up to 2025-11-25, the status 404 means that the session is lost. Clients open a new session after each such answer.", "In these revisions, answer unknown methods with HTTP status 200 and the error -32601.", "Dragoman opens a new session after each such answer, as the specification requires."},
	{StatusOfUnknown, Warning, "answers unknown methods with HTTP status 200 in the revision 2026-07-28", "The revision 2026-07-28 requires the status 404 for unknown methods. With the status 200, proxies cannot see that the request failed.", "In the revision 2026-07-28, answer unknown methods with HTTP status 404 and the error -32601.", "To detect an unknown method, Dragoman uses the error in the body, not the status."},
}
