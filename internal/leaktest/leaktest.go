// Package leaktest makes a test binary fail if something outlives its tests: a goroutine, a
// child process or an open file descriptor. A package uses it with
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// Goroutines are found with goleak on all systems. Processes and descriptors are found
// through /proc, so on Linux only. There the test binary also adopts descendants whose
// parents have exited, so that orphaned grandchildren are found. Leaked processes are
// killed before the report. leaktest waits for what is about to end. It does not check a
// test binary that has already failed.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// settle is how long Main waits for what is about to end. It is long, because only a leak
// makes it wait.
var settle = 5 * time.Second

// ignored lists goroutines that may outlive the tests, with reasons. goleak already ignores
// those of testing, the execution tracer and os/signal, which the runtime never ends. No
// other exception has been needed.
var ignored []goleak.Option

// Main runs the tests, looks for leaks if they passed, and exits. It does not
// return.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for packages with their own cleanup. It returns the exit code.
func Run(m *testing.M) int {
	adoptOrphans()
	before := descriptors()
	code := m.Run()
	if code != 0 {
		return code
	}
	leaks := await(func() []string {
		var found []string
		if err := goleak.Find(ignored...); err != nil {
			found = append(found, err.Error())
		}
		for _, p := range processes() {
			found = append(found, "process left behind: "+p.String())
		}
		return append(found, opened(before, descriptors())...)
	})
	for _, p := range processes() {
		p.kill()
	}
	for _, l := range leaks {
		fmt.Fprintf(os.Stderr, "leaktest: %s\n", l)
	}
	if len(leaks) > 0 {
		return 1
	}
	return 0
}

// await calls find until it finds nothing or the time is up, and returns its last result.
func await(find func() []string) []string {
	for end := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
		found := find()
		if len(found) == 0 || time.Now().After(end) {
			return found
		}
		runtime.GC() // closes files that are no longer referenced
	}
}

// opened returns the descriptors that are in after but not in before.
func opened(before, after map[int]string) []string {
	var found []string
	for fd, what := range after {
		if before[fd] != what {
			found = append(found, fmt.Sprintf("descriptor left open: %d is %s", fd, what))
		}
	}
	return found
}
