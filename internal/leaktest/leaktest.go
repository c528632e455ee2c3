// Package leaktest ends a test binary with an error when something outlives the
// tests: a goroutine, a child process or an open file descriptor. A package uses
// it by
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// Goroutines are found by goleak everywhere; processes and descriptors are found
// through /proc, hence on Linux only. Orphans count: on Linux the test binary
// adopts the descendants whose parents died, so that a grandchild which was left
// behind is seen. A process that a test left behind is killed before the report,
// and what is on its way out is waited for; a test binary that has failed anyway
// is not checked.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// settle is how long Main waits for what is just going away. It is long, because
// only a leak pays for it.
var settle = 5 * time.Second

// ignored are the goroutines that may outlive the tests, each with its reason.
// goleak itself leaves out those of testing, of the execution tracer and of
// os/signal, which the runtime never ends. Nothing else has needed an exception
// yet.
var ignored []goleak.Option

// Main runs the tests, looks for leaks if they passed, and exits. It does not
// return.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for those who have to clean up something themselves: it returns
// the exit code.
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

// await calls find until it finds nothing or the time is over, and returns what
// it found last.
func await(find func() []string) []string {
	for end := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
		found := find()
		if len(found) == 0 || time.Now().After(end) {
			return found
		}
		runtime.GC() // a file that nobody refers to any more closes itself
	}
}

// opened names the descriptors of after that before does not have.
func opened(before, after map[int]string) []string {
	var found []string
	for fd, what := range after {
		if before[fd] != what {
			found = append(found, fmt.Sprintf("descriptor left open: %d is %s", fd, what))
		}
	}
	return found
}
