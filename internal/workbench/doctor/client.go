package doctor

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Stage is a test server for clients. It acts as a server of both eras and records what the
// clients do. It has one tool, which echoes its input. The zero value is not usable; call
// NewStage. The exported methods are safe for concurrent use.
type Stage struct {
	speaks []mcp.Revision

	mu       sync.Mutex
	found    map[string]Finding
	judged   map[string]bool     // the ids of the checks that applied to at least one message
	visitors map[string]*visitor // the visitors over HTTP, by session id
	all      []*visitor          // all visitors, in order of arrival
	messages int
	news     []string // see News
}

// maxVisitors is the maximum number of HTTP sessions. The stage refuses all later sessions.
const maxVisitors = 1000

// NewStage returns a stage that supports the given revisions, or all revisions if none is given.
func NewStage(speaks ...mcp.Revision) *Stage {
	if len(speaks) == 0 {
		speaks = mcp.Revisions()
	}
	return &Stage{speaks: speaks, found: map[string]Finding{}, judged: map[string]bool{}, visitors: map[string]*visitor{}}
}

// visitor is one conversation with a client. The mutex of the stage guards it.
type visitor struct {
	http bool

	opened   string       // the method of the request that opened the conversation
	version  string       // the version that the client offered
	revision mcp.Revision // the revision in use
	name     string
	declares []string
	discover bool            // server/discover was requested
	ready    bool            // notifications/initialized has arrived
	requests int             // requests since the opening
	lists    bool            // tools/list was requested
	told     map[string]bool // what News has told: a name, and a name with a method
	used     map[jsonrpc.ID]bool
	asked    map[jsonrpc.ID]string // for each unanswered request of the stage: the code to report if no answer arrives
	askedAt  time.Time
}

// maxUsed is the maximum number of ids in used.
const maxUsed = 4096

func (s *Stage) enter(session string, http bool) *visitor {
	v := &visitor{http: http, used: map[jsonrpc.ID]bool{}, asked: map[jsonrpc.ID]string{}, told: map[string]bool{}}
	s.all = append(s.all, v)
	if session != "" {
		s.visitors[session] = v
	}
	return v
}

// find records a finding. The caller holds s.mu.
func (s *Stage) find(code string, raw []byte, what ...string) {
	if _, had := s.found[code]; had {
		return
	}
	c, ok := Lookup(code)
	if !ok {
		c = Condition{Code: code, Level: Warning}
	}
	line := ""
	if raw != nil {
		line = "< " + redact(raw, nil)
	}
	for i := range what {
		what[i] = "# " + redact([]byte(what[i]), nil)
	}
	s.found[code] = Finding{Condition: c, Evidence: evidence(append([]string{line}, what...)...)}
	s.tell(string(c.Level) + " " + c.Code + ": " + c.Title)
}

// judge records that the given checks were applied to a client. If a check fails, find records the
// fault. The caller holds s.mu.
func (s *Stage) judge(checks ...string) {
	for _, id := range checks {
		s.judged[id] = true
	}
}

// receive handles one message from a client, and returns the messages to send. If the client's message
// gets an answer, the answer comes first.
func (s *Stage) receive(v *visitor, raw []byte, version string) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages++
	s.judge(checkMessages)
	if jsonrpc.IsBatch(raw) {
		s.judge(checkBatches)
		if !v.revision.Can(mcp.Batches) {
			s.find(ClientBatch, raw)
		}
		items, err := jsonrpc.ScanBatch(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
		if err != nil {
			return [][]byte{s.unreadable(raw, err)}
		}
		var out [][]byte
		for _, i := range items {
			if i.Message != nil {
				out = append(out, s.take(v, i.Message, version)...)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return [][]byte{slices.Concat([]byte("["), slices.Concat(join(out)...), []byte("]"))}
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine})
	if err != nil {
		loose, bad := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
		if bad != nil {
			return [][]byte{s.unreadable(raw, err)}
		}
		s.find(ClientShape, raw, err.Error())
		m = loose
	}
	return s.take(v, m, version)
}

func join(all [][]byte) [][]byte {
	var out [][]byte
	for i, b := range all {
		if i > 0 {
			out = append(out, []byte(","))
		}
		out = append(out, b)
	}
	return out
}

func (s *Stage) unreadable(raw []byte, err error) []byte {
	s.find(ClientUnreadable, raw, err.Error())
	return jsonrpc.AppendError(nil, "null", &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "the message is not valid JSON-RPC"})
}

// take handles a parsed message. version is the value of the version header, or "".
func (s *Stage) take(v *visitor, m *jsonrpc.Message, version string) [][]byte {
	switch m.Kind {
	case jsonrpc.Result, jsonrpc.Failure:
		switch v.asked[m.ID] {
		case ClientPingSilent:
			s.judge(checkPing)
		case ClientUnknownSilent:
			s.judge(checkUnknown)
		}
		delete(v.asked, m.ID)
		return nil
	case jsonrpc.Notification:
		return s.note(v, m)
	}
	s.judgeID(v, m)
	if m.Method == mcp.NoteInitialized {
		// 2025-11-25 §Base, "Notifications": a notification must not have an id.
		s.judge(checkInitialized)
		s.find(ClientInitializedID, m.Raw)
		v.ready = true // the client does send notifications/initialized, so the id is the only fault
		return [][]byte{jsonrpc.AppendError(nil, m.ID, mcp.MethodNotFound(m.Method))}
	}
	before := len(s.news)
	result, bad := s.serve(v, m, version)
	s.tellMethod(v, m.Method, before)
	if bad != nil {
		return [][]byte{jsonrpc.AppendError(nil, m.ID, bad)}
	}
	return [][]byte{jsonrpc.AppendResult(nil, m.ID, []byte(result))}
}

func (s *Stage) judgeID(v *visitor, m *jsonrpc.Message) {
	s.judge(checkIDZero)
	if len(v.used) > 0 {
		s.judge(checkIDs)
	}
	switch {
	case m.ID == "0":
		s.find(ClientIDZero, m.Raw)
	case strings.ContainsAny(string(m.ID), ".eE") && !strings.HasPrefix(string(m.ID), `"`):
		s.find(ClientShape, m.Raw, "the id is not an integer")
	}
	if v.used[m.ID] && !(v.opened == "" || v.revision.Modern()) {
		s.find(ClientIDReused, m.Raw, "this id was used before")
	}
	if len(v.used) < maxUsed && m.Method != mcp.MethodDiscover {
		v.used[m.ID] = true
	}
}

// note handles a notification. After the handshake on a pipe, note returns requests to the client.
// Later, leave checks whether the client has answered them.
func (s *Stage) note(v *visitor, m *jsonrpc.Message) [][]byte {
	s.tellMethod(v, m.Method, len(s.news))
	switch m.Method {
	case mcp.NoteInitialized:
		if v.opened == "" {
			s.judge(checkInitialized)
			s.find(ClientInitializedEarly, m.Raw)
			return nil // this notification does not count: the client has to send it after the answer to initialize
		}
		s.judge(checkInitialized)
		v.ready = true
		if v.http || v.opened != mcp.MethodInitialize {
			return nil
		}
		v.askedAt = time.Now()
		v.asked[`"dragoman-ping"`], v.asked[`"dragoman-unknown"`] = ClientPingSilent, ClientUnknownSilent
		return [][]byte{
			jsonrpc.AppendRequest(nil, `"dragoman-ping"`, mcp.MethodPing, nil),
			jsonrpc.AppendRequest(nil, `"dragoman-unknown"`, "dragoman/no_such_method", nil),
			jsonrpc.AppendNotification(nil, "notifications/dragoman/unknown", nil),
		}
	case mcp.NoteCancelled, mcp.NoteProgress, mcp.NoteRootsChanged:
	default:
		s.find(ClientUnknown, m.Raw)
	}
	return nil
}

// serve answers a request.
func (s *Stage) serve(v *visitor, m *jsonrpc.Message, version string) (result string, bad *jsonrpc.Error) {
	if v.opened != "" {
		s.judge(checkOnce, checkEra)
	}
	o, bad := mcp.Classify(m, version, v.http)
	if bad != nil && m.Method != mcp.MethodInitialize {
		s.find(ClientMeta, m.Raw, bad.Message)
		return "", bad
	}
	modern := o.Revision.Modern()
	s.judge(checkHandshake)
	switch {
	case m.Method == mcp.MethodInitialize:
		return s.initialize(v, m)
	case modern:
		s.judge(checkMeta)
		if bad := mcp.CheckModern(m, o); bad != nil {
			s.find(ClientMeta, m.Raw, bad.Message)
			return "", bad
		}
		s.greet(v, m, o)
	case v.opened == "":
		s.find(ClientNoHandshake, m.Raw)
		v.opened, v.revision = m.Method, o.Revision
	case v.opened == mcp.MethodInitialize && !v.ready && m.Method != mcp.MethodPing:
		s.find(ClientNoInitialized, m.Raw)
	}
	if !modern && v.opened == mcp.MethodInitialize {
		for _, key := range []string{mcp.KeyLogLevel, mcp.KeyClientInfo, mcp.KeyClientCaps} {
			if !jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), key).IsZero() {
				s.find(ClientNewWords, m.Raw, "_meta has "+key)
			}
		}
	}
	if m.Method != mcp.MethodDiscover {
		v.requests++
	}
	return s.perform(v, m, modern)
}

// greet records the client information that a modern client sends.
func (s *Stage) greet(v *visitor, m *jsonrpc.Message, o mcp.Opening) {
	if v.opened == "" || m.Method == mcp.MethodDiscover {
		v.opened, v.revision, v.version = m.Method, o.Revision, o.Revision.String()
	}
	v.discover = v.discover || m.Method == mcp.MethodDiscover
	s.describe(v, m, jsonrpc.Find(m.Raw, o.Meta, mcp.KeyClientInfo), jsonrpc.Find(m.Raw, o.Meta, mcp.KeyClientCaps))
}

func (s *Stage) describe(v *visitor, m *jsonrpc.Message, info, caps jsonrpc.Span) {
	name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, info, "name"))
	number, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, info, "version"))
	if name != "" {
		v.name = strings.TrimSpace(clip(name) + " " + clip(number))
	}
	v.declares = nil
	for c := range jsonrpc.Members(m.Raw, caps) {
		key, _ := jsonrpc.Text(m.Raw, c.Key)
		if len(v.declares) < 32 {
			v.declares = append(v.declares, clip(key))
		}
	}
}

// initialize checks and answers an initialize request (2025-11-25 §Lifecycle, "Version
// Negotiation").
func (s *Stage) initialize(v *visitor, m *jsonrpc.Message) (string, *jsonrpc.Error) {
	if v.discover {
		s.find(ClientBothEras, m.Raw)
	}
	if v.opened == mcp.MethodInitialize {
		s.find(ClientTwice, m.Raw)
	}
	v.opened = mcp.MethodInitialize
	info, caps := m.Param("clientInfo"), m.Param("capabilities")
	offered, ok := jsonrpc.Text(m.Raw, m.Param("protocolVersion"))
	switch {
	case m.Params.IsZero():
		s.judge(checkParams)
		s.find(ClientBare, m.Raw)
	case !ok:
		s.find(ClientVersion, m.Raw, "protocolVersion is missing")
	}
	if !m.Params.IsZero() {
		s.judge(checkParams, checkVersion, checkInfo, checkCapabilities)
		if jsonrpc.Find(m.Raw, info, "name").IsZero() || jsonrpc.Find(m.Raw, info, "version").IsZero() {
			s.find(ClientNoInfo, m.Raw)
		}
		if jsonrpc.KindOf(m.Raw, caps) != '{' {
			s.find(ClientNoCapabilities, m.Raw)
		}
	}
	s.describe(v, m, info, caps)
	v.version = clip(offered)
	v.revision = mcp.LatestLegacy
	r, known := mcp.ParseRevision(offered)
	if ok && (!known || !r.Legacy()) {
		s.find(ClientVersion, m.Raw, "no protocol revision with initialize has this version")
	}
	if known && r.Legacy() && slices.Contains(s.speaks, r) {
		v.revision = r
	} else {
		for _, mine := range s.speaks {
			if mine.Legacy() {
				v.revision = mine
				break
			}
		}
	}
	return `{"protocolVersion":"` + v.revision.String() + `","capabilities":{"tools":{}},"serverInfo":` + identity + `}`, nil
}

// echoTool is the stage's only tool.
const echoTool = `{"name":"echo","description":"Returns the text of its argument.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`

// perform answers all requests except initialize.
func (s *Stage) perform(v *visitor, m *jsonrpc.Message, modern bool) (string, *jsonrpc.Error) {
	head := "{"
	if modern {
		head = `{"resultType":"complete",`
	}
	cached := ""
	if modern {
		cached = `"ttlMs":0,"cacheScope":"private",`
	}
	known := mcp.LookupMethod(m.Method)
	if known != nil && !known.In(v.revision) && v.revision != mcp.Unknown {
		known = nil
	}
	s.judge(checkMethods)
	if known == nil {
		s.find(ClientUnknown, m.Raw)
		return "", &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown method"}
	}
	switch m.Method {
	case mcp.MethodDiscover:
		var dates []string
		for _, r := range s.speaks {
			dates = append(dates, `"`+r.String()+`"`)
		}
		return head + cached + `"supportedVersions":[` + strings.Join(dates, ",") + `],"capabilities":{"tools":{}}}`, nil
	case mcp.MethodPing:
		return "{}", nil
	case mcp.MethodListTools:
		v.lists = true
		s.judge(checkDeclared, checkLists)
		return head + cached + `"tools":[` + echoTool + `]}`, nil
	case mcp.MethodCallTool:
		s.judge(checkDeclared, checkProgress)
		if jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), "progressToken").IsZero() {
			s.find(ClientNoProgressToken, m.Raw)
		}
		name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
		if name != "echo" {
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"}
		}
		text, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Param("arguments"), "text"))
		return head + `"content":[{"type":"text","text":` + quoted(text) + `}]}`, nil
	}
	if m.Method != mcp.MethodListen { // subscriptions/listen does not need a capability of its own
		s.find(ClientUndeclared, m.Raw)
	}
	return "", &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server has not declared the capability for this method"}
}

// leave is called when a conversation has ended. It records the requests that the client did not
// answer, and whether notifications/initialized was missing.
func (s *Stage) leave(v *visitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, code := range v.asked {
		if time.Since(v.askedAt) < answerTime {
			break // the client had no time to answer before the conversation ended
		}
		s.find(code, nil, fmt.Sprintf("the client never answered the request %s", id))
	}
	v.asked = nil
	if v.opened == mcp.MethodInitialize && !v.ready {
		s.find(ClientNoInitialized, nil, "the client disconnected without sending notifications/initialized")
	}
}

// answerTime is how long a client may take to answer a request of the stage.
const answerTime = 2 * time.Second

// newSession returns an unguessable session id.
func newSession() string { return rand.Text() }
