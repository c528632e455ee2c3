package doctor

// The codes of what is found over HTTP.
const (
	WantsCredentials     = "DRG-HTTP-CREDENTIALS"
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

// conditionsOfHTTP is the table of these codes.
var conditionsOfHTTP = []Condition{
	{WantsCredentials, Error, "it wants credentials", "Nothing more could be found out: the server answers nobody who has not signed in.", "Nothing is wrong with it. Give the credentials: dragoman doctor --header 'Authorization: Bearer …' URL.", "Dragoman sends the headers that its configuration has for the server."},
	{HostRefused, Error, "it refuses the host name in the URL", "The server answers only requests whose Host header it knows, as a guard against DNS rebinding. Every client that uses this URL is refused.", "Add the name to the hosts that the server allows, or use the URL that it expects, often http://localhost with its port.", "Dragoman sends the host of the configured URL; configure the host that the server expects."},
	{ServerError, Warning, "a request ends in a status of 5xx", "Clients cannot tell a mistake of theirs from a server that is broken, and may try for ever.", "Answer with an error of JSON-RPC, and with 400 what cannot be read.", "Dragoman reports the status with the beginning of the body."},
	{NoAnswer, Error, "a success without an answer", "The request was accepted, and the response ends without an answer to it.", "Send the answer in the body, or in the stream before it ends.", "Dragoman resumes the stream where the revision allows it, and otherwise tells the client that the outcome is unknown."},
	{BodyUnreadable, Error, "a success whose body is no message", "The client cannot read the answer. Often it is a page for people, since the path is wrong.", "Send JSON-RPC as application/json or text/event-stream, and check the URL.", "Dragoman reports the status and the beginning of the body."},
	{ContentType, Warning, "answers have another content type than MCP's", "Clients choose by it how to read the body, and refuse what they do not know.", "Send application/json or text/event-stream.", "Dragoman reports the status and the beginning of the body."},
	{ContentTypeUnchecked, Info, "it reads JSON under any content type", "A page in a browser can send such a request without being asked for leave.", "Refuse what is not application/json with 415.", "Dragoman sends application/json, and refuses clients that do not."},

	{Broadcasts, Error, "answers go to all sessions", "Every client receives the answers of all other clients. Most clients count their ids from 0 or 1, so they take the answer to another client's request for their own, without an error. Progress, log messages and questions go astray in the same way.", "Send an answer only in the session that sent the request. A wrapper has to start one program for each session.", "Dragoman uses ids that no other client is likely to use, and drops and counts answers that it did not ask for. A question or log message that does not name its call is refused or dropped while several clients call the server."},

	{Rebinding, Error, "it answers pages of strangers", "The server is for this machine alone, but any page in a browser here can use it: it checks neither Origin nor Host as it should (DNS rebinding).", "Refuse a foreign Origin with 403, and on a loopback address a foreign Host.", "Dragoman checks both at its own door; the server's own address stays open."},
	{OriginUnchecked, Warning, "it does not check Origin", "Servers must check the header. Where nothing else protects the server, a page in a browser can use it.", "Refuse an Origin that you do not know with 403.", "Dragoman checks Origin at its own door."},
	{OriginStatus, Info, "a foreign Origin is refused with another status than 403", "Nothing fails by it.", "Answer 403.", "Nothing needs to be done."},

	{SessionID, Error, "the session's id has characters that a header cannot have", "Clients cannot send it back.", "Use visible ASCII characters only (0x21 to 0x7E).", "Dragoman cannot keep such a session."},
	{SessionGuessable, Warning, "the session's id can be guessed", "Who guesses it takes over the session of somebody else.", "Use 128 random bits, and check on each request whose session it is.", "Dragoman gives its own clients random ids."},
	{SessionUnneeded, Info, "it assigns sessions and does not ask for them", "Clients that forget the header work, perhaps with the state of somebody else.", "Refuse a request without Mcp-Session-Id with 400.", "Dragoman always sends the header."},
	{SessionAny, Warning, "it serves sessions that it has not assigned", "After a restart, clients go on with a session whose state is gone, and do not notice.", "Answer 404, so that clients open a new one.", "Dragoman cannot notice it either."},
	{SessionLostStatus, Warning, "an unknown session does not get the status 404", "Clients open a new session on 404 and on nothing else: after a restart of the server they fail for good.", "Answer 404.", "Dragoman reads the error's text as well, and opens a new session."},
	{SessionSurvives, Warning, "a session goes on after it was ended", "The server said that it has ended the session, and serves it still.", "Forget the session, or answer DELETE with 405.", "Dragoman ends its sessions and does not come back to them."},
	{DeleteStatus, Info, "DELETE is neither served nor refused with 405", "Nothing fails by it.", "End the session with 200 or 204, or answer 405.", "Dragoman takes any answer for the end."},
	{GetStatus, Warning, "GET is neither a stream nor refused with 405", "Clients that open a stream for notifications fail on the status, or try again for ever.", "Serve text/event-stream, or answer 405.", "Dragoman does without the stream."},

	{VersionHeaderUnchecked, Info, "a version header that nobody knows is accepted", "Clients that send a wrong version are not told.", "Answer 400.", "Dragoman sends the version that was agreed on."},
	{VersionHeaderNeeded, Info, "a request without the version header is refused", "Some clients send none after the handshake; the specification has servers assume 2025-03-26, or what was agreed on.", "Take what was agreed on for the session.", "Dragoman always sends the header."},
	{HeadersUnchecked, Error, "headers that contradict the body are accepted", "What stands between client and server decides by the headers, and the server by the body: rules can be got round.", "Answer 400 and -32020 when Mcp-Method, Mcp-Name or MCP-Protocol-Version are missing or say something else than the body.", "Dragoman checks the headers of its clients itself, and sends right ones."},
	{HeadersStatus, Warning, "headers that contradict the body are refused in another way than with 400 and -32020", "Clients do not learn what is wrong.", "Answer 400 with the error -32020.", "Dragoman sends right headers."},
	{GoneStatus, Info, "GET or DELETE is not refused with 405", "Older clients do not learn that there is neither a stream nor a session.", "Answer 405.", "Dragoman sends neither to a modern server."},

	{NoteStatus, Info, "notifications get another status than 202", "Strict clients report an error.", "Answer 202 without a body.", "Dragoman takes any success."},
	{InitializedStatus, Error, "notifications/initialized is refused", "Clients take the handshake for failed.", "Answer 202.", "Dragoman goes on when the next request is served."},
	{StatusOfLostSession, Warning, "unknown methods get the status 404", "Up to 2025-11-25, 404 says that the session is lost: clients open a new one each time.", "Answer with 200 and the error -32601.", "Dragoman opens a new session as well, as the specification wants it."},
	{StatusOfUnknown, Warning, "unknown methods get the status 200", "2026-07-28 has 404 for unknown methods; what stands between client and server cannot tell.", "Answer with 404 and the error -32601.", "Dragoman looks at the error in the body."},
}
