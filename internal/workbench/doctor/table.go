package doctor

// The codes of findings about servers, whatever the transport.
const (
	Unreachable = "DRG-UNREACHABLE"
	CannotStart = "DRG-CANNOT-START"
	NoRevision  = "DRG-NO-REVISION"
	Dies        = "DRG-DIES"
	ProbeDies   = "DRG-DIES-PROBE"
	ProbeOpens  = "DRG-OPENED-BY-PROBE"
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
	MessageLimit    = "DRG-MESSAGE-LIMIT"
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
	SchemaEmptyEnum = "DRG-SCHEMA-EMPTY-ENUM"
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

// conditionsOfServers describes the codes above.
var conditionsOfServers = []Condition{
	// Starting and exiting.
	{Unreachable, Error, "does not respond at all", "The server does not start, exits immediately, refuses the connection, or does not answer any request. No client can use the server.", "Run the command of the server by hand and read its stderr. Make the server answer initialize or server/discover before it does slow work.", "Dragoman reports the command of the server, the exit status and the last output, and tries again to reach the server. The delay between two attempts increases."},
	{CannotStart, Error, "cannot be started a second time", "The server started once. When doctor started the server a second time, or connected a second time, the server failed. Some clients start a server twice: once to detect its revision, and once to use the server.", "Make the server able to run several times at once. Do not use a fixed port, and do not leave a lock file behind after a crash.", "Dragoman uses one process if possible. If Dragoman needs a second process and this process does not start, Dragoman reports the reason."},
	{NoRevision, Error, "does not accept a handshake of any protocol revision", "The server runs, but both handshakes (initialize and server/discover) fail. No client can use the server.", "Make the server answer initialize or server/discover. For a server over HTTP, check the path of the URL.", "Dragoman tries each dialect (known deviation from MCP) that it supports, and reports which step of the handshake failed."},
	{Dies, Error, "exits when it receives a valid message", "The client loses its connection to the server. Often all tools of the server are missing until the server is restarted.", "Catch exceptions in the request handlers, and answer the failed request with an error.", "Dragoman restarts the server and retries the calls that are safe to retry. Dragoman answers the other calls with an error that says that the server exited."},
	{ProbeDies, Error, "exits when it receives server/discover", "Clients of the revision 2026-07-28 send server/discover first. This server exits before the client can fall back to initialize.", "Answer requests for unknown methods with the error -32601, even before initialize.", "Dragoman restarts the server and sends initialize instead. Dragoman does not send server/discover to this server again until the server's configuration changes."},
	{ProbeOpens, Error, "refuses initialize after server/discover", "Clients of the revision 2026-07-28 send server/discover first, and initialize if the server answers with an error. This server accepts initialize only as the first message. Bridges from stdio to HTTP behave like this if they open their own session with the first message.", "Answer server/discover without opening a session. To use a bridge with another client, start the client in a revision before 2026-07-28, or give Dragoman the URL of the server and leave out the bridge.", "Dragoman restarts the server and sends initialize first. Dragoman does not send server/discover to this server again until the server's configuration changes."},
	{BareDies, Warning, "exits when it receives initialize without parameters", "A client that sends initialize without parameters makes the server exit.", "Check the parameters of initialize. If they are missing, answer with the error -32602.", "Dragoman always sends initialize with all parameters."},
	{DiesOnOdd, Warning, "exits when it receives malformed input", "If one client sends a malformed message, the server exits for all clients.", "Answer malformed messages with the error -32700 or -32600, and keep running.", "Dragoman checks each message from a client, and answers malformed messages itself. Dragoman never sends batches, null ids or null arguments to a server."},
	{HalfLine, Error, "exits while it writes a message", "The client receives the first part of an answer and waits for the rest.", "Write each message with one write, and flush stdout before the process exits.", "Dragoman discards the incomplete message. If a call was waiting for this message, Dragoman answers the call with an error that says that the server exited in the middle of a message."},
	{SlowStart, Warning, "starts slowly", "Some clients that send server/discover wait only one to three seconds for the answer. If no answer arrives in time, these clients treat the server as a server of an older revision, or give up.", "Read stdin as soon as the server starts. Load data and connect to other services later.", "Dragoman uses the answer to server/discover even if the answer arrives late."},
	{Noise, Error, "prints non-JSON text to stdout", "A server on stdio may print only MCP messages to stdout. Many clients close the connection when they receive a line that is not valid JSON.", "Log to stderr. Look for print statements, and for libraries that log to stdout.", "Dragoman treats such a line as a log message and keeps the connection open."},

	// Opening.
	{VersionRefused, Warning, "refuses an unsupported version and does not offer another version", "A client that requests an unsupported version gets an error and gives up, even if the client and the server both support another version.", "If the server does not support the requested version, answer initialize with a version that the server supports. The client then decides whether to continue with this version (specification: Lifecycle, Version Negotiation).", "Dragoman looks for supported versions in the error, and tries once more with the newest version that the server and Dragoman both support."},
	{VersionEchoed, Warning, "accepts versions that do not exist", "The server answers initialize with the version in the request, even if this version does not exist. The client then uses a revision that the server does not support.", "Answer initialize with a version that the server supports.", "Dragoman offers only versions that exist."},
	{InitializeRefused, Error, "refuses initialize", "The server has tools, but answers initialize with an error. No MCP client can use the server.", "Implement initialize (specification: Lifecycle, Initialization).", "Dragoman detects the dialect that the server speaks, and uses this dialect with the server. Dragoman itself answers the client's initialize."},
	{NoVersion, Error, "answers initialize without protocolVersion", "Clients reject a result without protocolVersion, or guess the version.", "Put protocolVersion, capabilities and serverInfo into the result of initialize.", "Dragoman assumes that the server speaks the oldest revision."},
	{Manifest, Error, "returns its tools in the initialize result", "The server speaks a manifest dialect: it lists its tools in the result of initialize. MCP clients find neither a version nor capabilities in this result, and it is possible that the server does not support tools/list.", "Answer initialize as MCP defines it, and return the tools from tools/list.", "Dragoman reads the list of tools from the result, repairs the schemas and answers tools/list itself. See docs/dialects.md."},
	{PushesManifest, Error, "sends its list of tools before any request", "The server sends a result before the client sends a request. Clients ignore this result, or close the connection.", "Do not send anything before the first request. Answer initialize and tools/list.", "Dragoman reads the list of tools from the early result, and answers tools/list itself."},
	{NotMCP, Error, "does not speak MCP", "The server answers initialize with members that MCP does not define. The server is a Codex app-server, which has its own methods.", "The server is not broken, but it is not an MCP server. To use this server with MCP clients, run it through Dragoman.", "Dragoman presents the server to clients as an MCP server if you run: dragoman run --dialect codex-app-server -- COMMAND."},
	{NoCapabilities, Warning, "declares no capabilities in the handshake", "Clients assume that the server has no tools, resources or prompts.", `Put a capabilities object into the result of initialize or server/discover. In this object, add a member for each list that the server has, such as "tools":{}.`, "Dragoman requests the lists of tools, resources and prompts anyway."},
	{NoServerInfo, Warning, "does not send serverInfo", "MCP requires that a server sends its name and version in serverInfo. Strict clients reject a server without serverInfo.", `Send "serverInfo":{"name":…,"version":…}.`, `Dragoman does not add serverInfo to the server's answer. If Dragoman writes the answer to initialize itself, this answer contains the server name "unknown".`},
	{OddInstructions, Info, "sends instructions that are not a string", "Clients ignore the instructions, or reject the answer to initialize.", "Send the instructions as a string.", "Dragoman removes the instructions from the answer."},
	{BareSilent, Warning, "does not answer initialize without parameters", "A client that sends initialize without parameters by mistake waits forever and gets no error.", "Answer with the error -32602 if parameters of initialize are missing.", "Dragoman always sends initialize with all parameters."},
	{BareServed, Info, "accepts initialize without parameters", "The handshake succeeds. A client that forgets the parameters therefore gets no error that shows the mistake.", "You can ignore this finding. To be strict, answer with the error -32602 if parameters of initialize are missing.", "Dragoman does nothing, because no client is affected."},
	{BareMisnamed, Info, "answers initialize without parameters with the error -32601", "The error -32601 means that the method is unknown, but only the parameters are wrong. Clients may conclude that the server does not support initialize.", "Answer with the error -32602 (invalid params) instead of -32601.", "Dragoman always sends initialize with all parameters. Dragoman does not treat the error -32601 alone as proof that a server does not support initialize."},
	{ProbeSilent, Warning, "does not answer server/discover", "Clients of the revision 2026-07-28 wait for the answer before they try initialize. Some wait a few seconds, and others wait forever.", "Answer every request. Answer unknown methods with the error -32601.", "Dragoman waits three seconds for the answer, or ten seconds over HTTP. Dragoman remembers that the server did not answer, and uses initialize with this server from then on. If a client sends server/discover, Dragoman answers the client immediately."},
	{OddDiscover, Warning, "answers server/discover without supportedVersions", "The server reports success for server/discover, but it does not implement this method. Clients may treat the server as a server of the revision 2026-07-28.", "Answer unknown methods with the error -32601.", "Dragoman treats a result without supportedVersions as a failure of server/discover, and then sends initialize."},
	{NoResultType, Error, "sends results of 2026-07-28 without resultType", "The revision 2026-07-28 requires the member resultType in every result. Clients reject a result without this member.", `Add "resultType":"complete" to the result.`, "Dragoman passes such results on unchanged."},
	{MetaVersionCode, Error, "does not answer an unknown version in _meta with the error -32022", "The error -32022 lists the versions that the server supports. Without this error, clients of the revision 2026-07-28 keep using a version that the server does not support.", "Answer with the error -32022, and list the supported versions in data.supported (specification: Versioning, Protocol Version Negotiation).", "If a client requests an unknown version, Dragoman itself answers with the error -32022. Dragoman always sends the server a version that the server supports."},
	{MetaVersionList, Error, "sends the error -32022 without the supported versions", "The client learns that the server does not support the client's version, but not which versions the server supports.", `Add "data":{"supported":[…],"requested":…} to the error.`, "If a client requests an unknown version, Dragoman itself answers with the error -32022 and the supported versions."},
	{EarlySilent, Warning, "does not answer a request that is sent before the handshake or without _meta", "A client that sends a request before the handshake, or without _meta, waits forever and gets no error.", "Answer every request, at least with an error.", "Dragoman sends requests only after the handshake, and adds _meta if the revision requires it."},
	{EarlyServed, Info, "answers requests before initialize", "No request fails, even if a client skips the handshake.", "You can ignore this finding.", "Dragoman does nothing, because no client is affected."},
	{InitializedNeeded, Info, "refuses requests before it receives notifications/initialized", "The specification allows a server to refuse these requests. Clients that do not send notifications/initialized get errors.", "You can ignore this finding.", "Dragoman always sends notifications/initialized to the server, even if the client does not send this notification."},
	{InitializedSilent, Warning, "does not answer requests before it receives notifications/initialized", "A client that sends a request before notifications/initialized, or never sends this notification, waits forever for the answer.", "If a request arrives before notifications/initialized, answer the request with an error.", "Dragoman always sends notifications/initialized before the first request."},
	{LateGate, Warning, "refuses requests for a short time after notifications/initialized", "A client that sends its first requests immediately after this notification gets errors.", "Process messages in the order in which they arrive, or delay the answers until the server is ready.", "Dragoman retries a refused request after 50, 200 and 800 milliseconds."},

	// Requests and notifications.
	{PingSilent, Error, "does not answer ping", "Clients conclude that the server is dead, and close the connection (specification: Ping).", "Answer ping with an empty result.", "Dragoman itself answers the client's pings. Dragoman restarts a server on stdio that answers neither calls nor pings for a long time."},
	{PingRefused, Warning, "answers ping with an error", "Some clients close the connection when they receive this error.", "Answer ping with an empty result.", "Dragoman itself answers the client's pings. If the server answers a ping from Dragoman, even with an error, Dragoman concludes that the server still works."},
	{PingResult, Info, "answers ping with a result that is not empty", "Strict clients may reject the answer.", "Answer ping with the result {}.", "Dragoman itself answers the client's pings."},
	{UnknownSilent, Error, "does not answer unknown methods", "A client that tries a newer method, such as server/discover, waits until the request times out.", "Answer every request. Answer unknown methods with the error -32601.", "Dragoman itself answers requests for capabilities that the server has not declared. If the server does not answer server/discover, Dragoman uses initialize with this server from then on. Any other request that the server does not answer ends with a timeout."},
	{UnknownServed, Warning, "answers unknown methods with a result instead of an error", "Clients conclude that the server supports features that it does not support.", "Answer unknown methods with the error -32601.", "Dragoman uses the declared capabilities to decide which methods the server supports. A result alone does not prove that the server supports a method."},
	{UnknownCode, Warning, "refuses unknown methods with an error code other than -32601", "Clients that try a newer method do not learn that the server does not support this method. Such a client may fail instead of using an older method.", "Answer unknown methods with the error -32601.", "Dragoman uses the error code and the error text to decide whether the method is unknown."},
	{NoteAnswered, Warning, "answers notifications", "A server must not answer a notification. Clients mistake the answer for the answer to another request, or report an error.", "Do not answer messages that have no id.", "Dragoman detects answers to notifications, and discards them."},
	{IDString, Error, "does not support string ids", "The specification allows string ids. Clients that use string ids cannot use this server.", "Return the id of the request unchanged, whether the id is a string or a number.", "Dragoman sends small numbers as ids to the server, and restores the client's id in each answer."},
	{IDZero, Warning, "does not support the id 0", "The first request of a client that counts its ids from 0 fails.", "Accept 0 as an id. Test whether the id is present, not whether it is truthy.", "Dragoman never sends the id 0 to a server."},
	{IDBig, Info, "changes ids larger than 2^53", "A JavaScript number cannot hold every id larger than 2^53 exactly, so nearly every server in JavaScript changes such an id. Very few clients use such large ids.", "You can ignore this finding. To fix the problem, keep the id as the JSON text that the client sent.", "Dragoman sends only small numbers as ids to the server."},
	{IDReused, Warning, "does not answer a request with an id that was used before", "A client that reuses an id waits forever for the second answer.", "Answer the request, or refuse it with an error.", "Dragoman uses each id only once."},
	{IDType, Error, "answers with an id that differs from the id of the request", `Clients keep waiting for an answer with the id of the request. For example, a server that answers the id 1 with the id "1" changes the type of the id.`, "Return the id of the request unchanged.", `Dragoman treats the ids 1 and "1" as the same id.`},
	{IDLost, Error, "sends answers without an id", "The client cannot find the request that the answer belongs to, and keeps waiting.", "Return the id of the request in every answer, even if the answer is an error.", "On stdio, Dragoman discards an answer without an id. The call that waits for this answer ends with a timeout."},
	{NoVersionMember, Warning, `sends messages without "jsonrpc":"2.0"`, "Strict clients reject every message of the server.", `Add "jsonrpc":"2.0" to every message.`, "Dragoman accepts messages without the member jsonrpc."},
	{ErrorCode, Error, "sends errors with a code that is not an integer", "Clients that check the types of all members reject the answer. Such clients report a parse error instead of the error of the server.", "Send an integer as code. If the error has a name, put the name into data.", "Dragoman accepts an error with a code that is not an integer. Dragoman sends an integer code to the client, and puts the original code into data."},
	{ErrorShape, Warning, "sends errors without a message", "Clients that check the types of all members reject the answer.", "Send a code and a message in every error.", "Dragoman adds an empty message to the error."},
	{MessageShape, Warning, "sends messages that are not valid JSON-RPC", "Strict clients reject these messages.", "Compare the message in the evidence of this finding with the specification of JSON-RPC 2.0.", "Dragoman accepts these messages if their meaning is clear."},
	{MessageLimit, Error, "sends a message that is nested too deeply or has too many values", "Many JSON parsers have such limits, so that a message cannot exhaust them. serde_json, which clients in Rust use, reads 128 levels. These clients lose the message, or close the connection.", "Flatten the result. Return a large structure as text or as a resource.", "Dragoman has the same limit of 128 levels. Dragoman leaves out a list's items that exceed it, and answers other requests with an error that names the limit."},
	{Unasked, Warning, "sends answers to requests that do not exist", "Clients ignore these answers, or close the connection.", "Answer each request once, with the id of the request.", "Dragoman discards these answers and counts them."},
	{AsksUndeclared, Warning, "sends requests for capabilities that the client has not declared", "The client has not declared that it supports such requests. The client answers with an error, or does not answer.", "Before you send a request to the client, check the capabilities that the client declared in initialize.", "Dragoman declares the capabilities of the client to the server. If the server sends a request for another capability, Dragoman refuses the request immediately."},
	{LongMessage, Error, "fails when it receives a message of 128 KiB", "A tool call with a long text as an argument fails, or makes the server exit.", "Accept lines of any length. Many line readers have a default limit of 64 KiB.", "If the dialect of the server has a known limit, Dragoman does not send a message above this limit to the server. Dragoman answers a request above the limit with an error, and the server keeps running."},
	{VeryLongMessage, Warning, "fails when it receives a message of 1 MiB", "A tool call with a file as an argument fails, or makes the server exit.", "Accept lines of several MiB.", "Dragoman sends the message to the server, and returns the server's error to the client."},
	{BurstLost, Error, "does not answer all requests when a client sends many requests at once", "Agents that call several tools at once wait forever for some of the answers.", "Answer every request. The order of the answers does not matter.", "Each call without an answer ends with a timeout."},
	{BatchRefused, Warning, "does not accept batches, although its revision requires support for batches", "Only the revision 2025-03-26 has JSON-RPC batches, and this revision requires servers to accept them. If 2025-03-26 is the newest revision that the server supports with initialize, the finding is a warning: clients of newer revisions then use 2025-03-26 with this server. Otherwise the finding is an info: it affects only clients that choose 2025-03-26 and send batches, and we know of no such client.", "Accept batches, or support a newer revision.", "Dragoman splits each batch from a client, and sends the messages to the server one by one."},
	{StuckOnOdd, Warning, "stops answering after malformed input", "After one client sends a malformed message, the server does not answer any client.", "Answer malformed messages with the error -32700 or -32600, and keep running.", "Dragoman checks each message from a client, and answers malformed messages itself."},

	// Lists.
	{Unhandled, Error, "declares a capability that it does not support", `The server declares a capability, but answers the methods of this capability with "unknown method". Clients that rely on the declaration fail.`, "Declare only capabilities that have a handler.", "The command dragoman serve returns an empty list. The command dragoman run passes the error on to the client."},
	{Undeclared, Info, "does not declare a capability that it supports", "Clients request only the lists that the server declares. Clients do not see the items of an undeclared list.", "Declare a capability for each list that the server has.", "If a server declares at least one capability, Dragoman requests only the declared lists."},
	{ListFails, Error, "declares that it has a list, but answers every request for the list with an error", "Clients see no item of this list.", "Look for the error in the log of the server. Check the environment variables and the credentials that the server needs.", "The command dragoman serve shows the last list that it could read, or no items if it could never read the list. The command dragoman run passes the error on to the client."},
	{NoList, Error, "returns a list result without the array of items", "The result does not contain the array of items, such as tools. Clients cannot read the result.", "Send the array. If there are no items, send [].", "The command dragoman serve treats the result as an empty list."},
	{Nameless, Error, "lists items without a name", "Clients cannot use an item without a name. Clients that check the types of all members reject the whole list.", "Give each item a name, or a uri if the item is a resource.", "The command dragoman serve removes the item from the list, keeps the other items, and reports the removed item."},
	{Duplicates, Warning, "lists several items with the same name", "Clients cannot tell which of the items a name refers to. Some clients reject the list.", "Give each item a different name, even if the items are on different pages of the list.", "The command dragoman serve shows the first of these items, and reports the other items. The command dragoman run passes the list on unchanged."},
	{PageFails, Error, "refuses a cursor that it returned", "The server answers the request for the next page with an error. Clients lose the rest of the list.", "Accept each cursor that you return as nextCursor.", "The command dragoman serve keeps the last complete list, and logs the error."},
	{CursorType, Error, "returns a nextCursor that is not a string", "Clients that check the types of all members reject the whole list.", "Send nextCursor as a string. On the last page, omit nextCursor.", "The command dragoman serve treats a page with such a nextCursor as the last page."},
	{CursorRepeats, Error, "returns the same cursor again, so the list never ends", "Clients that follow the cursors request the same pages forever.", "On the last page, omit nextCursor.", "The command dragoman serve stops reading the list at the repeated cursor, and reports this cursor. The command dragoman run passes each page on unchanged."},
	{Endless, Error, "returns a list that never ends", "Every page has a nextCursor. Clients that read the whole list never stop.", "On the last page, omit nextCursor.", "The command dragoman serve stops reading after a thousand pages, and reports the list. The command dragoman run passes each page on unchanged."},
	{ReadFails, Warning, "lists an item that cannot be read", "The server lists a resource or a prompt, but answers the request to read this item with an error, or does not answer.", "List only items that clients can read.", "Dragoman passes the error on to the client."},
	{ToolName, Warning, "has a tool name that some clients reject", `Some clients and models accept only letters, digits, "_", "-" and "." in a tool name, and at most 128 characters.`, "Rename the tool.", "The command dragoman serve gives the tool a valid name. The command dragoman run passes the name on unchanged."},
	{ToolUndescribed, Info, "has a tool without a description", "The model has to guess what the tool does. Some clients do not show the tool.", "Add a description of one sentence or more.", "Dragoman passes the tool on unchanged."},
	{SchemaMissing, Error, "has a tool without inputSchema", "MCP requires an inputSchema for every tool. Clients that check the types of all members reject the whole list.", `Add an inputSchema that lists the parameters. For a tool without parameters, use {"type":"object","additionalProperties":false}.`, "If the server speaks a manifest dialect, Dragoman reads the schema from the member that the dialect uses for schemas. Otherwise Dragoman passes the tool on unchanged."},
	{SchemaEmptyEnum, Warning, "has an inputSchema with an empty enum", "No value is valid for this argument, so a call cannot contain it. JSON Schema says that an enum should have at least one element (2020-12, Validation, section 6.1.2), and some validators reject the schema.", "List the allowed values, or leave out the argument while there are none.", "Dragoman passes the schema on unchanged."},
	{SchemaInvalid, Error, "has an inputSchema that is not valid JSON Schema", "Clients that compile schemas reject the tool, or the whole list. Model providers reject a request that contains the schema.", "Check the schema with a validator for JSON Schema 2020-12.", "Dragoman passes the schema on unchanged, because a repair could change its meaning. If a client fails because of the schema, hide the tool with the setting expose in the configuration."},
	{SchemaEmpty, Warning, `has an inputSchema without "type":"object"`, `MCP requires "type":"object" at the root of an inputSchema. Clients that check the types of all members reject the list. Model providers reject the tool.`, `Add "type":"object" at the root of the schema.`, "If the server speaks a manifest dialect, Dragoman repairs the schema. Otherwise Dragoman passes the schema on unchanged."},
	{SchemaBare, Info, "has an inputSchema that lists no parameters", "Such a schema is correct for a tool without parameters. For any other tool, the model has to guess the parameters.", `List the parameters. If the tool has no parameters, set "additionalProperties":false.`, "Dragoman passes the schema on unchanged."},
	{SchemaStub, Warning, `has tools with {"type":"object"} as the whole schema`, "Such a schema lists no parameters. The model guesses the names and types of the parameters, and calls fail. Servers send such a schema because a framework requires a schema for each tool, or because a program between tool and server lost the real schema. Doctor reports this finding if a server has at least two tools and all of them have such a schema. In a manifest (a list of tools in the result of initialize), one such tool is enough.", `List the parameters of each tool. For a tool without parameters, use {"type":"object","additionalProperties":false}.`, "Dragoman passes the schema on unchanged, because Dragoman does not know the parameters."},
	{SchemaDialect, Warning, "has a schema with keywords of another schema language", "MCP uses JSON Schema 2020-12. Keywords of older drafts or of OpenAPI have no effect, or make the schema invalid.", `Write exclusiveMinimum as a number. Write "null" as one of the types instead of nullable. Use prefixItems for tuples.`, "If the server speaks a manifest dialect, Dragoman repairs the schema. Otherwise Dragoman passes the schema on unchanged."},
	{SchemaRef, Warning, "has a schema with an external $ref", "Clients do not load a $ref that points outside of the schema, because a server could use such a $ref to make clients request any URL.", "Copy the external definition into the $defs object of the schema.", "Dragoman passes the schema on unchanged, and does not load the $ref."},
	{SchemaHeader, Warning, "has a tool with an invalid x-mcp-header", "The revision 2026-07-28 requires clients to omit a tool with an invalid x-mcp-header.", "Use a valid header name. Use x-mcp-header only on a parameter that is a string, an integer or a boolean. The path from the root of the schema to this parameter must consist only of the keyword properties and property names.", "For clients of the revision 2026-07-28 over HTTP, Dragoman omits the tool, and reports that it omitted the tool."},

	// Calls.
	{CallSilent, Error, "does not answer a tool call", "The client waits until the call times out.", "Answer every call, at least with an error. Send progress notifications during long calls.", "Dragoman ends a call after one minute without progress, and answers the client with an error."},
	{NoContent, Error, "returns a tool result without content", "MCP requires content in every tool result. Clients that check the types of all members reject the result.", `Add "content":[…] to the result. If there is no content, send [].`, "If the server speaks a manifest dialect, Dragoman converts the result. Otherwise Dragoman passes the result on unchanged."},
	{Floods, Warning, "sends a thousand notifications before one answer", "Clients become slow, or run out of memory.", "Send fewer log messages, and respect the level that the client sets with logging/setLevel.", "Dragoman has a limited queue of notifications for each client. When the queue is full, Dragoman discards notifications."},
	{StuckOnCancel, Error, "stops answering after a call is cancelled", "When a user cancels one call, the server does not answer any later request.", "When the server receives notifications/cancelled, stop the call or ignore the notification. In both cases, continue to answer later requests.", "Dragoman sends pings to the server, and restarts the server if the server does not answer the pings."},
}
