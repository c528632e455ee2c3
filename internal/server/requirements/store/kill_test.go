package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writerEnv is an environment variable with the name of a database. If it is set, the test program
// writes into this database.
const writerEnv = "DRAGOMAN_TEST_STORE_WRITER"

// kills is how often TestKill kills a writer.
const kills = 50

// TestKill kills processes while they write, and then checks that the database has each change that
// a killed process had acknowledged.
func TestKill(t *testing.T) {
	database := filepath.Join(t.TempDir(), "x.db")
	acknowledged := 0
	for round := range kills {
		said := killed(t, database, round%7+1)
		s, err := Open(t.Context(), Options{Database: database})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, line := range said {
			var id, title string
			var version int64
			if n, _ := fmt.Sscan(line, &id, &version, &title); n != 3 {
				continue // the process was killed while it wrote this line
			}
			acknowledged++
			it, err := s.Details(t.Context(), id)
			if err != nil || it.Version < version || it.Version == version && it.Title != title {
				t.Errorf("round %d: %s was acknowledged, and the database has %+v (%v)", round, line, it, err)
			}
		}
		var check string
		if err := s.db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			t.Errorf("round %d: the check says %s (%v)", round, check, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if acknowledged < kills {
		t.Errorf("only %d changes were acknowledged", acknowledged)
	}
	t.Logf("%d acknowledged changes survived %d kills", acknowledged, kills)
}

// killed starts a writer, kills it after some acknowledged changes, and returns its lines.
func killed(t *testing.T, database string, after int) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), writerEnv+"="+database)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		if lines = append(lines, scan.Text()); len(lines) == after {
			_ = c.Process.Kill() // SIGKILL; the loop still reads the lines that are in the pipe
		}
	}
	_ = c.Wait()
	if len(lines) < after {
		t.Fatalf("the writer ended early: %s", stderr.String())
	}
	return lines
}

// writeForever creates and updates items, and prints each change after the store has acknowledged
// the change.
func writeForever(database string) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Database: database})
	for i := 0; err == nil; i++ {
		var it Item
		title := fmt.Sprint("title", i)
		it, err = s.Create(ctx, Item{Kind: Requirement, Title: title, Description: strings.Repeat("x", i*100%5000)})
		if err != nil {
			break
		}
		fmt.Println(it.ID, it.Version, it.Title)
		title += "-changed"
		if it, err = s.Update(ctx, it.ID, it.Version, Update{Title: &title}); err == nil {
			fmt.Println(it.ID, it.Version, it.Title)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
