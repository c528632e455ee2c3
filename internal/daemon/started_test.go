//go:build unix

package daemon

import (
	"strconv"
	"testing"
	"time"
)

// TestStarted checks that the state after the start is reported once, when every server is
// ready with its tools, or has failed.
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

// TestStartedLate checks that Dragoman reports a slow server as starting, and that calls of
// other servers do not wait for the report. If Serve ends first, there is no report.
func TestStartedLate(t *testing.T) {
	t.Parallel()
	started := make(chan Start, 2)
	serve(t, snapshot(child(t, "slow", "mute")), func(o *ServeOptions) {
		o.Started, o.startWait = func(s Start) { started <- s }, time.Millisecond
	})
	if s := <-started; s.Report.Servers[0].State != "starting" && s.Report.Servers[0].State != "idle" { // the server has not even begun to start
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
