package interop

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/leaktest"
)

// The environment of a server that runs in a process of its own.
const (
	envServer  = "INTEROP_SERVER"  // "sdk era"; makes this binary that server
	envWitness = "INTEROP_WITNESS" // URL of the witness
)

func TestMain(m *testing.M) {
	if which := os.Getenv(envServer); which != "" {
		var sdk, era string
		if _, err := fmt.Sscan(which, &sdk, &era); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			os.Exit(2)
		}
		if err := sdks[sdk].serveStdio(era, remoteWitness{os.Getenv(envWitness)}); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			os.Exit(1)
		}
		return
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // where mcp-go thinks aloud
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("4") // cells wait for processes more than they compute
	}
	leaktest.Main(m)
}
