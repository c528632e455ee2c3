package doctor

// The codes of findings in clients.
const (
	ClientNoHandshake    = "DRG-CLIENT-NO-HANDSHAKE"
	ClientBare           = "DRG-CLIENT-BARE-INITIALIZE"
	ClientVersion        = "DRG-CLIENT-VERSION"
	ClientNoInfo         = "DRG-CLIENT-NO-CLIENTINFO"
	ClientNoCapabilities = "DRG-CLIENT-NO-CAPABILITIES"
	ClientNoInitialized  = "DRG-CLIENT-NO-INITIALIZED"
	ClientBothEras       = "DRG-CLIENT-BOTH-ERAS"
	ClientTwice          = "DRG-CLIENT-INITIALIZE-TWICE"
	ClientMeta           = "DRG-CLIENT-META"
	ClientNewWords       = "DRG-CLIENT-NEW-WORDS"
	ClientNeverLists     = "DRG-CLIENT-NEVER-LISTS"

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

// conditionsOfClients describes these codes.
var conditionsOfClients = []Condition{
	{ClientNoHandshake, Warning, "sends requests without a handshake", "Servers that require a session, or initialize, refuse the client.", "Start with initialize, or send the required _meta with each request.", "Dragoman accepts such clients and performs the handshake with the server for them."},
	{ClientBare, Error, "sends initialize without parameters", "Most servers answer -32602 only.", "Send protocolVersion, capabilities and clientInfo.", "Dragoman answers with a result that such clients can read, including the tools, and sends servers complete parameters."},
	{ClientVersion, Warning, "offers a version that does not exist", "Servers answer with a version of their own, or refuse.", "Offer the newest revision that you support.", "Dragoman answers with the newest version that has initialize."},
	{ClientNoInfo, Warning, "has no clientInfo", "Every client must name itself in clientInfo. Strict servers refuse it.", `Send "clientInfo":{"name":…,"version":…}.`, "Dragoman sends its own name to the server."},
	{ClientNoCapabilities, Warning, "declares no capabilities", "Every initialize must have capabilities. Strict servers refuse the client.", "Send capabilities, at least {}.", "Dragoman treats a missing object as empty."},
	{ClientNoInitialized, Error, "never sends notifications/initialized, or sends it too late", "Servers that wait for it refuse every request.", "Send it right after the answer to initialize, before anything else.", "Dragoman always sends it to the server, and does not wait for the client's."},
	{ClientBothEras, Info, "sends initialize although server/discover was answered", "Servers of both eras may treat it as a second client.", "Stay in the era that was found.", "Dragoman decides by the content of each request."},
	{ClientTwice, Warning, "sends initialize twice", "Servers refuse the second one, or forget the session.", "Send initialize once in a session.", "Dragoman refuses the second one and keeps the session."},
	{ClientMeta, Error, "sends modern requests without the required _meta", "Servers of 2026-07-28 refuse each such request.", "Send protocolVersion and clientCapabilities in _meta of each request, and the same version in the header.", "Dragoman refuses it too, with an error that says what is missing."},
	{ClientNewWords, Warning, "uses _meta keys of 2026-07-28 in a session of an older revision", "Keys of _meta that begin with io.modelcontextprotocol/ are reserved. Strict servers refuse keys that their revision does not define. Headers are harmless.", "Use only what the agreed version defines.", "Dragoman does not send such keys to servers of older revisions, and sends modern servers its own."},
	{ClientNeverLists, Info, "never requests the tools", "This is correct for a client that knows them, or reads them elsewhere.", "Nothing needs to be done.", "Dragoman includes the tools in the answer to initialize for clients that read them there."},

	{ClientUnreadable, Error, "sends text that is not a message", "Servers answer with an error, or exit.", "Send one JSON object per line.", "Dragoman answers such messages itself. Servers never see them."},
	{ClientBatch, Error, "sends batches in a revision without batches", "Servers refuse them, or exit.", "Send one message at a time. Only 2025-03-26 has batches.", "Dragoman refuses the batch. In 2025-03-26 it splits batches."},
	{ClientShape, Error, "sends messages that are not valid JSON-RPC", "Strict servers refuse them.", "See the evidence. JSON-RPC 2.0 defines the members of a message.", "Dragoman answers with an error that says what is wrong."},
	{ClientIDZero, Info, "uses the id 0", "This is valid, but some servers treat it as no id.", "Count from 1 to be safe.", "Dragoman never sends the id 0 to a server."},
	{ClientIDReused, Error, "uses an id more than once", "Answers cannot be told apart. Strict servers refuse the request.", "Use each id once in a session.", "Dragoman uses its own ids towards servers."},
	{ClientUnknown, Info, "sends methods that the revision does not define", "Servers answer with an error, or not at all.", "Check the agreed version.", "Dragoman passes on unknown methods, except to servers that are known to fail on them."},
	{ClientUndeclared, Info, "uses capabilities that the server has not declared", "Servers answer with an error, or not at all.", "Check the server's capabilities first.", "Dragoman answers such requests itself if the server has declared other capabilities and not this one."},
	{ClientPingSilent, Warning, "does not answer ping", "Servers conclude that the client is dead.", "Answer ping with an empty result.", "Dragoman answers a server's ping itself."},
	{ClientUnknownSilent, Warning, "does not answer unknown requests", "Servers wait until their timeout.", "Answer every request. Answer unknown methods with -32601.", "Dragoman sends clients only requests for capabilities that they have declared."},

	{ClientAccept, Warning, "sends an incomplete Accept header", "Strict servers answer 406.", "Send Accept: application/json, text/event-stream.", "Dragoman answers in the way that is accepted, and with 406 where there is none."},
	{ClientContentType, Error, "does not send Content-Type: application/json", "Servers answer 415 or 400.", "Send Content-Type: application/json.", "Dragoman answers 415."},
	{ClientVersionHeader, Warning, "sends no MCP-Protocol-Version in a session, or a wrong one", "Strict servers answer 400.", "Send the agreed version with each request after initialize.", "If the header is missing, Dragoman uses the agreed version."},
	{ClientSession, Error, "uses session ids that the server has not assigned", "Servers answer 404.", "Send the Mcp-Session-Id from the answer to initialize.", "Dragoman answers 404, and the client has to open a new session."},
	{ClientMirrors, Error, "sends headers that do not repeat the body", "Servers of 2026-07-28 refuse the request with -32020.", "Send Mcp-Method and Mcp-Name with the values of the body.", "Dragoman refuses it too, with an error that says what differs."},
	{ClientExplores, Info, "looks for OAuth metadata", "This is correct: it requests .well-known addresses first.", "Nothing needs to be done.", "Dragoman answers 404, because it does not require authentication."},
}
