package dialect

import (
	"bytes"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

// revisions are all revisions. Fuzz arguments are indexes into this slice.
var revisions = []mcp.Revision{mcp.R20241105, mcp.R20250326, mcp.R20250618, mcp.R20251125, mcp.R20260728}

func revisionOf(n uint8) mcp.Revision { return revisions[int(n)%len(revisions)] }

// addSeeds adds every line of the transcripts and some hostile lines, each from every revision to
// the oldest and to the newest revision.
func addSeeds(f *testing.F) {
	f.Helper()
	lines, err := transcript.Lines("../../../testdata/transcripts/*.txtar")
	if err != nil || len(lines) == 0 {
		f.Fatalf("no seeds were found: %v", err)
	}
	for _, odd := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":7}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{},"\u0061rguments":null}}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"\u005fmeta" : {"progress\u0054oken":null,"tracestate":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":null}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":null}}`,
		`{"jsonrpc":"2.0","id":1,"result":null}`,
		`{"jsonrpc":"2.0","id":1,"result":{"_meta":null,"result\u0054ype":5}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x","data":null}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32002}}`,
	} {
		lines = append(lines, []byte(odd))
	}
	for _, l := range lines {
		for from := range uint8(len(revisions)) {
			for _, to := range []uint8{0, uint8(len(revisions) - 1)} {
				f.Add(l, from, to)
			}
		}
	}
}

// kept returns the members of an object whose names are not in covered.
func kept(raw []byte, obj jsonrpc.Span, covered ...string) (all [][]byte) {
	for m := range jsonrpc.Members(raw, obj) {
		if name, _ := jsonrpc.Text(raw, m.Key); !slices.Contains(covered, name) {
			all = append(all, slices.Concat(m.Key.Of(raw), []byte(":"), m.Value.Of(raw)))
		}
	}
	return all
}

// wantKept fails the test unless both objects have the same members in the same order, byte for
// byte. It ignores the members in covered.
func wantKept(t *testing.T, what string, before []byte, obj jsonrpc.Span, after []byte, obj2 jsonrpc.Span, covered ...string) {
	t.Helper()
	a, b := kept(before, obj, covered...), kept(after, obj2, covered...)
	if !slices.EqualFunc(a, b, bytes.Equal) {
		t.Errorf("%s: members changed\nfrom %s\nto   %s\nin   %s\nout  %s", what, bytes.Join(a, []byte(" ")), bytes.Join(b, []byte(" ")), before, after)
	}
}

var perRequest = []string{mcp.KeyVersion, mcp.KeyClientInfo, mcp.KeyClientCaps, mcp.KeyLogLevel}

// FuzzRequest checks that a converted call is a valid request with the id and the token of the
// Stamp. A modern server gets the version in _meta, and a legacy server gets none from a modern
// client. Members that no rule covers are unchanged.
func FuzzRequest(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, in []byte, from, dest uint8) {
		to := revisionOf(dest)
		c := callOf(in, revisions[int(from)%(len(revisions)-1)]) // the revision is modern only if the message has a modern version
		if c == nil {
			return
		}
		before := bytes.Clone(in)
		out := Request(nil, to, mcp.NewAttempt(c), &ours)
		if !bytes.Equal(in, before) {
			t.Fatal("the call was modified")
		}
		m, err := jsonrpc.Scan(out, jsonrpc.Limits{Bytes: len(out) + 1, Depth: 256, Tokens: 1 << 21})
		if err != nil || m.Kind != jsonrpc.Request {
			t.Fatalf("the result is not a request: %v\nin  %s\nout %s", err, in, out)
		}
		if m.ID != ours.ID || m.Method != c.Msg.Method {
			t.Errorf("id %s, method %q: %s", m.ID, m.Method, out)
		}
		wantKept(t, "envelope", in, jsonrpc.Whole(in), out, jsonrpc.Whole(out), "id", "params")

		// covered lists the members of params that a rule may change.
		covered := []string{mcp.KeyMeta}
		if k := jsonrpc.KindOf(in, c.Msg.Param("arguments")); c.Msg.Method == mcp.MethodCallTool && to.Legacy() && (k == 0 || k == 'n') {
			covered = append(covered, "arguments")
			if jsonrpc.KindOf(in, c.Msg.Params) == '{' && string(m.Param("arguments").Of(out)) != "{}" {
				t.Errorf("the arguments are missing: %s", out)
			}
		}
		if c.Client.Revision.Modern() && to.Legacy() && c.Method != nil && c.Method.MayAsk {
			covered = append(covered, "inputResponses", "requestState")
			if !m.Param("inputResponses").IsZero() || !m.Param("requestState").IsZero() {
				t.Errorf("a legacy server gets members of an input round: %s", out)
			}
			if c.Msg.Method == mcp.MethodCallTool {
				covered = append(covered, "task")
				if !m.Param("task").IsZero() {
					t.Errorf("a legacy server gets a task that the client did not request: %s", out)
				}
			}
		}
		wantKept(t, "params", in, c.Msg.Params, out, m.Params, covered...)

		meta := m.Param(mcp.KeyMeta)
		metaCovered := slices.Concat(perRequest, []string{mcp.KeyProgressToken, mcp.KeyTraceparent, mcp.KeyTracestate, mcp.KeyBaggage})
		wantKept(t, "_meta", in, c.Meta, out, meta, metaCovered...)
		if !c.Token.IsZero() {
			if got := jsonrpc.Find(out, meta, mcp.KeyProgressToken).Of(out); string(got) != string(ours.Token) {
				t.Errorf("the progress token is %s: %s", got, out)
			}
		}
		version, _ := jsonrpc.Text(out, jsonrpc.Find(out, meta, mcp.KeyVersion))
		if to.Modern() && version != to.String() {
			t.Errorf("a modern server gets the version %q\nin  %s\nout %s", version, in, out)
		}
		if to.Legacy() && c.Client.Revision.Modern() && version != "" {
			t.Errorf("a legacy server gets a version that is not part of its session: %s", out)
		}

		traced := ours
		traced.Trace = []jsonrpc.Field{{Key: mcp.KeyTraceparent, Value: []byte(`"ours"`)}, {Key: mcp.KeyBaggage, Value: []byte(`"b=1"`)}}
		out = Request(nil, to, mcp.NewAttempt(c), &traced)
		m, err = jsonrpc.Scan(out, jsonrpc.Limits{Bytes: len(out) + 1, Depth: 256, Tokens: 1 << 21})
		if err != nil {
			t.Fatalf("traced: %v\nin  %s\nout %s", err, in, out)
		}
		kind := jsonrpc.KindOf(in, c.Meta)
		if got, _ := jsonrpc.Text(out, jsonrpc.Find(out, m.Param(mcp.KeyMeta), mcp.KeyTraceparent)); got != "ours" && (kind == '{' || kind == 0) && jsonrpc.KindOf(out, m.Params) == '{' {
			t.Errorf("the server gets no trace context\nin  %s\nout %s", in, out)
		}
	})
}

// FuzzReply checks that a converted answer has the client's id, and a result type and an error code
// that the client's revision allows. Members that no rule covers are unchanged.
func FuzzReply(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, in []byte, source, dest uint8) {
		from, to := revisionOf(source), revisionOf(dest)
		for _, method := range []string{mcp.MethodReadResource, mcp.MethodCallTool, "x/y"} {
			call := mustCall(t, `{"jsonrpc":"2.0","id":"\u006b","method":"`+method+`","params":{"uri":"file:///x"}}`, to)
			call.Client.Revision = to
			r := replyOf(in, from)
			if r == nil {
				return
			}
			checkReply(t, in, r, Reply(nil, call, r), call)
		}
	})
}

func checkReply(t *testing.T, in []byte, r *mcp.Reply, out []byte, call *mcp.Call) {
	t.Helper()
	from, to := r.From, call.Client.Revision
	m, err := jsonrpc.Scan(out, jsonrpc.Limits{Bytes: len(out) + 1, Tolerant: true, Depth: 256, Tokens: 1 << 21})
	if err != nil || m.Kind != r.Msg.Kind {
		t.Fatalf("the result is not the expected answer: %v\nin  %s\nout %s", err, in, out)
	}
	if m.ID != call.Msg.ID {
		t.Errorf("id %s: %s", m.ID, out)
	}
	wantKept(t, "envelope", in, jsonrpc.Whole(in), out, jsonrpc.Whole(out), "id", "result", "error")
	// In every revision, an error must have a code and a message, and a result must be an object.
	_, hadCode := jsonrpc.Int(in, jsonrpc.Find(in, r.Msg.Error, "code"))
	hadText := jsonrpc.KindOf(in, jsonrpc.Find(in, r.Msg.Error, "message")) == '"'
	wasObject := jsonrpc.KindOf(in, r.Msg.Result) == '{'
	if m.Kind == jsonrpc.Failure {
		if got := Code(call, r); got != codeOf(out, m) {
			t.Errorf("Code returns %d: %s", got, out)
		}
		if _, ok := jsonrpc.Int(out, jsonrpc.Find(out, m.Error, "code")); !ok {
			t.Errorf("the code is missing: %s", out)
		}
		if jsonrpc.KindOf(out, jsonrpc.Find(out, m.Error, "message")) != '"' {
			t.Errorf("the message is missing: %s", out)
		}
	} else if jsonrpc.KindOf(out, m.Result) != '{' {
		t.Errorf("the result is not an object: %s", out)
	}
	var fitted []string
	if call.Msg.Method == mcp.MethodCallTool && to.Legacy() && from != to {
		fitted = checkConverted(t, out, m, to, from)
	}
	if from.Modern() == to.Modern() {
		if got := m.Result.Of(out); wasObject && fitted == nil && !bytes.Equal(got, r.Msg.Result.Of(in)) {
			t.Errorf("the result changed although the era is the same\nin  %s\nout %s", in, out)
		} else if wasObject {
			wantKept(t, "result", in, r.Msg.Result, out, m.Result, fitted...)
		}
		recoded := to.Modern() && m.Kind == jsonrpc.Failure && (r.Code() == mcp.CodeResourceNotFound || mcp.IsReservedCode(r.Code()))
		if got := m.Error.Of(out); hadCode && hadText && !recoded && !bytes.Equal(got, r.Msg.Error.Of(in)) {
			t.Errorf("the error changed although the era is the same\nin  %s\nout %s", in, out)
		}
		return
	}
	if m.Kind == jsonrpc.Failure {
		covered := []string{"code", "data"}
		if !hadText {
			covered = append(covered, "message")
		}
		wantKept(t, "error", in, r.Msg.Error, out, m.Error, covered...)
		data, was := jsonrpc.Find(out, m.Error, "data"), jsonrpc.Find(in, r.Msg.Error, "data")
		wantKept(t, "data", in, was, out, data, added(in, was, "uri", "upstreamCode")...)
		if k := jsonrpc.KindOf(in, was); k != 0 && k != '{' && !bytes.Equal(was.Of(in), data.Of(out)) {
			t.Errorf("the data changed: %s", out)
		}
		if n := codeOf(out, m); to.Modern() && (n == mcp.CodeResourceNotFound || mcp.IsReservedCode(n) && !(n == mcp.CodeMissingCapability && lacksRequired(call, r))) {
			t.Errorf("a modern client gets the code %d: %s", n, out)
		}
		if n := codeOf(out, m); to.Legacy() && mcp.IsReservedCode(n) {
			t.Errorf("a legacy client gets the code %d: %s", n, out)
		}
		return
	}
	if !wasObject {
		return
	}
	wantKept(t, "result", in, r.Msg.Result, out, m.Result, append(added(in, r.Msg.Result, "resultType", "ttlMs", "cacheScope"), append(fitted, mcp.KeyMeta)...)...)
	was := jsonrpc.Find(in, r.Msg.Result, mcp.KeyMeta)
	changed := added(in, was, mcp.KeyServerInfo)
	if to.Legacy() {
		changed = []string{mcp.KeyServerInfo}
		if !jsonrpc.Find(out, m.ResultMember(mcp.KeyMeta), mcp.KeyServerInfo).IsZero() {
			t.Errorf("a legacy client gets the name of the server: %s", out)
		}
	}
	wantKept(t, "_meta", in, was, out, m.ResultMember(mcp.KeyMeta), changed...)
	if to.Modern() && m.ResultMember("resultType").IsZero() {
		t.Errorf("a modern client gets no result type: %s", out)
	}
	asks := (&mcp.Reply{Msg: m}).ResultType() == mcp.ResultInputRequired // a result of type input_required has no cache members
	if to.Modern() && call.Method != nil && call.Method.Cacheable && !asks && (m.ResultMember("ttlMs").IsZero() || m.ResultMember("cacheScope").IsZero()) {
		t.Errorf("a modern client gets no cache members: %s", out)
	}
}

// checkConverted fails the test if a tool's result has content that the client's revision cannot
// express. It returns the members of the result that the conversion may change.
func checkConverted(t *testing.T, out []byte, m *jsonrpc.Message, to, from mcp.Revision) (may []string) {
	t.Helper()
	if !to.Can(mcp.ResourceLinks) {
		may = append(may, "content")
		for at := range jsonrpc.Elements(out, m.ResultMember("content")) {
			kind, _ := jsonrpc.Text(out, jsonrpc.Find(out, at, "type"))
			if kind == "resource_link" || kind == "audio" && !to.Can(mcp.AudioContent) {
				t.Errorf("a client of %s gets a block of type %s: %s", to, kind, out)
			}
		}
	}
	if from.Can(mcp.StructuredAny) {
		may = append(may, "content", "structuredContent")
		if k := jsonrpc.KindOf(out, m.ResultMember("structuredContent")); k != 0 && k != '{' {
			t.Errorf("a client of %s gets structuredContent that is not an object: %s", to, out)
		}
	}
	return may
}

// added returns the names that are not members of obj, so a conversion may add them.
func added(raw []byte, obj jsonrpc.Span, names ...string) (all []string) {
	for _, n := range names {
		if jsonrpc.Find(raw, obj, n).IsZero() {
			all = append(all, n)
		}
	}
	return all
}

func codeOf(raw []byte, m *jsonrpc.Message) int64 {
	n, _ := jsonrpc.Int(raw, jsonrpc.Find(raw, m.Error, "code"))
	return n
}
