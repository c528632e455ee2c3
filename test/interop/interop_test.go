package interop

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// rows returns the clients of the table, and columns the servers. The short test uses only the
// corners of the table.
func rows() (all []row) {
	for _, sdk := range []string{"go-sdk", "mcp-go"} {
		all = append(all,
			row{sdk, modern, pipe}, row{sdk, modern, stream},
			row{sdk, legacy, pipe}, row{sdk, legacy, stream}, row{sdk, legacy, events},
			row{sdk, "2025-06-18", stream}, row{sdk, "2025-03-26", stream},
			row{sdk, "2024-11-05", pipe}, row{sdk, "2024-11-05", events}, row{sdk, "", events},
		)
	}
	return all
}

func columns() (all []column) {
	for _, sdk := range []string{"go-sdk", "mcp-go"} {
		pin := sdk == "mcp-go" // the SDK accepts any revision that it is offered
		all = append(all,
			column{sdk, modern, pipe, false}, column{sdk, modern, stream, false},
			column{sdk, onlyModern, pipe, false}, column{sdk, onlyModern, stream, false},
			column{sdk, legacy, pipe, false}, column{sdk, legacy, stream, false}, column{sdk, legacy, events, false},
			column{sdk, "2025-06-18", stream, pin}, column{sdk, "2025-03-26", stream, pin}, column{sdk, "2024-11-05", pipe, pin},
			column{sdk, "2024-11-05", events, pin}, column{sdk, both, pipe, false},
		)
	}
	return append(all, column{"mcp-go", both, stream, false})
}

func corner(r row, c column) bool {
	main := func(rev, transport string) bool {
		return (rev == modern || rev == onlyModern || rev == legacy) && transport != events
	}
	return main(r.revision, r.transport) && main(c.era, c.transport) && r.sdk != c.sdk && r.transport == c.transport
}

func TestInterop(t *testing.T) {
	wit := newWitness()
	defer wit.http.Close()
	var mu sync.Mutex
	table := make(map[row]map[column]outcome)
	t.Run("cells", func(t *testing.T) {
		for _, r := range rows() {
			table[r] = make(map[column]outcome)
			for _, c := range columns() {
				if testing.Short() && !corner(r, c) {
					continue
				}
				name := strings.ReplaceAll(r.String()+"/"+c.String(), " ", "_")
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					log := &logtest.Buffer{}
					out := take(wit, r, c, false, log)
					mu.Lock()
					table[r][c] = out
					mu.Unlock()
					bad := false
					for _, s := range out.failed() {
						if l := limitOf(r, c, s); l == nil {
							t.Errorf("%s: %v", s, out[s])
							bad = true
						}
					}
					if bad && testing.Verbose() {
						t.Logf("Dragoman says:\n%s", log.String())
					}
				})
			}
		}
	})
	proofs := prove(t, wit, table)
	t.Logf("clients (rows) and servers (columns) through Dragoman\n%s%s", draw(table), proofs)
}

// draw formats the table as text.
func draw(table map[row]map[column]outcome) string {
	var b strings.Builder
	cols := columns()
	const first, width = 26, 8
	for part := range 3 {
		fmt.Fprintf(&b, "%-*s", first, "")
		for _, c := range cols {
			text := strings.Fields(c.String())[part]
			if len(text) == 10 {
				text = text[:7] // leave out the day, which adds no information
			}
			fmt.Fprintf(&b, "%-*s", width, text)
		}
		b.WriteByte('\n')
	}
	ok, limited, failed := 0, 0, 0
	for _, r := range rows() {
		fmt.Fprintf(&b, "%-*s", first, r)
		for _, c := range cols {
			cell := "."
			if out, ran := table[r][c]; ran {
				marks, bad := "", ""
				for _, s := range out.failed() {
					if l := limitOf(r, c, s); l != nil {
						if !strings.Contains(marks, l.mark()) {
							marks += l.mark()
						}
					} else {
						bad = s
					}
				}
				switch {
				case bad != "":
					cell = "!" + bad
					failed++
				case marks != "":
					cell = "ok " + marks
					limited++
				default:
					cell = "ok"
					ok++
				}
			}
			if len(cell) >= width {
				cell = cell[:width-1]
			}
			fmt.Fprintf(&b, "%-*s", width, cell)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d cells are ok, %d but for limits of an SDK, %d fail\n", ok, limited, failed)
	return b.String()
}
