package console

import (
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // pages show times in the time zone of the machine
	leaktest.Main(m)
}
