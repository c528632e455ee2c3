package doctor

// The codes of what is found in servers on any transport.
const (
	Unreachable = "DRG-UNREACHABLE"
	CannotStart = "DRG-CANNOT-START"
	NoRevision  = "DRG-NO-REVISION"
	Dies        = "DRG-DIES"
	ProbeDies   = "DRG-DIES-PROBE"
	BareDies    = "DRG-DIES-BARE-INITIALIZE"
	DiesOnOdd   = "DRG-DIES-ODD-INPUT"
	HalfLine    = "DRG-HALF-LINE"
	SlowStart   = "DRG-SLOW-START"
	Noise       = "DRG-STDOUT-NOISE"

	VersionRefused    = "DRG-VERSION-REFUSED"
	VersionEchoed     = "DRG-VERSION-ECHOED"
	InitializeRefused = "DRG-INITIALIZE-REFUSED"
	NoVersion         = "DRG-INITIALIZE-NO-VERSION"
	Manifest          = "DRG-MANIFEST"
	PushesManifest    = "DRG-MANIFEST-PUSHED"
	NotMCP            = "DRG-NOT-MCP"
	NoCapabilities    = "DRG-INITIALIZE-NO-CAPABILITIES"
	NoServerInfo      = "DRG-INITIALIZE-NO-SERVERINFO"
	OddInstructions   = "DRG-INITIALIZE-INSTRUCTIONS"
	BareSilent        = "DRG-BARE-INITIALIZE-SILENT"
	BareServed        = "DRG-BARE-INITIALIZE-SERVED"
	BareMisnamed      = "DRG-BARE-INITIALIZE-MISNAMED"
	ProbeSilent       = "DRG-PROBE-SILENT"
	OddDiscover       = "DRG-DISCOVER-NO-VERSIONS"
	NoResultType      = "DRG-RESULT-TYPE"
	MetaVersionCode   = "DRG-META-VERSION-CODE"
	MetaVersionList   = "DRG-META-VERSION-LIST"
	EarlySilent       = "DRG-EARLY-SILENT"
	EarlyServed       = "DRG-EARLY-SERVED"
	InitializedNeeded = "DRG-INITIALIZED-NEEDED"
	InitializedSilent = "DRG-INITIALIZED-SILENT"
	LateGate          = "DRG-INITIALIZED-LATE"

	PingSilent    = "DRG-PING-SILENT"
	PingRefused   = "DRG-PING-REFUSED"
	PingResult    = "DRG-PING-RESULT"
	UnknownSilent = "DRG-UNKNOWN-SILENT"
	UnknownServed = "DRG-UNKNOWN-SERVED"
	UnknownCode   = "DRG-UNKNOWN-CODE"
	NoteAnswered  = "DRG-NOTIFICATION-ANSWERED"

	IDString = "DRG-ID-STRING"
	IDZero   = "DRG-ID-ZERO"
	IDBig    = "DRG-ID-BIG"
	IDReused = "DRG-ID-REUSED"
	IDType   = "DRG-ID-TYPE"
	IDLost   = "DRG-ID-LOST"

	NoVersionMember = "DRG-JSONRPC-MEMBER"
	ErrorCode       = "DRG-ERROR-CODE"
	ErrorShape      = "DRG-ERROR-SHAPE"
	MessageShape    = "DRG-MESSAGE-SHAPE"
	Unasked         = "DRG-UNASKED"
	AsksUndeclared  = "DRG-ASKS-UNDECLARED"

	LongMessage     = "DRG-LONG-MESSAGE"
	VeryLongMessage = "DRG-VERY-LONG-MESSAGE"
	BurstLost       = "DRG-BURST"
	BatchRefused    = "DRG-BATCH"
	StuckOnOdd      = "DRG-STUCK-ODD-INPUT"

	Unhandled     = "DRG-CAPABILITY-UNHANDLED"
	Undeclared    = "DRG-CAPABILITY-UNDECLARED"
	ListFails     = "DRG-LIST-FAILS"
	NoList        = "DRG-LIST-SHAPE"
	Nameless      = "DRG-LIST-NAMELESS"
	Duplicates    = "DRG-LIST-DUPLICATES"
	PageFails     = "DRG-LIST-PAGE"
	CursorType    = "DRG-CURSOR-TYPE"
	CursorRepeats = "DRG-CURSOR-REPEATS"
	Endless       = "DRG-CURSOR-ENDLESS"
	ReadFails     = "DRG-READ-FAILS"

	ToolName        = "DRG-TOOL-NAME"
	ToolUndescribed = "DRG-TOOL-DESCRIPTION"
	SchemaMissing   = "DRG-SCHEMA-MISSING"
	SchemaInvalid   = "DRG-SCHEMA-INVALID"
	SchemaEmpty     = "DRG-SCHEMA-EMPTY"
	SchemaBare      = "DRG-SCHEMA-BARE"
	SchemaDialect   = "DRG-SCHEMA-DIALECT"
	SchemaRef       = "DRG-SCHEMA-REF"
	SchemaHeader    = "DRG-SCHEMA-HEADER"

	CallSilent    = "DRG-CALL-SILENT"
	NoContent     = "DRG-CALL-CONTENT"
	Floods        = "DRG-FLOOD"
	StuckOnCancel = "DRG-CANCEL"
)

// conditionsOfServers is the table of these codes.
var conditionsOfServers = []Condition{
	// Life and death.
	{Unreachable, Error, "it says nothing at all", "No client gets a word out of the server: it cannot be started, ends at once, cannot be connected to, or answers nothing.", "Run the command by hand and look at its standard error; answer initialize or server/discover before anything slow is done.", "Dragoman reports the command, its exit status and what it said last, and tries again with growing pauses."},
	{CannotStart, Error, "it cannot be started again", "The server ran once and then could not be started or connected to a second time, as clients do that probe it.", "Let several copies run side by side: no fixed port, no lock that a crash leaves behind.", "Dragoman starts one process where it can, and says why a further one failed."},
	{NoRevision, Error, "it cannot be opened in any revision", "The server is there, and yet no client can use it.", "Answer initialize, or server/discover; over HTTP, check the URL's path.", "Dragoman tries what it knows of dialects, and says which step failed."},
	{Dies, Error, "it dies on a message that is allowed", "The client loses the server, and often all of its tools until it is started anew.", "Answer with an error in place of ending; catch what the handler throws.", "Dragoman starts the server again, repeats what is safe to repeat and answers the rest with an error that says what happened."},
	{ProbeDies, Error, "it dies on server/discover", "Clients of 2026-07-28 open with server/discover. They lose this server before they can fall back to initialize.", "Answer methods that you do not know with the error -32601, before initialize as well.", "Dragoman starts it again, opens with initialize, and never probes this configuration again."},
	{BareDies, Warning, "it dies on initialize without parameters", "A client that leaves the parameters out ends the server.", "Check the parameters and answer -32602.", "Dragoman always sends complete parameters."},
	{DiesOnOdd, Warning, "it dies on odd input", "One malformed message of any client ends the server for all.", "Answer -32700 or -32600 to what cannot be read, and go on.", "Dragoman checks what clients send, answers for malformed messages itself, and never sends batches, null ids or null arguments to a server."},
	{HalfLine, Error, "it ends in the midst of a message", "The answer that the client waits for never becomes whole.", "Write each message in one piece and flush it before the process ends.", "Dragoman delivers no half message; the call gets an error that says so."},
	{SlowStart, Warning, "it is slow to start", "Clients that probe with server/discover wait for about three seconds and then take the server for an older one, or give it up.", "Read standard input first and load the rest later.", "Dragoman still takes the late answer for what it is."},
	{Noise, Error, "it prints on standard output what is no message", "Standard output belongs to the protocol. Many clients close a connection on the first line that they cannot read.", "Log to standard error. Look for print statements and for libraries that log to standard output.", "Dragoman keeps such lines as log messages and reads on."},

	// Opening.
	{VersionRefused, Warning, "it refuses versions in place of naming its own", "A client that offers another version than the server's gets an error and gives up, although the two may have one in common.", "Answer initialize with a version that you do support (Lifecycle, Version Negotiation); the client decides.", "Dragoman reads the versions out of the error and offers the best one in common."},
	{VersionEchoed, Warning, "it agrees to versions that do not exist", "The server repeats whatever version it is offered. The client then speaks a revision that the server does not know.", "Answer with a version that you support.", "Dragoman offers only versions that exist."},
	{InitializeRefused, Error, "it refuses initialize", "The server is there and serves tools, but no client can open it in the way of MCP.", "Answer initialize (Lifecycle, Initialization).", "Dragoman recognises the dialect and does the handshake in the server's place."},
	{NoVersion, Error, "initialize is answered without a version", "Clients refuse a result without protocolVersion, or guess.", "Answer with protocolVersion, capabilities and serverInfo.", "Dragoman takes the server for one of the oldest revision."},
	{Manifest, Error, "it gives its tools in the initialize result", "The server speaks a manifest dialect: clients of MCP find neither a version nor capabilities, and tools/list may not exist.", "Answer initialize as MCP has it, and tools/list with the tools.", "Dragoman reads the manifest, repairs its schemas and answers tools/list itself; docs/dialects.md has the details."},
	{PushesManifest, Error, "it pushes its manifest unasked", "A result arrives that nobody has asked for. Clients drop it, or the connection.", "Send nothing before you are asked; answer initialize and tools/list.", "Dragoman keeps what is pushed as the manifest and serves the tools in it."},
	{NotMCP, Error, "it speaks no MCP", "The server answers initialize with members that are none of MCP's: it is an app-server, which has other methods.", "Nothing is wrong with it, it is just no MCP server.", "Dragoman presents it as an MCP server: dragoman run --dialect codex-app-server."},
	{NoCapabilities, Warning, "it declares no capabilities", "Clients take the server to have neither tools nor anything else.", "Send capabilities, if only {}, with a member for each list that you have.", "Dragoman concludes nothing from it, and still asks for the lists."},
	{NoServerInfo, Warning, "it does not say who it is", "A server has to name itself; strict clients refuse the server.", `Send "serverInfo":{"name":…,"version":…}.`, "Dragoman passes the answer on; where it has to write one of its own, the name is unknown."},
	{OddInstructions, Info, "its instructions are no text", "Clients ignore the instructions or refuse the answer.", "Send instructions as a string.", "Dragoman leaves them out."},
	{BareSilent, Warning, "initialize without parameters is met with silence", "A client with that mistake hangs in place of being told.", "Answer -32602.", "Dragoman always sends complete parameters."},
	{BareServed, Info, "initialize without parameters is accepted", "Nothing fails by it, but clients with mistakes are not told.", "Answer -32602 if you care.", "Nothing needs to be done."},
	{BareMisnamed, Info, "initialize without parameters is answered with -32601", "The error says that the method is unknown, when only the parameters were wrong. Clients may take the server for one without a handshake.", "Answer -32602.", "Dragoman does not conclude from -32601 alone that a server lacks initialize."},
	{ProbeSilent, Warning, "server/discover is met with silence", "Clients of 2026-07-28 wait for seconds, or for ever, before they try initialize.", "Answer every request; methods that you do not know with -32601.", "Dragoman waits for three seconds at most, remembers it, and opens with initialize from then on. It answers server/discover for the server at once."},
	{OddDiscover, Warning, "server/discover succeeds without supportedVersions", "The server answers a method that it does not have. Clients may take it for a modern one, which it is not.", "Answer methods that you do not know with -32601.", "Dragoman takes a result without supportedVersions for no proof and opens with initialize."},
	{NoResultType, Error, "a modern result has no resultType", "2026-07-28 requires resultType in every result; clients refuse the answer.", `Send "resultType":"complete".`, "Dragoman passes results of modern servers on as they are."},
	{MetaVersionCode, Error, "an unknown version in _meta is not refused with -32022", "Modern clients find out by that error which versions they can use. Without it, they speak one that the server does not know.", "Answer -32022 with data.supported (Versioning, Protocol Version Negotiation).", "Dragoman answers such clients itself and speaks the server's own version with it."},
	{MetaVersionList, Error, "the error -32022 names no versions", "A client is told that its version is wrong and not which ones are right.", `Send "data":{"supported":[…],"requested":…}.`, "Dragoman answers such clients itself."},
	{EarlySilent, Warning, "a request in the wrong place is met with silence", "A client that asks before the handshake is over, or without _meta, hangs in place of being told.", "Answer every request, if only with an error.", "Dragoman never sends a request before the handshake is over, and completes _meta."},
	{EarlyServed, Info, "it serves requests before initialize", "Nothing fails by it; clients without a handshake work.", "Nothing needs to be done.", "Nothing needs to be done."},
	{InitializedNeeded, Info, "it refuses requests before notifications/initialized", "Right by the specification. Clients that forget the notification fail.", "Nothing needs to be done.", "Dragoman always sends the notification, whatever the client does."},
	{InitializedSilent, Warning, "a request before notifications/initialized is met with silence", "A client that forgets the notification, or is early, hangs.", "Answer with an error.", "Dragoman always sends the notification first."},
	{LateGate, Warning, "it is not ready right after notifications/initialized", "The first requests of a quick client fail.", "Take in messages in their order, or hold requests back until you are ready.", "Dragoman waits and sends such a request again: after 50, 200 and 800 milliseconds."},

	// Requests and notifications.
	{PingSilent, Error, "ping is met with silence", "Clients take the server for dead and end it (Ping).", "Answer ping with an empty result.", "Dragoman answers the client's ping itself. A server on a pipe that answers neither calls nor pings for long is started anew."},
	{PingRefused, Warning, "ping is refused", "Some clients take the error for the end of the connection.", "Answer ping with an empty result.", "Dragoman answers the client's ping itself, and takes any answer for a sign of life."},
	{PingResult, Info, "ping has a result that is not empty", "Strict clients may refuse it.", "Answer with {}.", "Dragoman answers the client's ping itself."},
	{UnknownSilent, Error, "unknown methods are met with silence", "A client that tries something newer than the server hangs until its own time-out, server/discover among it.", "Answer every request; methods that you do not know with -32601.", "Dragoman answers calls itself whose capability the server has not declared, opens with initialize from the second time on, and ends other calls with their time-out."},
	{UnknownServed, Warning, "unknown methods succeed", "Clients conclude that the server has what it has not.", "Answer methods that you do not know with -32601.", "Dragoman goes by what was declared, and takes such successes for no proof."},
	{UnknownCode, Warning, "unknown methods are refused with another code than -32601", "Clients that try something newer do not learn that it is missing, and may fail for good.", "Answer -32601.", "Dragoman reads the meaning out of code and text together."},
	{NoteAnswered, Warning, "it answers notifications", "A notification has no answer. Clients take it for the answer to something else, or report an error.", "Send nothing in return for a message without an id.", "Dragoman recognises such answers and drops them."},
	{IDString, Error, "ids that are texts do not work", "Clients that count with texts, as the specification allows, cannot use the server.", "Give back the id as it came, string or number.", "Dragoman counts with small numbers of its own and gives each client its id back."},
	{IDZero, Warning, "the id 0 does not work", "Clients that count from 0 fail at the first request.", "Zero is an id like any other; test for its presence and not its truth.", "Dragoman never sends it."},
	{IDBig, Info, "ids beyond 2^53 do not come back as they were sent", "JavaScript cannot represent such a number exactly, so nearly every server written in it changes it. Hardly any client uses ids that large.", "Nothing needs to be done. To fix it, keep the id as the JSON text that arrived.", "Dragoman sends small numbers only."},
	{IDReused, Warning, "an id that was used before is met with silence", "A client that starts counting again hangs.", "Answer it, or refuse it with an error.", "Dragoman uses each id once."},
	{IDType, Error, "answers have another id than the request", `The server turns 1 into "1", or changes a small number's digits. Clients wait for an answer that never comes.`, "Give back the id as it came.", "Dragoman matches such ids by their value."},
	{IDLost, Error, "answers have no id", "The client cannot tell what is answered, and waits on.", "Give back the request's id, in errors too.", "Dragoman drops such an answer on a pipe; the call ends with its time-out."},
	{NoVersionMember, Warning, `messages have no "jsonrpc":"2.0"`, "Strict clients refuse every message.", `Send "jsonrpc":"2.0".`, "Dragoman reads such messages all the same."},
	{ErrorCode, Error, "errors have a code that is no integer", "Typed clients cannot read the answer, and fail with a parse error in place of the server's.", "Send an integer; put a word into data.", "Dragoman reads it, and sends clients an integer with the word in data."},
	{ErrorShape, Warning, "errors have no message", "Typed clients cannot read the answer.", "Send code and message.", "Dragoman adds an empty message."},
	{MessageShape, Warning, "messages are not quite JSON-RPC", "Strict clients refuse them.", "See the evidence; JSON-RPC 2.0 says what a message may have.", "Dragoman reads them where they cannot be mistaken for something else."},
	{Unasked, Warning, "it answers what nobody asked", "Clients drop the message, or end the connection.", "Answer each request once, with its own id.", "Dragoman drops such answers and counts them."},
	{AsksUndeclared, Warning, "it asks clients for what they have not declared", "The client has said that it cannot be asked for this. It refuses, or hangs.", "Look at the capabilities in initialize before you ask.", "Dragoman declares what the client has, and refuses the rest at once."},
	{LongMessage, Error, "messages of 128 KiB do not work", "A tool call with a long text as argument fails, or ends the server.", "Read lines of any length; many line readers have a bound of 64 KiB.", "Dragoman refuses what the server of a known dialect cannot read, with an error that says so, before it kills the server."},
	{VeryLongMessage, Warning, "messages of 1 MiB do not work", "A tool call with a file as argument fails, or ends the server.", "Read lines of any length up to some MiB.", "Dragoman passes them on; the call gets the server's error."},
	{BurstLost, Error, "of many requests at once some get no answer", "Agents that call tools side by side hang.", "Answer every request, in whichever order.", "Dragoman times such calls out one by one."},
	{BatchRefused, Warning, "batches do not work, although its revision has them", "2025-03-26 says that a receiver must take JSON-RPC batches.", "Take batches, or speak another revision.", "Dragoman takes batches apart and sends the messages one by one."},
	{StuckOnOdd, Warning, "it is stuck after odd input", "One malformed message of any client, and the server answers nobody.", "Answer -32700 or -32600 to what cannot be read, and go on.", "Dragoman checks what clients send and answers for malformed messages itself."},

	// Lists.
	{Unhandled, Error, "it declares what it does not have", "The capability is declared, but its method is unknown. Clients that trust the declaration fail.", "Declare only what has a handler.", "With serve, Dragoman makes an empty list of it; with run it passes the error on."},
	{Undeclared, Info, "it has what it does not declare", "Clients that go by the declaration do not see it.", "Declare a capability for each list that you have.", "Dragoman goes by the declaration too: it is all that a server has promised."},
	{ListFails, Error, "every request for a list fails", "The server declares the list and answers every request for it with an error. Clients see none of its items.", "Look in the server's own log for the error of the handler. Check the environment variables and credentials that the server needs.", "With serve, Dragoman leaves the server's items out, or shows the last list that it could read; with run it passes the error on."},
	{NoList, Error, "a list is no list", "The result lacks the array that it is for; clients fail.", "Send the array, if only [].", "With serve, Dragoman takes it for an empty list."},
	{Nameless, Error, "entries without a name", "Nobody can use the entry; typed clients refuse the whole list.", "Give each entry its name, or its uri.", "With serve, Dragoman leaves such an entry out, keeps the others, and says so."},
	{Duplicates, Warning, "entries of the same name", "Which of them is meant is anybody's guess; some clients refuse the list.", "Give each entry a name of its own, on all pages together.", "With serve, Dragoman shows the first and says so; with run the list passes as it is."},
	{PageFails, Error, "a further page cannot be had", "The server gives out a cursor that it then refuses: clients lose the rest of the list.", "Accept the cursors that you give out.", "With serve, the list as it was read before stays in use, and the failure is logged."},
	{CursorType, Error, "nextCursor is no text", "Typed clients refuse the whole list.", "Send a string, or leave it out at the end.", "With serve, Dragoman ends the list there."},
	{CursorRepeats, Error, "the list begins again for ever", "The same cursor comes again. Clients that follow it never end.", "Leave nextCursor out on the last page.", "With serve, Dragoman stops at a cursor that was there before, and says so; with run each page passes as it is."},
	{Endless, Error, "the list never ends", "There is always a next page. Clients that read the whole list never end.", "Leave nextCursor out on the last page.", "With serve, Dragoman stops after a thousand pages, and says so; with run each page passes as it is."},
	{ReadFails, Warning, "what it lists cannot be read", "A resource or prompt that the server offers is refused, or not answered.", "List only what can be read.", "Dragoman passes the error on."},
	{ToolName, Warning, "a tool has a name that not all can use", "Some clients and models refuse names beyond letters, digits, _, - and ., or of more than 128 characters.", "Rename the tool.", "Dragoman passes the name on with run; serve gives it another that works."},
	{ToolUndescribed, Info, "a tool has no description", "The model has to guess what the tool does; some clients leave the tool out.", "Describe it in a sentence.", "Dragoman passes it on as it is."},
	{SchemaMissing, Error, "a tool has no inputSchema", "Every tool has an inputSchema: typed clients refuse the whole list.", `Send inputSchema, if only {"type":"object"}.`, "In the manifest dialects, Dragoman takes the schema from where it stands; elsewhere the tool passes as it is."},
	{SchemaInvalid, Error, "an inputSchema is no JSON Schema", "Clients that compile schemas drop the tool, or the whole list; model providers refuse the request that it is part of.", "Check it with a validator of JSON Schema 2020-12.", "Dragoman passes it on as it is, since a guess could be wrong; hide the tool with a filter if a client fails on it."},
	{SchemaEmpty, Warning, `an inputSchema does not say "type":"object"`, "MCP requires it. Typed clients refuse the list, and model providers the tool.", `Write "type":"object" at the root.`, "Dragoman passes it on as it is; in the manifest dialects it repairs it."},
	{SchemaBare, Info, "an inputSchema says nothing of parameters", "Right for a tool without parameters. For any other, the model has to guess them.", `Name the parameters, or say "additionalProperties":false.`, "Dragoman passes it on as it is."},
	{SchemaDialect, Warning, "a schema has words of another dialect", "Clients read JSON Schema 2020-12. Words of draft 4 or OpenAPI mean nothing there, or make the schema invalid.", "Write exclusiveMinimum as a number, null as a type, tuples as prefixItems.", "Dragoman repairs them in the manifest dialects, and elsewhere passes them on as they are."},
	{SchemaRef, Warning, "a schema leads elsewhere", "A $ref outside of the schema is not followed by clients, for good reason: it would fetch whatever the server says.", "Put the definition into $defs.", "Dragoman passes it on and follows nothing."},
	{SchemaHeader, Warning, "an x-mcp-header is invalid", "2026-07-28 has clients leave out a tool whose annotation breaks the rules.", "A header's name is a token, and its value a string, an integer or a boolean at a fixed place.", "Dragoman leaves the tool out for clients of that revision over HTTP, and says which."},

	// Calls.
	{CallSilent, Error, "the tool was called and does not answer", "The client hangs until its own time-out.", "Answer, if only with an error; report progress when it takes long.", "Dragoman ends a call on which nothing happens after a minute, and tells the client."},
	{NoContent, Error, "a tool's result has no content", "Every result has content; typed clients refuse the result.", `Send "content":[…], if only [].`, "Dragoman wraps results of the manifest dialects, and elsewhere passes them on."},
	{Floods, Warning, "a thousand notifications come before one answer", "Clients slow down or run out of memory.", "Log less, and honour logging/setLevel.", "Dragoman queues a bounded number for each client and drops the rest."},
	{StuckOnCancel, Error, "it answers nothing after a cancellation", "A user who cancels one call loses the server.", "End the call, or ignore the notification, and go on.", "Dragoman notices the silence by its pings and starts the server again."},
}
