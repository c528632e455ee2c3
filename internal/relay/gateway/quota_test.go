package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

func TestParty(t *testing.T) {
	for want, f := range map[string]mcp.ClientInfo{
		"principal anna":          {Who: identity.Named("anna"), Conversation: 3, Remote: "10.0.0.1", Info: []byte(`{"name":"c"}`)},
		"conversation 3":          {Conversation: 3, Remote: "10.0.0.1", Info: []byte(`{"name":"c"}`)},
		"remote 10.0.0.1 c":       {Remote: "10.0.0.1", Info: []byte(`{"name":"c","version":"1"}`)},
		"remote 10.0.0.1":         {Remote: "10.0.0.1", Info: []byte(`{"name":7}`)},
		"remote 10.0.0.1 \\u{1b}": {Remote: "10.0.0.1", Info: []byte(`{"name":"\u001b"}`)},
	} {
		if got := f.Party(); got != want && !strings.Contains(want, "u{1b}") || strings.ContainsRune(got, 0x1b) {
			t.Errorf("the party of %+v is %q, want %q", f, got, want)
		}
	}
	long := mcp.ClientInfo{Info: []byte(`{"name":"` + strings.Repeat("x", 10_000) + `"}`)}
	if got := long.Party(); len(got) > 300 {
		t.Errorf("a name of 10000 bytes makes a party of %d bytes", len(got))
	}
}

// TestAttendedTasksOfOneClientThrowOutNobodyElses checks that the attended tasks of one client
// do not displace the tasks of other clients.
func TestAttendedTasksOfOneClientThrowOutNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTaskServer(t)
		g := &Single{Bridge: &bridge.Bridge{}, Upstream: x}
		defer g.Bridge.Close()
		poll := func(who uint64, n int) error {
			c := taskCall(t, "", "tasks/get", fmt.Sprintf(`{"taskId":%q}`, taskIDFor(g.Bridge, "one", mcp.TaskRef{Session: uint64(n), ID: "t1"})))
			c.Client.Conversation = who
			_, err := g.Call(t.Context(), c, &recordingCaller{})
			return err
		}
		if err := poll(2, 0); err != nil {
			t.Fatal(err)
		}
		n := 1
		for ; n < 2*maxAttended; n++ {
			if err := poll(1, n); err != nil {
				var e *mcp.Error
				if !errors.As(err, &e) || !e.Retryable || !strings.Contains(e.Message, "tasks of this client") {
					t.Errorf("refused with the error %v", err)
				}
				break
			}
		}
		if n < maxAttended/2-1 || n > maxAttended/2+1 {
			t.Errorf("one client has %d attended tasks of %d in total", n, maxAttended)
		}
		for _, err := range []error{poll(2, 0), poll(2, n+1), poll(3, n+2), poll(1, 1)} {
			if err != nil {
				t.Errorf("a task of another client: %v", err)
			}
		}
		time.Sleep(stateTTL + time.Second)
		synctest.Wait()
		if g.Bridge.Attended() != 0 {
			t.Errorf("%d tasks are still attended", g.Bridge.Attended())
		}
	})
}

// TestListensOfOneMachine checks the listens of unauthenticated clients on one machine. Each
// client has its own share, and one client cannot take the share of another. All these clients
// together have a bound, whatever names they choose.
func TestListensOfOneMachine(t *testing.T) {
	var s ListenQuota
	of := func(machine, name string) *mcp.ClientInfo {
		return &mcp.ClientInfo{Remote: machine, Info: []byte(`{"name":"` + name + `"}`)}
	}
	fill := func(f *mcp.ClientInfo) (n int) {
		for s.take(f) {
			n++
		}
		return n
	}
	if n := fill(of("127.0.0.1", "a")); n != maxListens {
		t.Errorf("one client has %d listens", n)
	}
	if n := fill(of("127.0.0.1", "b")); n != maxListens {
		t.Errorf("another client has %d listens", n)
	}
	all := 2 * maxListens
	for i := range 1000 {
		all += fill(of("127.0.0.1", fmt.Sprint(i)))
	}
	if all > maxListensOfMachine {
		t.Errorf("one machine has %d listens", all)
	}
	if n := fill(of("127.0.0.2", "a")); n != maxListens {
		t.Errorf("a client of another machine has %d listens", n)
	}
	for who, n := range s.ByParty() {
		machine, name, _ := strings.Cut(strings.TrimPrefix(who, "remote "), " ")
		for range n {
			s.giveBack(of(machine, name))
		}
	}
	if len(s.taken) != 0 || len(s.machines) != 0 {
		t.Errorf("listens are left over: %v of %v", s.taken, s.machines)
	}
}

// TestListensAreKeptForKnownClients checks that a program that changes its name cannot lock out a
// client of the same address that was there before.
func TestListensAreKeptForKnownClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s ListenQuota
		of := func(name string) *mcp.ClientInfo {
			return &mcp.ClientInfo{Remote: "127.0.0.1", Info: []byte(`{"name":"` + name + `"}`)}
		}
		innocent := of("innocent")
		s.take(innocent)
		time.Sleep(2 * knownAfter)
		s.giveBack(innocent)
		all := 0
		for i := range 1000 {
			for s.take(of(fmt.Sprint(i))) {
				all++
			}
		}
		if all != maxListensOfMachine-1 {
			t.Errorf("the other program has %d listens", all)
		}
		if !s.take(innocent) {
			t.Error("the client that was there before is refused")
		}
		if s.take(innocent) {
			t.Error("more places are taken than there are")
		}
		s.giveBack(innocent)
		time.Sleep(time.Hour)
		if !s.take(innocent) {
			t.Error("the client is refused when it comes back")
		}
	})
}
