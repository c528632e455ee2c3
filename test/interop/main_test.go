package interop

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

// Environment variables for a server that runs in its own process.
const (
	envServer  = "INTEROP_SERVER"  // "sdk era"; makes this binary run as that server
	envWitness = "INTEROP_WITNESS" // the URL of the witness
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
	slog.SetDefault(slog.New(slog.DiscardHandler)) // mcp-go writes its debug output to this log
	leaktest.Main(m)
}
