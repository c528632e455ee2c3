package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestAskingIsUnpacked checks that the content of a state survives, and that no damaged content makes
// unpackAsking fail otherwise than by saying so.
func TestAskingIsUnpacked(t *testing.T) {
	q := Asking{Passed: 300, Answers: []mcp.Answered{
		{Step: "a", State: []byte{0, 1, 255}, Result: []byte(`{"action":"accept"}`)},
		{Step: "b", State: bytes.Repeat([]byte("x"), 1000), Result: []byte{}},
	}}
	b := packAsking("tool", q)
	name, got, ok := unpackAsking(b)
	if name != "tool" || !ok || !reflect.DeepEqual(got, q) {
		t.Errorf("got %q %+v %t", name, got, ok)
	}
	for n := range b {
		if name, got, ok := unpackAsking(b[:n]); ok && len(got.Answers) == 2 {
			t.Errorf("%d bytes are %q %+v", n, name, got)
		}
		bad := bytes.Clone(b)
		bad[n] = 255
		unpackAsking(bad)
	}
}

// TestSpentStates checks that a state is used once, again after it was given back, and that states are
// forgotten after they have expired. A client that answers too many questions does not keep another
// client from answering its own.
func TestSpentStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, u := &Bridge{}, &fake{name: "a"}
		state := func(n int) Resume {
			res := Resume{kind: 'A', once: true}
			copy(res.id[:], fmt.Sprint(n))
			return res
		}
		if err := b.spend("ada", u, state(0)); err != nil {
			t.Fatal(err)
		}
		if err := b.spend("ada", u, state(0)); !errors.Is(err, error(errSpent)) {
			t.Errorf("a second use got %v", err)
		}
		for range 3 {
			b.Unused(state(0))
			if err := b.spend("ada", u, state(0)); err != nil {
				t.Errorf("a state that was given back got %v", err)
			}
		}
		n := 1
		for b.spend("ada", u, state(n)) == nil {
			n++
		}
		if n != maxSpent/2 {
			t.Errorf("one client could use %d states", n)
		}
		if err := b.spend("bob", u, state(-1)); err != nil {
			t.Errorf("another client got %v", err)
		}
		time.Sleep(stateTTL + time.Second)
		if err := b.spend("ada", u, state(n)); err != nil {
			t.Errorf("after ten minutes, the client got %v", err)
		}
		if len(b.spent.used) != 1 || len(b.spent.order) != 1 || b.spent.places.All() != 1 {
			t.Errorf("%d states are kept", len(b.spent.used))
		}
	})
}

// TestAskExpires checks that a question of Dragoman's own can be answered for ten minutes, and only for
// the item that the name led to when the person was asked.
func TestAskExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, u := &Bridge{}, &fake{name: "a"}
		const params = `{"name":"x","arguments":{}`
		a := mcp.NewAttempt(request26(t, "alice", mcp.MethodCallTool, params+`}`))
		_, reply, err := b.Ask(t.Context(), u, a, Asking{Question: &mcp.Question{Message: "?"}, Answers: []mcp.Answered{{Step: "confirm"}}}, mcp.NoCaller{})
		if err != nil {
			t.Fatal(err)
		}
		state := string(reply.Msg.ResultMember("requestState").Of(reply.Msg.Raw))
		again := mcp.NewAttempt(request26(t, "alice", mcp.MethodCallTool, params+`,"requestState":`+state+`,"inputResponses":{"user_confirm":{"action":"accept"}}}`))
		res, err := b.Open(u, again.Call)
		if err != nil || !res.Agreed() {
			t.Fatal(res, err)
		}
		again.Name = "another"
		if _, err := b.Answers(u, again, res); !errors.Is(err, error(errState)) {
			t.Errorf("another item got %v", err)
		}
		again.Name = "x"
		if q, err := b.Answers(u, again, res); err != nil || q.Answers[0].Action() != "accept" {
			t.Errorf("got %v %v", q, err)
		}
		time.Sleep(stateTTL + 2*time.Second)
		if _, err := b.Open(u, again.Call); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("after ten minutes, the client got %v", err)
		}
	})
}
