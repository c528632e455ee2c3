package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
)

// TestPins trusts, approves and rejects definitions. What another process has seen first stays, only decisions are
// acts, and with a project its pins go. Another project keeps its own.
func TestPins(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s, other := open(t, o), open(t, o)
		echo := pins.ID{Server: "notes", Kind: "tool", Name: "echo"}
		pin := func(text string, state pins.State) pins.Pin {
			return pins.Pin{ID: echo, Sum: pins.SumOf([]byte(text)), State: state, Definition: []byte(text)}
		}
		show := func(s *Snapshot) string {
			var all []string
			for _, project := range []string{"default", "shop"} {
				for _, p := range s.Pins(project) {
					all = append(all, fmt.Sprint(project, " ", p.Name, " ", p.Sum.String()[:4], " ", p.State, " by ", p.Actor, " ", len(p.Definition)))
				}
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		one, two, three := pin(`1`, pins.Trusted), pin(`2`, pins.Approved), pin(`3`, pins.Rejected)
		first := func(s *Store, project string, p pins.Pin) {
			t.Helper()
			if err := s.Write(t.Context(), "dragoman", func(t *Tx) error { return t.TrustPins(project, []pins.Pin{p}) }); err != nil {
				t.Fatal(err)
			}
		}
		first(s, "default", one)
		first(other, "default", pin(`9`, pins.Trusted))
		first(s, "shop", pin(`9`, pins.Trusted))
		for _, p := range []pins.Pin{two, three} {
			if err := s.Write(t.Context(), "bob", func(t *Tx) error { return t.DecidePin("default", p) }); err != nil {
				t.Fatal(err)
			}
		}
		want := "default echo 4e07 rejected by bob 0, default echo 6b86 trusted by dragoman 0, default echo d473 approved by bob 0, shop echo 19bf? trusted"
		want = strings.Replace(want, "shop echo 19bf? trusted", "shop echo "+pins.SumOf([]byte(`9`)).String()[:4]+" trusted by dragoman 0", 1)
		if got := show(s.Snapshot()); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if err := other.Refresh(t.Context()); err != nil || show(other.Snapshot()) != want {
			t.Errorf("another store has %s: %v", show(other.Snapshot()), err)
		}
		all, err := s.PinsOf(t.Context(), "default", echo)
		if err != nil || len(all) != 3 || string(all[0].Definition)+string(all[1].Definition)+string(all[2].Definition) == "" {
			t.Errorf("%v, %v", all, err)
		}
		var acts []string
		for _, a := range actsOf(t, s) {
			acts = append(acts, a[:strings.Index(a, "@")+1])
		}
		if got := strings.Join(acts, ", "); got != "bob rejected pin:default/notes/tool:echo@, bob approved pin:default/notes/tool:echo@" {
			t.Errorf("the acts are %q", got)
		}
		three.State = pins.Approved // the rejection is taken back
		err = s.Write(t.Context(), "bob", func(t *Tx) error { return t.DecidePin("default", three) })
		if last, actErr := s.Acts(t.Context(), 0, 1); err != nil || actErr != nil || string(last[0].Was) != `{"state":"rejected"}` || string(last[0].Became) != `{"state":"approved"}` {
			t.Errorf("the act is %+v: %v, %v", last, err, actErr)
		}
		if err := s.Write(t.Context(), "bob", func(t *Tx) error { _, err := t.endAllOf("default"); return err }); err != nil {
			t.Fatal(err)
		}
		if got := show(s.Snapshot()); !strings.HasPrefix(got, "shop echo ") || strings.Contains(got, "default") {
			t.Errorf("after the end of a project: %s", got)
		}
	})
}

// TestPinsOfABusyServer bounds what is kept of one server, in both databases: its decisions about one definition, and
// the definitions. What was seen first stays, and another server loses nothing.
func TestPinsOfABusyServer(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		clock := pins.ID{Server: "busy", Kind: "tool", Name: "clock"}
		const big = 1 << 20
		write := func(change func(t *Tx) error) {
			t.Helper()
			if err := s.Write(t.Context(), "bob", change); err != nil {
				t.Fatal(err)
			}
		}
		write(func(x *Tx) error {
			all := []pins.Pin{{ID: clock, Sum: pins.SumOf(nil), State: pins.Trusted, Definition: []byte("0")}}
			for i := range 2 * pins.MaxDefinitions / big {
				id := pins.ID{Server: "busy", Kind: "tool", Name: fmt.Sprint(i)}
				all = append(all, pins.Pin{ID: id, Sum: pins.SumOf(nil), State: pins.Trusted, Definition: make([]byte, big)})
			}
			id := pins.ID{Server: "notes", Kind: "tool", Name: "search"}
			return x.TrustPins("default", append(all, pins.Pin{ID: id, Sum: pins.SumOf(nil), State: pins.Trusted, Definition: make([]byte, big)}))
		})
		const decided = pins.MaxDecided + 5
		for i := range decided {
			write(func(x *Tx) error {
				return x.DecidePin("default", pins.Pin{ID: clock, Sum: pins.SumOf(fmt.Append(nil, i)), State: pins.Approved, Definition: make([]byte, 100)})
			})
		}
		all, err := s.PinsOf(t.Context(), "default", clock)
		if err != nil || len(all) != 1+pins.MaxDecided || all[0].State != pins.Trusted || all[len(all)-1].Sum != pins.SumOf(fmt.Append(nil, decided-1)) {
			t.Errorf("%d pins of the clock, %v", len(all), err)
		}
		bytes := map[string]int{}
		for _, p := range s.Snapshot().Pins("default") {
			kept, err := s.PinsOf(t.Context(), "default", p.ID)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != "clock" {
				bytes[p.Server] += len(kept[0].Definition)
			}
		}
		if bytes["busy"] >= pins.MaxDefinitions || bytes["busy"] < pins.MaxDefinitions-2*big || bytes["notes"] != big {
			t.Errorf("%v bytes of definitions are kept", bytes)
		}
	})
}
