package doctor

// The codes of findings in servers on any transport.
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
	SchemaStub      = "DRG-SCHEMA-STUB"
	SchemaDialect   = "DRG-SCHEMA-DIALECT"
	SchemaRef       = "DRG-SCHEMA-REF"
	SchemaHeader    = "DRG-SCHEMA-HEADER"

	CallSilent    = "DRG-CALL-SILENT"
	NoContent     = "DRG-CALL-CONTENT"
	Floods        = "DRG-FLOOD"
	StuckOnCancel = "DRG-CANCEL"
)

// conditionsOfServers describes these codes.
var conditionsOfServers = []Condition{
	// Starting and exiting.
	{Unreachable, Error, "does not respond at all", "The server cannot be started, exits at once, refuses the connection, or answers nothing. No client can use it.", "Run the command by hand and read its stderr. Answer initialize or server/discover before any slow work.", "Dragoman reports the command, its exit status and its last output, and retries with increasing delays."},
	{CannotStart, Error, "cannot be started a second time", "The server ran once and then could not be started or connected to again. Clients that probe a server start it twice.", "Let several instances run at the same time: no fixed port, and no lock that stays behind after a crash.", "Dragoman starts one process where it can, and reports why a second one failed."},
	{NoRevision, Error, "cannot be opened in any revision", "The server runs, but no client can use it.", "Answer initialize or server/discover. Over HTTP, check the path of the URL.", "Dragoman tries the dialects that it knows, and reports which step failed."},
	{Dies, Error, "exits on a valid message", "The client loses the server, and often all of its tools until the server is restarted.", "Answer with an error instead of exiting. Catch exceptions of the handler.", "Dragoman restarts the server, retries what is safe to retry, and answers the other calls with an error that says what happened."},
	{ProbeDies, Error, "exits on server/discover", "Clients of 2026-07-28 start with server/discover. They lose this server before they can fall back to initialize.", "Answer unknown methods with the error -32601, also before initialize.", "Dragoman restarts it, opens with initialize, and never probes this configuration again."},
	{BareDies, Warning, "exits on initialize without parameters", "A client that omits the parameters ends the server.", "Check the parameters and answer -32602.", "Dragoman always sends complete parameters."},
	{DiesOnOdd, Warning, "exits on malformed input", "One malformed message of any client ends the server for all clients.", "Answer unreadable input with -32700 or -32600, and continue.", "Dragoman checks what clients send and answers malformed messages itself. It never sends batches, null ids or null arguments to a server."},
	{HalfLine, Error, "exits in the middle of a message", "The client waits for an answer that is never complete.", "Write each message in one piece and flush it before the process exits.", "Dragoman does not deliver the incomplete message. The call gets an error that says so."},
	{SlowStart, Warning, "starts slowly", "Clients that probe with server/discover wait for about three seconds. Then they treat the server as legacy, or give up.", "Read stdin first and do slow work later.", "Dragoman still accepts the late answer to the probe."},
	{Noise, Error, "prints non-JSON text to stdout", "Stdout is reserved for the protocol. Many clients close the connection on the first line that is not valid JSON.", "Log to stderr. Look for print statements and for libraries that log to stdout.", "Dragoman treats such lines as log messages and continues."},

	// Opening.
	{VersionRefused, Warning, "refuses versions instead of offering its own", "A client that offers another version gets an error and gives up, although both may have a version in common.", "Answer initialize with a version that you support (Lifecycle, Version Negotiation). The client then decides.", "Dragoman reads the versions from the error and offers the newest common one."},
	{VersionEchoed, Warning, "accepts versions that do not exist", "The server repeats any version that it is offered. The client then uses a revision that the server does not know.", "Answer with a version that you support.", "Dragoman offers only versions that exist."},
	{InitializeRefused, Error, "refuses initialize", "The server has tools, but no MCP client can open it.", "Answer initialize (Lifecycle, Initialization).", "Dragoman detects the dialect and performs the handshake for the server."},
	{NoVersion, Error, "answers initialize without a version", "Clients reject a result without protocolVersion, or guess the version.", "Answer with protocolVersion, capabilities and serverInfo.", "Dragoman assumes the oldest revision."},
	{Manifest, Error, "returns its tools in the initialize result", "The server speaks a manifest dialect. MCP clients find neither a version nor capabilities, and tools/list may not exist.", "Answer initialize as MCP defines it, and return the tools from tools/list.", "Dragoman reads the manifest, repairs its schemas and answers tools/list itself. See docs/dialects.md."},
	{PushesManifest, Error, "sends its manifest unsolicited", "The server sends a result that no request asked for. Clients drop it, or close the connection.", "Send nothing before the first request. Answer initialize and tools/list.", "Dragoman uses the unsolicited message as the manifest and serves its tools."},
	{NotMCP, Error, "does not speak MCP", "The server answers initialize with members that MCP does not define. It is an app-server with other methods.", "Nothing is wrong with it. It is not an MCP server.", "Dragoman presents it as an MCP server: dragoman run --dialect codex-app-server."},
	{NoCapabilities, Warning, "declares no capabilities", "Clients assume that the server has no tools, resources or prompts.", "Send capabilities, at least {}, with a member for each list that you have.", "Dragoman does not rely on the missing object and still asks for the lists."},
	{NoServerInfo, Warning, "has no serverInfo", "A server must name itself. Strict clients reject the server.", `Send "serverInfo":{"name":…,"version":…}.`, "Dragoman passes the answer on. Where it writes its own answer, the name is unknown."},
	{OddInstructions, Info, "has instructions that are not a string", "Clients ignore the instructions or reject the answer.", "Send instructions as a string.", "Dragoman leaves them out."},
	{BareSilent, Warning, "does not answer initialize without parameters", "A client that makes this mistake hangs instead of getting an error.", "Answer -32602.", "Dragoman always sends complete parameters."},
	{BareServed, Info, "accepts initialize without parameters", "Nothing fails, but clients do not learn of their mistake.", "Answer -32602 if you care.", "Nothing needs to be done."},
	{BareMisnamed, Info, "answers initialize without parameters with -32601", "The error says that the method is unknown, but only the parameters are wrong. Clients may conclude that the server has no handshake.", "Answer -32602.", "Dragoman does not conclude from -32601 alone that a server lacks initialize."},
	{ProbeSilent, Warning, "does not answer server/discover", "Clients of 2026-07-28 wait for seconds, or forever, before they try initialize.", "Answer every request. Answer unknown methods with -32601.", "Dragoman waits three seconds at most, remembers the result, and opens with initialize from then on. It answers server/discover for the server at once."},
	{OddDiscover, Warning, "answers server/discover without supportedVersions", "The server answers a method that it does not have. Clients may treat it as modern, which it is not.", "Answer unknown methods with -32601.", "Dragoman does not accept a result without supportedVersions as proof and opens with initialize."},
	{NoResultType, Error, "sends a modern result without resultType", "2026-07-28 requires resultType in every result. Clients reject the answer.", `Send "resultType":"complete".`, "Dragoman passes results of modern servers on unchanged."},
	{MetaVersionCode, Error, "does not refuse an unknown version in _meta with -32022", "Modern clients learn from that error which versions they can use. Without it they use one that the server does not know.", "Answer -32022 with data.supported (Versioning, Protocol Version Negotiation).", "Dragoman answers such clients itself and uses the server's own version with the server."},
	{MetaVersionList, Error, "sends the error -32022 without versions", "The client learns that its version is wrong but not which versions are supported.", `Send "data":{"supported":[…],"requested":…}.`, "Dragoman answers such clients itself."},
	{EarlySilent, Warning, "does not answer a request before the handshake or without _meta", "A client that sends a request too early, or without _meta, hangs instead of getting an error.", "Answer every request, at least with an error.", "Dragoman never sends a request before the handshake is complete, and adds _meta."},
	{EarlyServed, Info, "serves requests before initialize", "Nothing fails. Clients without a handshake work.", "Nothing needs to be done.", "Nothing needs to be done."},
	{InitializedNeeded, Info, "refuses requests before notifications/initialized", "This is correct. Clients that forget the notification fail.", "Nothing needs to be done.", "Dragoman always sends the notification, whatever the client does."},
	{InitializedSilent, Warning, "does not answer a request before notifications/initialized", "A client that forgets the notification, or sends a request too early, hangs.", "Answer with an error.", "Dragoman always sends the notification first."},
	{LateGate, Warning, "is not ready right after notifications/initialized", "The first requests of a fast client fail.", "Process messages in order, or hold requests back until you are ready.", "Dragoman retries such a request after 50, 200 and 800 milliseconds."},

	// Requests and notifications.
	{PingSilent, Error, "does not answer ping", "Clients conclude that the server is dead and end it (Ping).", "Answer ping with an empty result.", "Dragoman answers the client's ping itself. It restarts a server on a pipe that answers neither calls nor pings for long."},
	{PingRefused, Warning, "refuses ping", "Some clients treat the error as the end of the connection.", "Answer ping with an empty result.", "Dragoman answers the client's ping itself. It accepts any answer of the server as a sign that the server is alive."},
	{PingResult, Info, "answers ping with a result that is not empty", "Strict clients may reject it.", "Answer with {}.", "Dragoman answers the client's ping itself."},
	{UnknownSilent, Error, "does not answer unknown methods", "A client that tries a newer method, such as server/discover, hangs until its own timeout.", "Answer every request. Answer unknown methods with -32601.", "Dragoman itself answers calls for capabilities that the server has not declared. It opens with initialize from the second time on, and ends other calls with their timeout."},
	{UnknownServed, Warning, "answers unknown methods with success", "Clients conclude that the server has features that it lacks.", "Answer unknown methods with -32601.", "Dragoman relies on the declared capabilities, and does not accept such a success as proof."},
	{UnknownCode, Warning, "refuses unknown methods with a code other than -32601", "Clients that try a newer method do not learn that it is missing, and may fail permanently.", "Answer -32601.", "Dragoman infers the meaning from code and text."},
	{NoteAnswered, Warning, "answers notifications", "A notification has no answer. Clients match it to another request, or report an error.", "Do not answer a message without an id.", "Dragoman detects such answers and drops them."},
	{IDString, Error, "does not support string ids", "Clients that use string ids, which the specification allows, cannot use the server.", "Return the id unchanged, string or number.", "Dragoman uses small numbers towards the server and restores each client's id."},
	{IDZero, Warning, "does not support the id 0", "Clients that count from 0 fail at the first request.", "Zero is a valid id. Test whether the id is present, not whether it is truthy.", "Dragoman never sends it."},
	{IDBig, Info, "changes ids beyond 2^53", "JavaScript cannot represent such numbers exactly, so nearly every server written in it changes them. Hardly any client uses ids that large.", "Nothing needs to be done. To fix it, keep the id as the JSON text that arrived.", "Dragoman sends small numbers only."},
	{IDReused, Warning, "does not answer a reused id", "A client that restarts its counter hangs.", "Answer the request, or refuse it with an error.", "Dragoman uses each id once."},
	{IDType, Error, "answers with a different id", `The server turns 1 into "1", or changes a small number's digits. Clients wait for an answer that never comes.`, "Return the id unchanged.", "Dragoman matches such ids by their value."},
	{IDLost, Error, "answers without an id", "The client cannot match the answer, and keeps waiting.", "Return the request's id, in errors too.", "Dragoman drops such an answer on a pipe. The call ends with its timeout."},
	{NoVersionMember, Warning, `sends messages without "jsonrpc":"2.0"`, "Strict clients reject every message.", `Send "jsonrpc":"2.0".`, "Dragoman accepts such messages."},
	{ErrorCode, Error, "sends errors whose code is not an integer", "Typed clients cannot read the answer and report a parse error instead of the server's error.", "Send an integer, and put a word into data.", "Dragoman accepts it, and sends clients an integer with the word in data."},
	{ErrorShape, Warning, "sends errors without a message", "Typed clients cannot read the answer.", "Send code and message.", "Dragoman adds an empty message."},
	{MessageShape, Warning, "sends messages that are not valid JSON-RPC", "Strict clients reject them.", "See the evidence. JSON-RPC 2.0 defines the members of a message.", "Dragoman accepts them if they are unambiguous."},
	{Unasked, Warning, "sends answers that nobody requested", "Clients drop the message, or close the connection.", "Answer each request once, with its own id.", "Dragoman drops such answers and counts them."},
	{AsksUndeclared, Warning, "sends requests for capabilities that the client has not declared", "The client has declared that it does not support this request. It refuses, or hangs.", "Check the capabilities in initialize before you send a request.", "Dragoman declares the client's capabilities, and refuses other requests at once."},
	{LongMessage, Error, "fails on messages of 128 KiB", "A tool call with a long text as argument fails, or ends the server.", "Read lines of any length. Many line readers have a limit of 64 KiB.", "If the server's dialect is known to have this limit, Dragoman answers an over-long message with an error, so the server does not crash."},
	{VeryLongMessage, Warning, "fails on messages of 1 MiB", "A tool call with a file as argument fails, or ends the server.", "Read lines of at least a few MiB.", "Dragoman passes them on. The call gets the server's error."},
	{BurstLost, Error, "does not answer all of many concurrent requests", "Agents that call tools in parallel hang.", "Answer every request, in any order.", "Dragoman ends such calls with their timeouts, one by one."},
	{BatchRefused, Warning, "does not support batches, although its revision has them", "2025-03-26 requires a receiver to accept JSON-RPC batches, and no other revision has them. It is a warning if 2025-03-26 is the newest legacy revision of the server, because then newer clients use it too. Otherwise it is an info: only a client that asks for this revision, and sends batches, is concerned. No client that we know sends any.", "Accept batches, or support a later revision.", "Dragoman splits batches and sends the messages one by one."},
	{StuckOnOdd, Warning, "hangs after malformed input", "After one malformed message of any client, the server answers nobody.", "Answer unreadable input with -32700 or -32600, and continue.", "Dragoman checks what clients send and answers malformed messages itself."},

	// Lists.
	{Unhandled, Error, "declares a capability that it does not have", "The capability is declared, but its method is unknown. Clients that rely on the declaration fail.", "Declare only capabilities that have a handler.", "With serve, Dragoman returns an empty list. With run, it passes the error on."},
	{Undeclared, Info, "has a capability that it does not declare", "Clients that rely on the declaration do not see it.", "Declare a capability for each list that you have.", "Dragoman relies on the declaration too."},
	{ListFails, Error, "answers every request for a list with an error", "The server declares the list, but every request for it fails. Clients see none of its items.", "Look in the server's own log for the handler's error. Check the environment variables and credentials that the server needs.", "With serve, Dragoman leaves the server's items out, or shows the last list that it could read. With run, it passes the error on."},
	{NoList, Error, "returns a list result without the array", "The result lacks its array. Clients fail.", "Send the array, at least [].", "With serve, Dragoman treats it as an empty list."},
	{Nameless, Error, "lists items without a name", "Nobody can use such an item. Typed clients reject the whole list.", "Give each item its name, or its uri.", "With serve, Dragoman leaves the item out, keeps the others, and reports it."},
	{Duplicates, Warning, "lists several items with the same name", "It is unclear which item is meant. Some clients reject the list.", "Give each item a unique name, across all pages.", "With serve, Dragoman shows the first and reports the others. With run, the list is unchanged."},
	{PageFails, Error, "refuses its own cursor", "The server returns a cursor that it then refuses. Clients lose the rest of the list.", "Accept the cursors that you return.", "With serve, Dragoman keeps the list that it read before, and logs the failure."},
	{CursorType, Error, "returns a nextCursor that is not a string", "Typed clients reject the whole list.", "Send a string. Omit it on the last page.", "With serve, Dragoman ends the list there."},
	{CursorRepeats, Error, "repeats a cursor, so the list never ends", "The same cursor appears again. Clients that follow it never stop.", "Omit nextCursor on the last page.", "With serve, Dragoman stops at a repeated cursor and reports it. With run, each page is unchanged."},
	{Endless, Error, "returns a list that never ends", "There is always a next page. Clients that read the whole list never stop.", "Omit nextCursor on the last page.", "With serve, Dragoman stops after a thousand pages and reports it. With run, each page is unchanged."},
	{ReadFails, Warning, "lists an item that cannot be read", "A listed resource or prompt is refused, or its read is not answered.", "List only items that can be read.", "Dragoman passes the error on."},
	{ToolName, Warning, "has a tool name that some clients reject", "Some clients and models reject names with characters other than letters, digits, _, - and ., or with more than 128 characters.", "Rename the tool.", "With run, Dragoman passes the name on. With serve, the tool gets another, valid name."},
	{ToolUndescribed, Info, "has a tool without a description", "The model has to guess what the tool does. Some clients omit the tool.", "Describe it in a sentence.", "Dragoman passes it on unchanged."},
	{SchemaMissing, Error, "has a tool without inputSchema", "Every tool must have an inputSchema. Typed clients reject the whole list.", `Send an inputSchema that lists the parameters. That of a tool without parameters is {"type":"object","additionalProperties":false}.`, "In the manifest dialects, Dragoman finds the schema where the dialect has it. Otherwise the tool is unchanged."},
	{SchemaInvalid, Error, "has an inputSchema that is not valid JSON Schema", "Clients that compile schemas drop the tool, or the whole list. Model providers reject a request that contains it.", "Check it with a JSON Schema 2020-12 validator.", "Dragoman passes it on unchanged, because a repair could be wrong. If a client fails on it, hide the tool with a filter."},
	{SchemaEmpty, Warning, `has an inputSchema without "type":"object"`, "MCP requires it. Typed clients reject the list, and model providers the tool.", `Write "type":"object" at the root.`, "Dragoman passes it on unchanged. In the manifest dialects it repairs the schema."},
	{SchemaBare, Info, "has an inputSchema without parameters", "This is correct for a tool without parameters. For any other tool, the model has to guess the parameters.", `List the parameters, or set "additionalProperties":false.`, "Dragoman passes it on unchanged."},
	{SchemaStub, Warning, `has tools whose whole schema is {"type":"object"}`, "The model gets no parameters, so it guesses their names and types, and calls fail. Servers often send such a stub because their framework needs one, or because a program between lost the schema. It is a warning if all tools of a server have it, two at least, or any tool of a manifest.", `List the parameters of each tool. That of a tool without parameters is {"type":"object","additionalProperties":false}.`, "Dragoman passes it on unchanged, because it does not know the parameters either."},
	{SchemaDialect, Warning, "has a schema with keywords of another dialect", "Clients expect JSON Schema 2020-12. Keywords of draft 4 or OpenAPI have no effect, or make the schema invalid.", "Write exclusiveMinimum as a number, null as a type, tuples as prefixItems.", "Dragoman repairs them in the manifest dialects, and otherwise passes them on unchanged."},
	{SchemaRef, Warning, "has a schema with an external $ref", "Clients do not follow a $ref outside of the schema, because a server could make them fetch any URL.", "Put the definition into $defs.", "Dragoman passes it on and does not follow it."},
	{SchemaHeader, Warning, "has an invalid x-mcp-header", "2026-07-28 requires clients to omit a tool whose annotation breaks the rules.", "The header name must be a token. Its value must be a string, an integer or a boolean at a fixed place.", "Dragoman omits the tool for clients of that revision over HTTP, and reports it."},

	// Calls.
	{CallSilent, Error, "does not answer a tool call", "The client hangs until its own timeout.", "Answer, at least with an error. Report progress during long calls.", "Dragoman ends a call without progress after a minute, and tells the client."},
	{NoContent, Error, "returns a tool result without content", "Every result must have content. Typed clients reject the result.", `Send "content":[…], at least [].`, "Dragoman wraps results in the manifest dialects, and otherwise passes them on."},
	{Floods, Warning, "sends a thousand notifications before one answer", "Clients slow down or run out of memory.", "Log less, and respect logging/setLevel.", "Dragoman queues a limited number for each client and drops the rest."},
	{StuckOnCancel, Error, "hangs after a cancellation", "A user who cancels one call loses the server.", "End the call, or ignore the notification, and continue.", "Dragoman detects the hang by ping and restarts the server."},
}
