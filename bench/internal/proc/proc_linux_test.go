package proc

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOwnFigures(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		_ = strings.Repeat("x", 10_000)
	}
	if after, err := CPU(os.Getpid()); err != nil || after <= before {
		t.Errorf("CPU: %v, %v, %v", before, after, err)
	}
	if all, own, err := Resident(os.Getpid()); err != nil || own < 256<<10 || own >= all || all > 1<<33 {
		t.Errorf("Resident: %d, %d, %v", all, own, err)
	}
	if n, err := Busy(); err != nil || n <= 0 {
		t.Errorf("Busy: %v, %v", n, err)
	}
	if _, err := CPU(1 << 22); err == nil {
		t.Error("CPU of a process that does not exist succeeded")
	}
}

func TestStartStop(t *testing.T) {
	p, err := Start(nil, "/bin/sh", "-c", "echo said >&2; cat; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	// The shell is a child of this process.
	if all, err := Descendants(os.Getpid()); err != nil || !slices.Contains(all, p.PID()) {
		t.Errorf("Descendants: %v, %v", all, err)
	}
	for range 2000 { // wait for the output, because a shell that stops earlier prints nothing
		if p.said.String() != "" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.Stop()
	p.Stop()
	if err := p.Explain(errors.New("gone")); err.Error() != "gone; its stderr: said" {
		t.Error(err)
	}
	if _, err := CPU(p.PID()); err == nil {
		t.Error("the process is still running after Stop")
	}
}

func TestEnds(t *testing.T) {
	var e ends
	_, _ = e.Write([]byte("first "))
	if e.String() != "first " {
		t.Errorf("%q", e.String())
	}
	for range 5 {
		_, _ = e.Write([]byte(strings.Repeat("a", keepSize-1) + "b"))
	}
	if got := e.String(); len(got) != 2*keepSize+len(" [...] ") || !strings.HasPrefix(got, "first a") || !strings.HasSuffix(got, "ab") {
		t.Errorf("%d bytes, %.10q to %q", len(got), got, got[len(got)-10:])
	}
}
