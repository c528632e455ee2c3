package finder

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// Checks checks the arguments of calls against the schemas of tools. A schema is compiled when it's first needed.
// The zero value is ready to use, and safe for concurrent use.
type Checks struct {
	mu   sync.Mutex
	all  map[[sha256.Size]byte]*check
	uses uint64
}

// check is a compiled schema.
type check struct {
	used    uint64
	mu      sync.Mutex      // held while a value is checked
	checker *schema.Checker // nil if the schema can't be used
	made    bool
}

// These constants bound what is checked.
const (
	maxArguments = 64 << 10
	maxSchema    = 128 << 10
	maxChecks    = 256
	maxShown     = 8 << 10 // of a definition in the answer
	maxProblem   = 300
)

// Check returns the answer to a call whose arguments don't fit the schema of the tool, or nil. Nothing is checked if
// they're very long, or if the schema can't be used. The arguments are only looked at: the server gets the client's
// bytes.
func (c *Checks) Check(name string, definition []byte, args jsonrpc.Value) *Answer {
	input := jsonrpc.ValueOf(definition).Get("inputSchema")
	value := args.Raw()
	if args.Absent() || args.Kind() == 'n' {
		value = []byte("{}")
	}
	if input.Kind() != '{' || len(input.Raw()) > maxSchema || len(value) > maxArguments {
		return nil
	}
	problems := c.of(input.Raw()).problems(input.Raw(), value)
	if len(problems) == 0 {
		return nil
	}
	var out strings.Builder
	out.WriteString(name + " was not called, because its arguments don't fit:")
	for _, p := range problems {
		out.WriteString("\n- " + describe(p))
	}
	if len(definition) <= maxShown {
		out.WriteString("\nIts definition is:\n")
		out.Write(definition)
	} else {
		out.WriteString("\ndescribe_tools shows its definition.")
	}
	return &Answer{out.String(), true}
}

// describe returns a problem as a clause that begins with the path of the value.
func describe(p schema.Problem) string {
	at := "arguments"
	for _, x := range p.Path {
		if _, err := strconv.Atoi(x); err == nil {
			at += "[" + x + "]"
		} else {
			at += "." + excerpt.Word(x, maxRepeated)
		}
	}
	switch p.Kind {
	case schema.Missing, schema.Unknown:
		at += "." + excerpt.Word(p.Name, maxRepeated)
	}
	return at + " " + excerpt.Line(p.Text, maxProblem)
}

// of returns the check of a schema. The one that was unused for the longest time makes room.
func (c *Checks) of(input []byte) *check {
	key := sha256.Sum256(input)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	x := c.all[key]
	if x == nil {
		if c.all == nil {
			c.all = make(map[[sha256.Size]byte]*check)
		}
		if len(c.all) >= maxChecks {
			oldest := key
			for k, y := range c.all {
				if o := c.all[oldest]; o == nil || y.used < o.used {
					oldest = k
				}
			}
			delete(c.all, oldest)
		}
		x = &check{}
		c.all[key] = x
	}
	x.used = c.uses
	return x
}

// problems compiles the schema if that is still to be done, and checks a value.
func (x *check) problems(input, value []byte) []schema.Problem {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.made {
		x.checker, _ = schema.Compile(input)
		x.made = true
	}
	if x.checker == nil {
		return nil
	}
	problems, err := x.checker.Check(value)
	if err != nil {
		return nil
	}
	return problems
}
