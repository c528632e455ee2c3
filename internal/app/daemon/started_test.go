//go:build unix

package daemon

import (
	"strconv"
	"testing"
	"time"
)

// TestStarted checks that Serve calls Started once, when each server either is ready and its tools
// are known, or has failed.
func TestStarted(t *testing.T) {
	t.Parallel()
	started := make(chan Start, 2)
	r := serve(t, snapshot(child(t, "old", "legacy"), child(t, "young", "modern"), leakingServer(t)), func(o *ServeOptions) {
		o.Started, o.startWait = func(s Start) { started <- s }, time.Hour
	})
	s := <-started
	if s.Began.IsZero() || len(s.Report.Servers) != 3 {
		t.Fatalf("%+v", s)
	}
	got := ""
	for _, x := range s.Report.Servers {
		got += x.Name + " " + x.State
		for _, l := range x.Lists {
			if l.Method == "tools/list" && x.State == "ready" {
				got += " " + strconv.Itoa(l.Items)
			}
		}
		got += "; "
	}
	if got != "old ready 6; young ready 6; leaky failed; " {
		t.Errorf("after the start: %s", got)
	}
	if err := r.stop(); err != nil || len(started) != 0 {
		t.Errorf("%v, and %d more reports", err, len(started))
	}
}

// TestStartedLate checks servers that take longer than startWait. Started then gets the state
// "starting". Calls to other servers do not wait for Started. If Serve ends first, it does not call
// Started.
func TestStartedLate(t *testing.T) {
	t.Parallel()
	started := make(chan Start, 2)
	serve(t, snapshot(child(t, "slow", "mute")), func(o *ServeOptions) {
		o.Started, o.startWait = func(s Start) { started <- s }, time.Millisecond
	})
	if s := <-started; s.Report.Servers[0].State != "starting" && s.Report.Servers[0].State != "idle" { // "idle" if Dragoman has not begun to start the server
		t.Errorf("after the wait: %+v", s.Report.Servers[0])
	}
	r := serve(t, snapshot(child(t, "slow", "mute"), child(t, "fast", "legacy")), func(o *ServeOptions) {
		o.Started, o.startWait = func(s Start) { started <- s }, time.Hour
	})
	r.call("/s/fast/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
	if err := r.stop(); err != nil || len(started) != 0 {
		t.Errorf("%v, and %d reports", err, len(started))
	}
}
