package bridge

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const askName = `{"n":{"method":"elicitation/create","params":{"mode":"form","message":"name?","requestedSchema":{"type":"object","properties":{}}}}}`

// stateful returns a modern server that asks once with the given requestState ("" for none), and
// then returns a result.
func stateful(state string) *fake {
	u := &fake{name: "s"}
	u.call = func(_ context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
		raw := a.Edits.Splice(nil, a.Msg.Raw)
		m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: len(raw) + 1})
		if err != nil {
			return nil, err
		}
		if !m.Param("inputResponses").IsZero() {
			return said(mcp.R20260728, `{"resultType":"complete","content":[]}`), nil
		}
		out := `{"resultType":"input_required","inputRequests":` + askName
		if state != "" {
			out += `,"requestState":` + state
		}
		return said(mcp.R20260728, out+"}"), nil
	}
	return u
}

const toolCall = `{"name":"t","arguments":{"a":1,"b":"é"}%s}`

// retry returns the params of a call's retry, with an answer and a requestState.
func retry(params, state string) string {
	more := `,"inputResponses":{"n":{"action":"accept","content":{}}}`
	if state != "" {
		more += `,"requestState":` + string(jsonrpc.AppendQuote(nil, state))
	}
	return fmt.Sprintf(params, more)
}

func first(t *testing.T, b *Bridge, u Server) (state string) {
	t.Helper()
	reply, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, fmt.Sprintf(toolCall, "")), &ear{})
	if err != nil {
		t.Fatal(err)
	}
	if reply.ResultType() != mcp.ResultInputRequired {
		t.Fatalf("got %s", reply.Msg.Raw)
	}
	return text(t, reply, "requestState")
}

func TestM01_StateWithAnyByteChangedIsRefused(t *testing.T) {
	r, u := &Bridge{}, stateful(`"secret"`)
	state := first(t, r, u)
	if !strings.HasPrefix(state, sealedStart) || strings.Contains(state, "secret") {
		t.Fatalf("state %q", state)
	}
	calls := len(u.seen.all())
	try := func(what, s string) {
		t.Helper()
		_, err := relay(t.Context(), r, u, modern(t, mcp.MethodCallTool, retry(toolCall, s)), &ear{})
		if code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", what, err)
		}
	}
	sealed, err := base64.RawURLEncoding.DecodeString(state[len(sealedStart):])
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		b := append([]byte(nil), sealed...)
		b[i] ^= 1 << (i % 8)
		try(fmt.Sprintf("bit of byte %d", i), sealedStart+base64.RawURLEncoding.EncodeToString(b))
	}
	for _, n := range []int{1, 4, 5, 6, 10, 20, len(state) - 1} {
		try(fmt.Sprintf("cut to %d", n), state[:n])
	}
	try("longer", state+"AAAA")
	try("empty inside", sealedStart)
	for _, bad := range []string{"1", "{}", "null", `""`, `["` + state + `"]`} {
		params := fmt.Sprintf(toolCall, `,"requestState":`+bad)
		if _, err := relay(t.Context(), r, u, modern(t, mcp.MethodCallTool, params), &ear{}); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if n := len(u.seen.all()); n != calls {
		t.Errorf("the server got %d calls", n-calls)
	}
	if _, err := relay(t.Context(), r, u, modern(t, mcp.MethodCallTool, retry(toolCall, state)), &ear{}); err != nil {
		t.Errorf("the unchanged state is refused: %v", err)
	}
}

func TestM02_StateOfAnotherPrincipalIsRefused(t *testing.T) {
	b, u := &Bridge{}, stateful(`"s"`)
	state := first(t, b, u)
	_, err := relay(t.Context(), b, u, request26(t, "bob", mcp.MethodCallTool, retry(toolCall, state)), &ear{})
	if !errors.Is(err, error(errState)) {
		t.Errorf("got %v", err)
	}
}

// TestTA10OtherKey checks that a state and the id of a task belong to a seat: another key of the same
// person, which may be for fewer tools, can use neither. The key itself still can.
func TestTA10OtherKey(t *testing.T) {
	b, u := &Bridge{}, stateful(`"s"`)
	state := first(t, b, u) // a state that belongs to alice
	id := b.taskID("s", &mcp.ClientInfo{Who: identity.Named("alice")}, false, mcp.TaskRef{ID: "1"})
	for _, x := range []struct {
		who  *identity.Principal
		want bool
	}{{&identity.Principal{Subject: "alice", Seat: "alice/other key"}, false}, {&identity.Principal{Subject: "mallory", Seat: "k:x"}, false}, {identity.Local, false}, {identity.Named("alice"), true}} {
		c := request26(t, "", mcp.MethodCallTool, retry(toolCall, state))
		c.Client.Who = x.who
		if _, err := relay(t.Context(), b, u, c, &ear{}); errors.Is(err, error(errState)) == x.want {
			t.Errorf("the state of alice, by %+v: %v", x.who, err)
		}
		if _, err := b.FindTask(t.Context(), []Server{u}, c.Client, false, id); (err == nil) != x.want {
			t.Errorf("the task of alice, by %+v: %v", x.who, err)
		}
	}
}

func TestM02_StateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, u := &Bridge{}, stateful(`"s"`)
		state := first(t, b, u)
		time.Sleep(stateTTL - time.Second)
		if _, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, retry(toolCall, state)), &ear{}); err != nil {
			t.Errorf("before the state expires: %v", err)
		}
		time.Sleep(3 * time.Second)
		if _, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, retry(toolCall, state)), &ear{}); !errors.Is(err, errExpired) {
			t.Errorf("after the state expires: %v", err)
		}
	})
}

func TestM03_StateIsForItsRequestAlone(t *testing.T) {
	b, u := &Bridge{}, stateful(`"s"`)
	state := first(t, b, u)
	for what, x := range map[string][2]string{
		"another tool":      {mcp.MethodCallTool, `{"name":"u","arguments":{"a":1,"b":"é"}%s}`},
		"another argument":  {mcp.MethodCallTool, `{"name":"t","arguments":{"a":2,"b":"é"}%s}`},
		"one more argument": {mcp.MethodCallTool, `{"name":"t","arguments":{"a":1,"b":"é","c":null}%s}`},
		"no arguments":      {mcp.MethodCallTool, `{"name":"t"%s}`},
		"another type":      {mcp.MethodCallTool, `{"name":"t","arguments":{"a":"1","b":"é"}%s}`},
		"another method":    {mcp.MethodGetPrompt, toolCall},
	} {
		if _, err := relay(t.Context(), b, u, modern(t, x[0], retry(x[1], state)), &ear{}); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := stateful(`"s"`)
	other.name = "other"
	if _, err := relay(t.Context(), b, other, modern(t, mcp.MethodCallTool, retry(toolCall, state)), &ear{}); code(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("another server: %v", err)
	}
	for what, params := range map[string]string{
		"other order and white space": `{ "arguments" : { "b" : "é",` + "\t" + `"a" : 1 } , "name":"t"%s}`,
		"escapes":                     `{"name":"\u0074","arguments":{"a":1,"b":"\u00e9"}%s}`,
		"another _meta":               `{"_meta":{"progressToken":9},"name":"t","arguments":{"a":1,"b":"é"}%s}`,
	} {
		if _, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, retry(params, state)), &ear{}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestT8_StateComesBackToItsServerToTheByte(t *testing.T) {
	for what, state := range map[string]string{
		"empty": `""`, "escapes": `"\u00e4\/\n\"ä\u2028"`, "not ASCII": `"日本 👩‍🚀"`, "one of ours": `"drg1.AAAA"`,
		"1 MiB": `"` + strings.Repeat("x", 1<<20) + `"`, "absent": "",
	} {
		b, u := &Bridge{}, stateful(state)
		sealed := first(t, b, u)
		if (sealed == "") != (state == "") {
			t.Errorf("%s: the client got the state %.40q", what, sealed)
			continue
		}
		raw := retry(toolCall, sealed)
		big := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + raw + `}`
		m, err := jsonrpc.Scan([]byte(big), jsonrpc.Limits{Bytes: len(big) + 1})
		if err != nil {
			t.Fatal(err)
		}
		c := modern(t, mcp.MethodCallTool, "{}")
		if _, err := relay(t.Context(), b, u, mcp.NewCall(m, m.Param(mcp.KeyMeta), c.Client), &ear{}); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		all := u.seen.all()
		got := message(t, all[len(all)-1])
		if back := string(got.Param("requestState").Of(got.Raw)); back != state {
			t.Errorf("%s: the server got back %.40s", what, back)
		}
	}
}

func TestKeysLiveForADayAndAreKeptForOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, u := &Bridge{}, stateful(`"s"`)
		send := func(state string) error {
			_, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, retry(toolCall, state)), &ear{})
			return err
		}
		_ = first(t, b, u)
		time.Sleep(keyLife - time.Minute)
		old := first(t, b, u)
		time.Sleep(2 * time.Minute)
		young := first(t, b, u)
		if len(b.own.states) != 2 || b.own.states[0].ID == b.own.states[1].ID {
			t.Error("the key was not changed")
		}
		if err := errors.Join(send(old), send(young)); err != nil {
			t.Error(err)
		}
		time.Sleep(keyLife)
		_ = first(t, b, u)
		if err := send(old); err == nil || len(b.own.states) != 2 {
			t.Errorf("a state of a key two days old: %v, %d keys", err, len(b.own.states))
		}
	})
}

// TestSharedKeyring checks that two Bridges with one Keyring open each other's states and know each
// other's task ids, for the same principal alone, and that a Bridge with keys of its own knows neither.
func TestSharedKeyring(t *testing.T) {
	keys := NewKeys(nil)
	a, b, stranger := &Bridge{Keys: keys}, &Bridge{Keys: keys}, &Bridge{}
	u := stateful(`"s"`)
	state := first(t, a, u) // a state that belongs to alice
	ask := func(r *Bridge, who string) error {
		_, err := relay(t.Context(), r, u, request26(t, who, mcp.MethodCallTool, retry(toolCall, state)), &ear{})
		return err
	}
	if err := ask(b, "bob"); !errors.Is(err, error(errState)) {
		t.Errorf("bob uses alice's state: %v", err)
	}
	if err := ask(stranger, "alice"); !errors.Is(err, error(errNoKey)) {
		t.Errorf("a bridge with other keys: %v", err)
	}
	if err := ask(b, "alice"); err != nil {
		t.Errorf("alice, at the other bridge: %v", err)
	}
	alice, bob := &mcp.ClientInfo{Who: identity.Named("alice")}, &mcp.ClientInfo{Who: identity.Named("bob")}
	id := a.taskID("s", alice, false, mcp.TaskRef{ID: "1"})
	for _, tt := range []struct {
		r    *Bridge
		who  *mcp.ClientInfo
		want bool
	}{{a, alice, true}, {b, alice, true}, {b, bob, false}, {stranger, alice, false}, {&Bridge{Keys: noKeys{}}, alice, false}} {
		if task, err := tt.r.FindTask(t.Context(), []Server{u}, tt.who, false, id); (err == nil) != tt.want || tt.want && task.Ref.ID != "1" {
			t.Errorf("%s at %p: %v %v", tt.who.Who.Key(), tt.r, task, err)
		}
	}
}

// noKeys is a Keyring that has lost its keys.
type noKeys struct{}

func (noKeys) Newest(Use) (Key, error)              { return Key{}, errors.New("no key") }
func (noKeys) ByID(Use, [keyIDLen]byte) (Key, bool) { return Key{}, false }

// TestWithoutKeys checks that a Bridge whose Keyring fails makes neither states nor valid task ids.
func TestWithoutKeys(t *testing.T) {
	r, u := &Bridge{Keys: noKeys{}}, stateful(`"s"`)
	if reply, err := relay(t.Context(), r, u, modern(t, mcp.MethodCallTool, fmt.Sprintf(toolCall, "")), &ear{}); err == nil {
		t.Errorf("a state without a key: %s", reply.Msg.Raw)
	}
	alice := &mcp.ClientInfo{Who: identity.Named("alice")}
	if a, b := r.taskID("s", alice, false, mcp.TaskRef{ID: "1"}), r.taskID("s", alice, false, mcp.TaskRef{ID: "1"}); a == b {
		t.Errorf("an id without a key: %s", a)
	}
}

func TestT11_StateFromBeforeARestartMayHaveBeenExecuted(t *testing.T) {
	u := stateful(`"s"`)
	state := first(t, &Bridge{}, u)
	calls := len(u.seen.all())
	_, err := relay(t.Context(), &Bridge{}, u, modern(t, mcp.MethodCallTool, retry(toolCall, state)), &ear{})
	if code(err) != jsonrpc.CodeInvalidParams || !strings.Contains(err.Error(), "may have executed the call") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(string(mcp.Wire(err).Data), `"outcome":"unknown"`) {
		t.Errorf("data %s", mcp.Wire(err).Data)
	}
	if len(u.seen.all()) != calls {
		t.Error("the call was sent to the server")
	}
}

func TestM08_InputRequiredWhereItMayNotBeIsNotRelayed(t *testing.T) {
	for what, x := range map[string][3]string{
		"on a list":          {mcp.MethodListTools, "{}", `{"resultType":"input_required","requestState":"s"}`},
		"with neither field": {mcp.MethodCallTool, `{"name":"t"}`, `{"resultType":"input_required"}`},
		"with no question":   {mcp.MethodCallTool, `{"name":"t"}`, `{"resultType":"input_required","inputRequests":{"k":{"method":"tools/call","params":{}}}}`},
		"with no method":     {mcp.MethodCallTool, `{"name":"t"}`, `{"resultType":"input_required","inputRequests":{"k":{}}}`},
	} {
		u := &fake{name: "s", call: func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
			return said(mcp.R20260728, x[2]), nil
		}}
		for _, c := range []*mcp.Call{modern(t, x[0], x[1]), legacy(t, x[0], x[1])} {
			reply, err := relay(t.Context(), &Bridge{}, u, c, &ear{})
			if err == nil || code(err) != jsonrpc.CodeInternal {
				t.Errorf("%s, to a client of %v: %v, %v", what, c.Client.Revision, reply, err)
			}
		}
	}
}

func TestM09_QuestionsThatTheClientHasNotDeclaredAreAnError(t *testing.T) {
	u := &fake{name: "s", call: func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
		return said(mcp.R20260728, `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}},"b":{"method":"roots/list"},"c":{"method":"elicitation/create","params":{}}}}`), nil
	}}
	c := modern(t, mcp.MethodCallTool, `{"name":"t"}`)
	c.Client.Capabilities = []byte(`{"elicitation":{}}`)
	_, err := relay(t.Context(), &Bridge{}, u, c, &ear{})
	if code(err) != mcp.CodeMissingCapability || string(mcp.Wire(err).Data) != `{"requiredCapabilities":{"roots":{},"sampling":{}}}` {
		t.Errorf("got %v, %s", err, mcp.Wire(err).Data)
	}
}

// TestM08_InputRequestsOfLegacyServers checks input requests in the answer of a legacy server.
// They follow the rules for a modern server, and a client gets the server's state only in
// sealed form.
func TestM08_InputRequestsOfLegacyServers(t *testing.T) {
	const form = `{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}`
	for what, x := range map[string]struct {
		method, result string
		asked          bool // whether the client gets the input requests, with a sealed state
	}{
		"no question":                  {mcp.MethodCallTool, `{"resultType":"input_required","inputRequests":{"k":{"method":"tools/call","params":{}}},"requestState":"raw"}`, false},
		"no question, no type":         {mcp.MethodCallTool, `{"inputRequests":{"a":` + form + `,"k":{"method":"x/y"}},"requestState":"raw"}`, false},
		"one question and one of none": {mcp.MethodCallTool, `{"resultType":"input_required","inputRequests":{"a":` + form + `,"k":{"method":"x/y"}},"requestState":"raw"}`, false},
		"no method":                    {mcp.MethodGetPrompt, `{"resultType":"input_required","inputRequests":{"k":{}},"requestState":"raw"}`, false},
		"an array":                     {mcp.MethodCallTool, `{"resultType":"input_required","inputRequests":[` + form + `],"requestState":"raw"}`, false},
		"nothing":                      {mcp.MethodCallTool, `{"resultType":"input_required"}`, false},
		"on a list":                    {mcp.MethodListTools, `{"resultType":"input_required","inputRequests":{"a":` + form + `}}`, false},
		"a state alone":                {mcp.MethodCallTool, `{"resultType":"input_required","requestState":"raw"}`, true},
		"a question":                   {mcp.MethodCallTool, `{"resultType":"input_required","inputRequests":{"a":` + form + `},"requestState":"raw"}`, true},
	} {
		u := &fake{name: "s", call: func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
			return said(mcp.R20251125, x.result), nil
		}}
		reply, err := relay(t.Context(), &Bridge{}, u, modern(t, x.method, `{"name":"t"}`), &ear{})
		if !x.asked {
			if code(err) != jsonrpc.CodeInternal {
				t.Errorf("%s: %v, %v", what, reply, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		raw := string(reply.Edits.Splice(nil, reply.Msg.Raw))
		if !strings.Contains(raw, `"requestState":"`+sealedStart) || strings.Contains(raw, `"raw"`) || reply.ResultType() != mcp.ResultInputRequired {
			t.Errorf("%s: %s", what, raw)
		}
	}
}

// TestRetriesOfOneStateRunOneAtATime sends eight requests with the same state at once. One request
// runs, and the others get an error that tells them to wait. A client with another state is not
// affected. When the first request has ended, the state may be used again. The test covers clients
// whose calls can be parked and clients whose calls cannot.
func TestRetriesOfOneStateRunOneAtATime(t *testing.T) {
	for _, era := range []mcp.Revision{mcp.R20260728, mcp.R20251125} {
		for _, capabilities := range []string{`{"elicitation":{}}`, `{}`} {
			t.Run(fmt.Sprint(era, capabilities), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { retryAtOnce(t, era, capabilities) })
			})
		}
	}
}

func retryAtOnce(t *testing.T, era mcp.Revision, capabilities string) {
	u := stateful(`"s"`)
	asks := u.call
	var mu sync.Mutex
	runs := 0
	gate := make(chan struct{})
	u.call = func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
		reply, err := asks(ctx, a, k)
		if a.Msg.Param("requestState").IsZero() || err != nil {
			reply.From = era
			return reply, err
		}
		mu.Lock()
		runs++
		mu.Unlock()
		<-gate
		return said(era, `{"content":[]}`), nil
	}
	b := &Bridge{}
	defer b.Close()
	call := func(state string) error {
		c := modern(t, mcp.MethodCallTool, retry(toolCall, state))
		c.Client.Capabilities = []byte(capabilities)
		_, err := relay(t.Context(), b, u, c, &ear{})
		return err
	}
	state, other := first(t, b, u), first(t, b, u)
	const n = 8
	errs := make([]error, n+1)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { errs[i] = call(state) })
	}
	wait.Go(func() { errs[n] = call(other) })
	synctest.Wait()
	if runs != 2 {
		t.Errorf("%d calls run at once, want one for each state", runs)
	}
	close(gate)
	wait.Wait()
	good := 0
	for i, err := range errs[:n] {
		var e *mcp.Error
		switch {
		case err == nil:
			good++
		case !errors.As(err, &e) || !e.Retryable || e.Outcome != mcp.NotSent || e.Cause != "in_progress":
			t.Errorf("request %d: %v", i, err)
		}
	}
	if good != 1 || errs[n] != nil {
		t.Errorf("%d requests were answered, want one, and the other client got %v", good, errs[n])
	}
	if err := call(state); err != nil {
		t.Errorf("a retry after the first has ended: %v", err)
	}
	if len(b.retried) != 0 {
		t.Errorf("%d states are reserved while nothing runs", len(b.retried))
	}
}
