package doctor

// The ids of the checks of clients. An id never changes.
const (
	checkMessages     = "messages"
	checkBatches      = "batches"
	checkIDs          = "ids"
	checkIDZero       = "id-zero"
	checkHandshake    = "handshake"
	checkParams       = "initialize-params"
	checkVersion      = "version"
	checkInfo         = "client-info"
	checkCapabilities = "capabilities"
	checkInitialized  = "initialized"
	checkOnce         = "initialize-once"
	checkEra          = "one-era"
	checkMeta         = "meta"
	checkMethods      = "methods"
	checkDeclared     = "declared"
	checkLists        = "tools-list"
	checkProgress     = "progress-token"
	checkPing         = "ping"
	checkUnknown      = "unknown-requests"
	checkAccept       = "accept"
	checkContentType  = "content-type"
	checkHeader       = "version-header"
	checkSession      = "session"
	checkMirrors      = "mirrored-headers"
)

// clientCheck is one check of a client. The check fails if there is a finding with one of the
// codes.
type clientCheck struct {
	id, title string
	codes     []string
}

// clientChecks has all checks. The report lists them in this order.
var clientChecks = []clientCheck{
	{checkMessages, "sends valid JSON-RPC messages", []string{ClientUnreadable, ClientShape}},
	{checkBatches, "sends batches only if its revision has them", []string{ClientBatch}},
	{checkIDs, "uses each id once", []string{ClientIDReused}},
	{checkIDZero, "does not use the id 0", []string{ClientIDZero}},
	{checkHandshake, "begins with initialize, or is of 2026-07-28", []string{ClientNoHandshake}},
	{checkParams, "sends parameters with initialize", []string{ClientBare}},
	{checkVersion, "requests a version that exists", []string{ClientVersion}},
	{checkInfo, "sends its name and version", []string{ClientNoInfo}},
	{checkCapabilities, "declares its capabilities", []string{ClientNoCapabilities}},
	{checkInitialized, "sends notifications/initialized in time", []string{ClientNoInitialized, ClientInitializedID, ClientInitializedEarly}},
	{checkOnce, "sends initialize once in a session", []string{ClientTwice}},
	{checkEra, "uses one era in a conversation", []string{ClientBothEras, ClientNewWords}},
	{checkMeta, "sends the required _meta", []string{ClientMeta}},
	{checkMethods, "uses only methods of its revision", []string{ClientUnknown}},
	{checkDeclared, "uses only what the server declared", []string{ClientUndeclared}},
	{checkLists, "requests tools/list", []string{ClientNeverLists}},
	{checkProgress, "sends a progressToken with calls", []string{ClientNoProgressToken}},
	{checkPing, "answers ping", []string{ClientPingSilent}},
	{checkUnknown, "answers unknown requests", []string{ClientUnknownSilent}},
	{checkAccept, "accepts JSON and event streams", []string{ClientAccept}},
	{checkContentType, "sends Content-Type: application/json", []string{ClientContentType}},
	{checkHeader, "sends the right MCP-Protocol-Version", []string{ClientVersionHeader}},
	{checkSession, "uses the session of the server", []string{ClientSession}},
	{checkMirrors, "sends headers that match the body", []string{ClientMirrors}},
}
