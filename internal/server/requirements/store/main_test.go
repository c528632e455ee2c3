package store

import (
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	if database := os.Getenv(writerEnv); database != "" {
		writeForever(database)
	}
	leaktest.Main(m)
}
