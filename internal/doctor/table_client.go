package doctor

// The codes of what is found in clients.
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

// conditionsOfClients is the table of these codes.
var conditionsOfClients = []Condition{
	{ClientNoHandshake, Warning, "it asks without a handshake", "Servers that want a session, or initialize, refuse the client.", "Open with initialize, or describe each request in _meta.", "Dragoman adopts such clients: it does the handshake with the server for them."},
	{ClientBare, Error, "initialize has no parameters", "Most servers answer -32602 and nothing more.", "Send protocolVersion, capabilities and clientInfo.", "Dragoman answers with a result that such clients can read, tools included, and sends servers complete parameters."},
	{ClientVersion, Warning, "it offers a version that does not exist", "Servers answer with one of their own, or refuse.", "Offer the newest revision that you speak.", "Dragoman answers with the newest version that opens with initialize."},
	{ClientNoInfo, Warning, "it does not say who it is", "Every client has to name itself in clientInfo; strict servers refuse.", `Send "clientInfo":{"name":…,"version":…}.`, "Dragoman names itself to the server."},
	{ClientNoCapabilities, Warning, "it declares no capabilities", "Every initialize has capabilities; strict servers refuse.", "Send capabilities, if only {}.", "Dragoman takes a missing object for an empty one."},
	{ClientNoInitialized, Error, "it never sends notifications/initialized, or too late", "Servers that wait for it refuse every request.", "Send it once initialize is answered, before anything else.", "Dragoman sends it to the server whatever the client does, and does not wait for the client's."},
	{ClientBothEras, Info, "it sends initialize although server/discover was answered", "Servers of both eras may take it for a second client.", "Stay in the era that was found.", "Dragoman goes by what each request says."},
	{ClientTwice, Warning, "it sends initialize twice", "Servers refuse the second, or forget the session.", "Send initialize once in a session.", "Dragoman refuses the second and goes on with the first."},
	{ClientMeta, Error, "modern requests lack what _meta must have", "Servers of 2026-07-28 refuse each such request.", "Send protocolVersion and clientCapabilities in _meta of each request, and the same version in the header.", "Dragoman refuses it too, with the error that says what is missing."},
	{ClientNewWords, Warning, "it has words of 2026-07-28 in a session of an older revision", "Keys of _meta that begin with io.modelcontextprotocol/ belong to the protocol: strict servers refuse those that their revision does not define. Headers do no harm.", "Speak as the version that was agreed on.", "Dragoman keeps such keys from servers of older revisions, and gives modern ones its own."},
	{ClientNeverLists, Info, "it never asks for the tools", "Right for a client that knows them, or reads them elsewhere.", "Nothing needs to be done.", "Dragoman gives the tools with the answer to initialize to clients that read them there."},

	{ClientUnreadable, Error, "it sends what is no message", "Servers answer with an error, or end.", "Send one JSON object a line.", "Dragoman answers for such messages itself; no server sees them."},
	{ClientBatch, Error, "it sends batches in a revision that has none", "Servers refuse them, or end.", "Send one message at a time; only 2025-03-26 has batches.", "Dragoman refuses the batch; in 2025-03-26 it takes batches apart."},
	{ClientShape, Error, "messages are not quite JSON-RPC", "Strict servers refuse them.", "See the evidence; JSON-RPC 2.0 says what a message may have.", "Dragoman answers with an error that says what is wrong."},
	{ClientIDZero, Info, "it uses the id 0", "Right, but some servers take it for none.", "Count from 1 to be safe.", "Dragoman never sends the id 0 to a server."},
	{ClientIDReused, Error, "it uses ids more than once", "Answers cannot be told apart; strict servers refuse.", "Use each id once in a session.", "Dragoman counts with ids of its own towards servers."},
	{ClientUnknown, Info, "it sends methods that the revision does not have", "Servers answer with an error, or with silence.", "Look at the version that was agreed on.", "Dragoman passes on what it does not know, except to servers that cannot bear it."},
	{ClientUndeclared, Info, "it asks for what the server has not declared", "Servers answer with an error, or with silence.", "Look at the server's capabilities first.", "Dragoman answers such requests itself where the server has declared other things and not this."},
	{ClientPingSilent, Warning, "it does not answer ping", "Servers take the client for dead.", "Answer ping with an empty result.", "Dragoman answers a server's ping itself."},
	{ClientUnknownSilent, Warning, "it leaves unknown requests unanswered", "Servers wait in vain.", "Answer every request; methods that you do not know with -32601.", "Dragoman asks clients only for what they have declared."},

	{ClientAccept, Warning, "Accept does not list both types", "Strict servers answer 406.", "Send Accept: application/json, text/event-stream.", "Dragoman answers in the way that is accepted, and with 406 where there is none."},
	{ClientContentType, Error, "the content type is not application/json", "Servers answer 415 or 400.", "Send Content-Type: application/json.", "Dragoman answers 415."},
	{ClientVersionHeader, Warning, "MCP-Protocol-Version is missing or wrong in a session", "Strict servers answer 400.", "Send the version that was agreed on with each request after initialize.", "Dragoman goes by what was agreed on when the header is missing."},
	{ClientSession, Error, "it names sessions that the server has not assigned", "Servers answer 404.", "Send back the Mcp-Session-Id of the answer to initialize.", "Dragoman answers 404, and the client has to open anew."},
	{ClientMirrors, Error, "headers do not repeat what the body says", "Servers of 2026-07-28 refuse the request with -32020.", "Send Mcp-Method and Mcp-Name with the values of the body.", "Dragoman refuses it too, with the error that says what differs."},
	{ClientExplores, Info, "it looks for ways to sign in", "Right: it asks for .well-known addresses first.", "Nothing needs to be done.", "Dragoman answers 404 as long as nobody needs to sign in."},
}
