package leaktest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain is part of the test. TestFinds starts this test binary again, and Main must then find
// the leak of TestLeaves.
func TestMain(m *testing.M) {
	if os.Getenv("LEAKTEST_SLEEP") != "" {
		time.Sleep(time.Minute)
		return
	}
	if os.Getenv("LEAKTEST_LEAVE") != "" {
		settle = 100 * time.Millisecond
	}
	Main(m)
}

func TestFinds(t *testing.T) {
	for _, leak := range []struct{ name, want string }{
		{"nothing", ""},
		{"goroutine", "found unexpected goroutines"},
		{"file", "descriptor left open"},
		{"process", "process left behind"},
	} {
		t.Run(leak.name, func(t *testing.T) {
			t.Parallel()
			if leak.name != "goroutine" && descriptors() == nil {
				t.Skip("processes and descriptors are checked only on Linux")
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestLeaves$", "-test.count=1")
			cmd.Env = append(os.Environ(), "LEAKTEST_LEAVE="+leak.name)
			out, err := cmd.CombinedOutput()
			if leak.want == "" {
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), leak.want) {
				t.Fatalf("%v, want a report of %q:\n%s", err, leak.want, out)
			}
		})
	}
}

var kept *os.File

// TestLeaves leaks the resource that the environment variable names.
func TestLeaves(t *testing.T) {
	switch os.Getenv("LEAKTEST_LEAVE") {
	case "goroutine":
		go func() { select {} }()
	case "file":
		f, err := os.Open(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		kept = f
	case "process":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LEAKTEST_SLEEP=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
