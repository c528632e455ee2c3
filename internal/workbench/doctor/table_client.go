package doctor

// The codes of findings about clients.
const (
	ClientNoHandshake      = "DRG-CLIENT-NO-HANDSHAKE"
	ClientBare             = "DRG-CLIENT-BARE-INITIALIZE"
	ClientVersion          = "DRG-CLIENT-VERSION"
	ClientNoInfo           = "DRG-CLIENT-NO-CLIENTINFO"
	ClientNoCapabilities   = "DRG-CLIENT-NO-CAPABILITIES"
	ClientNoInitialized    = "DRG-CLIENT-NO-INITIALIZED"
	ClientInitializedID    = "DRG-CLIENT-INITIALIZED-ID"
	ClientInitializedEarly = "DRG-CLIENT-INITIALIZED-EARLY"
	ClientNoProgressToken  = "DRG-CLIENT-NO-PROGRESS-TOKEN"
	ClientBothEras         = "DRG-CLIENT-BOTH-ERAS"
	ClientTwice            = "DRG-CLIENT-INITIALIZE-TWICE"
	ClientMeta             = "DRG-CLIENT-META"
	ClientNewWords         = "DRG-CLIENT-NEW-WORDS"
	ClientNeverLists       = "DRG-CLIENT-NEVER-LISTS"

	ClientUnreadable    = "DRG-CLIENT-UNREADABLE"
	ClientBatch         = "DRG-CLIENT-BATCH"
	ClientShape         = "DRG-CLIENT-MESSAGE-SHAPE"
	ClientIDZero        = "DRG-CLIENT-ID-ZERO"
	ClientIDReused      = "DRG-CLIENT-ID-REUSED"
	ClientUnknown       = "DRG-CLIENT-UNKNOWN-METHOD"
	ClientUndeclared    = "DRG-CLIENT-UNDECLARED"
	ClientPingSilent    = "DRG-CLIENT-PING-SILENT"
	ClientUnknownSilent = "DRG-CLIENT-UNKNOWN-SILENT"

	ClientAccept        = "DRG-CLIENT-HTTP-ACCEPT"
	ClientContentType   = "DRG-CLIENT-HTTP-CONTENT-TYPE"
	ClientVersionHeader = "DRG-CLIENT-HTTP-VERSION"
	ClientSession       = "DRG-CLIENT-HTTP-SESSION"
	ClientMirrors       = "DRG-CLIENT-HTTP-HEADERS"
	ClientExplores      = "DRG-CLIENT-HTTP-WELL-KNOWN"
)

// conditionsOfClients describes the codes above.
var conditionsOfClients = []Condition{
	{ClientNoHandshake, Warning, "sends requests without a handshake", "Servers that require initialize, or a session, refuse the requests.", "Send initialize first. If the client speaks 2026-07-28, send the required _meta with each request instead.", "Dragoman accepts requests without a handshake, and performs the handshake with the server."},
	{ClientBare, Error, "sends initialize without parameters", "Most servers answer with the error -32602.", "Send protocolVersion, capabilities and clientInfo as parameters.", "Dragoman answers with a result that such clients can read. The result includes the tools. Dragoman sends initialize with all parameters to the server."},
	{ClientVersion, Warning, "requests a protocol version that does not exist", "Servers answer with another version, or with an error.", "Request the newest version that the client supports.", "Dragoman answers with the newest version that uses initialize."},
	{ClientNoInfo, Warning, "does not send its name and version in clientInfo", "MCP requires that a client sends its name and version in clientInfo. Strict servers refuse a client that omits clientInfo, the name or the version.", `Send "clientInfo":{"name":…,"version":…}.`, `If the name is missing, Dragoman sends the name "unknown" to the server. If the version is missing, Dragoman sends the version "0".`},
	{ClientNoCapabilities, Warning, "declares no capabilities in initialize", "MCP requires a capabilities object in initialize. Strict servers refuse a client without this object.", "Send a capabilities object. If the client has no capabilities, send {}.", "Dragoman treats the missing object as an empty object."},
	{ClientNoInitialized, Error, "never sends notifications/initialized, or sends it too late", "Servers that wait for this notification refuse every request.", "Send notifications/initialized immediately after the client receives the answer to initialize.", "Dragoman always sends notifications/initialized to the server, and does not wait for the client to send it."},
	{ClientInitializedID, Error, "sends notifications/initialized with an id", "A message with an id is a request. Servers answer the request with the error -32601, and keep waiting for the notification.", `Send {"jsonrpc":"2.0","method":"notifications/initialized"} without an id.`, "Dragoman answers the request with an error, and itself sends the notification to the server."},
	{ClientInitializedEarly, Warning, "sends notifications/initialized before the answer to initialize", "Servers ignore or refuse the early notification. After the answer to initialize, these servers wait for a second notifications/initialized.", "Send initialize, wait for its answer, and then send notifications/initialized.", "Dragoman ignores the early notification. After the server answers initialize, Dragoman sends notifications/initialized to the server."},
	{ClientNoProgressToken, Info, "calls tools without a progressToken", "Servers cannot report the progress of a call, so a long call looks like a call that hangs.", "If the client can show progress, send a progressToken in _meta of the request.", "Dragoman asks the server for progress only if the client asks for progress."},
	{ClientBothEras, Info, "sends initialize after server/discover succeeded", "A server may support 2026-07-28 and older revisions. Such a server may treat server/discover and initialize as messages of two clients.", "After server/discover succeeds, do not send initialize.", "Dragoman decides for each request whether the request belongs to 2026-07-28 or to an older revision."},
	{ClientTwice, Warning, "sends initialize twice in one session", "Servers refuse the second initialize, or discard the state of the session.", "Send initialize once in each session.", "Dragoman answers the second initialize with an error, and keeps the session."},
	{ClientMeta, Error, "sends requests of 2026-07-28 without the required _meta", "Servers of the revision 2026-07-28 refuse each such request.", "Send protocolVersion and clientCapabilities in _meta of each request. Send the same version in the MCP-Protocol-Version header.", "Dragoman refuses a request without the required _meta. The error says what is missing."},
	{ClientNewWords, Warning, "sends _meta keys of 2026-07-28 in a session of an older revision", "Keys of _meta that begin with io.modelcontextprotocol/ are reserved. Strict servers refuse keys that their revision does not define. The finding can also be about the HTTP headers that 2026-07-28 adds, but these headers cause no problem.", "Send only keys that the negotiated revision defines.", "Dragoman does not send these keys to servers of older revisions. Before Dragoman sends these keys to a server of the revision 2026-07-28, Dragoman replaces their values with its own values."},
	{ClientNeverLists, Info, "never requests tools/list", "A client that knows the tools from another source does not need tools/list.", "You can ignore this finding.", "Dragoman includes the tools in its answer to initialize, for clients that expect the tools in this answer."},

	{ClientUnreadable, Error, "sends text that is not a JSON-RPC message", "Servers answer with an error, or exit.", "Send only JSON-RPC messages. On stdio, send one message per line.", "Dragoman itself answers with an error, and does not send the text to a server."},
	{ClientBatch, Error, "sends batches in a revision that has no batches", "Servers refuse the batch, or exit.", "Send one message at a time. Only the revision 2025-03-26 has batches.", "Dragoman refuses the batch. Dragoman accepts batches only from clients that speak 2025-03-26."},
	{ClientShape, Error, "sends messages that are not valid JSON-RPC", "Strict servers refuse the messages.", "Compare the message in the evidence of this finding with the specification of JSON-RPC 2.0.", "Dragoman answers with an error that describes the mistake."},
	{ClientIDZero, Info, "uses the id 0", "The id 0 is valid, but some servers treat this id as a missing id.", "Count ids from 1, so that these servers answer the first request.", "Dragoman never sends the id 0 to a server."},
	{ClientIDReused, Error, "uses an id more than once", "The client cannot tell which request an answer belongs to. Strict servers refuse the second request with the same id.", "Use each id only once in a session.", "Dragoman replaces each id from the client with its own id before it sends the request to the server."},
	{ClientUnknown, Info, "sends methods that the negotiated revision does not define", "Servers answer with an error, or do not answer.", "Send only methods that the negotiated revision defines.", "Dragoman passes unknown methods on to the server, unless Dragoman knows that unknown methods make the server fail."},
	{ClientUndeclared, Info, "sends requests for capabilities that the server has not declared", "Servers answer with an error, or do not answer.", "Check the capabilities of the server before you send such a request.", "If the server has declared other capabilities, but not the capability that the request needs, Dragoman itself answers the request."},
	{ClientPingSilent, Warning, "does not answer ping", "Servers conclude that the client is dead.", "Answer ping with an empty result.", "Dragoman itself answers the server's pings."},
	{ClientUnknownSilent, Warning, "does not answer requests with unknown methods", "A server that sends such a request waits until the request times out.", "Answer every request. Answer unknown methods with the error -32601.", "Dragoman sends a client only requests for capabilities that the client has declared."},

	{ClientAccept, Warning, "sends an incomplete Accept header", "Strict servers answer with HTTP status 406.", "Send the header Accept: application/json, text/event-stream.", "Dragoman answers with JSON or with an event stream, whichever the client accepts. If the client accepts neither JSON nor event streams, Dragoman answers with HTTP status 406."},
	{ClientContentType, Error, "does not send the header Content-Type: application/json", "Servers answer with HTTP status 415 or 400.", "Send the header Content-Type: application/json.", "Dragoman answers with HTTP status 415."},
	{ClientVersionHeader, Warning, "sends no MCP-Protocol-Version header or a wrong one after initialize", "Strict servers answer with HTTP status 400.", "After initialize, send the negotiated version in the MCP-Protocol-Version header of each request.", "If the header is missing, Dragoman uses the negotiated version. If the header is wrong, Dragoman answers with HTTP status 400."},
	{ClientSession, Error, "uses session ids that the server has not assigned", "Servers answer with HTTP status 404.", "Send the Mcp-Session-Id that the client received with the answer to initialize.", "Dragoman answers with HTTP status 404. The client has to open a new session."},
	{ClientMirrors, Error, "sends headers that do not match the body", "Servers of the revision 2026-07-28 refuse the request with the error -32020.", "Copy the method and the name from the body into the headers Mcp-Method and Mcp-Name.", "Dragoman refuses the request, as these servers do. Dragoman's error says which header does not match."},
	{ClientExplores, Info, "requests OAuth metadata", "This behaviour is correct. The client requests addresses under /.well-known to find out whether sign-in is required.", "You can ignore this finding.", "Dragoman answers with HTTP status 404, because it does not require authentication."},
}
