//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const same = "the same"

// binsOf returns the names of the commands that a package.json declares.
func binsOf(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p struct {
		Name string
		Bin  json.RawMessage
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	var many map[string]string
	if json.Unmarshal(p.Bin, &many) != nil {
		return []string{p.Name[strings.LastIndexByte(p.Name, '/')+1:]}, nil
	}
	var out []string
	for name := range many {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// compare asks the server for its tools directly and through Dragoman in both eras. fault says
// whether the state is a fault of ours.
func (s *server) compare(ctx context.Context, program string) (state string, fault bool) {
	direct, err := s.ask(ctx, legacy, s.bin, s.args...)
	if err != nil {
		return "does not work directly: " + err.Error(), false
	}
	s.tools = len(direct)
	// A few servers list something else each time. We can't compare those.
	if again, err := s.ask(ctx, legacy, s.bin, s.args...); err != nil || !slices.Equal(direct, again) {
		return "its own list differs from one start to the next", false
	}
	for _, era := range []era{legacy, modern} {
		got, err := s.ask(ctx, era, program, append([]string{"run", "--", s.bin}, s.args...)...)
		if err != nil {
			return fmt.Sprintf("%s client: %v", era, err), true
		}
		if !slices.Equal(got, direct) {
			return fmt.Sprintf("%s client: %s", era, difference(direct, got)), true
		}
	}
	return same, false
}

func difference(want, got []string) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d tools instead of %d", len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Sprintf("tool %d differs\nwant %s\ngot  %s", i, want[i], got[i])
		}
	}
	return ""
}

type era string

const (
	legacy era = "legacy"
	modern era = "modern"
)

// ask starts a command in a process group of its own, and returns the bytes of each tool that it
// lists to a client of the era.
func (s *server) ask(ctx context.Context, as era, name string, args ...string) (tools []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = s.environ()
	cmd.Dir = s.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	var stderr tail
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &client{as: as, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	tools, err = c.tools()
	_ = in.Close()
	if err != nil || name == s.bin {
		cancel() // some servers stay when their stdin ends
	}
	_ = cmd.Wait()
	if err != nil {
		return nil, fmt.Errorf("%w; stderr: %.300q", err, stderr.b)
	}
	return tools, nil
}

// environ is the environment of a server: enough to find programs, and nothing that belongs to the
// person who runs the sweep.
func (s *server) environ() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "TMPDIR=" + s.home}, s.env...)
}

// tail keeps the last 2,000 bytes that are written to it.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-2000):]
	return len(b), nil
}

// client is as small as a client can be: it waits for each answer before it goes on.
type client struct {
	as  era
	in  io.Writer
	out *bufio.Reader
	id  int
}

const (
	about = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"sweep","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"sweep","version":"1"}}`
)

// tools returns the bytes of the tools of all pages.
func (c *client) tools() (all []string, err error) {
	if c.as == legacy {
		if _, err := c.call("initialize", hello); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
			return nil, err
		}
	} else if _, err := c.call("server/discover", c.params("")); err != nil {
		return nil, err
	}
	cursor := ""
	for range 100 {
		result, err := c.call("tools/list", c.params(cursor))
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			all = append(all, string(t))
		}
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
	return nil, errors.New("more than 100 pages of tools")
}

func (c *client) params(cursor string) string {
	var members []string
	if cursor != "" {
		quoted, _ := json.Marshal(cursor)
		members = append(members, `"cursor":`+string(quoted))
	}
	if c.as == modern {
		members = append(members, `"_meta":{`+about+`}`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// call sends a request and waits for its answer. It refuses what the server asks in between.
func (c *client) call(method, params string) (result json.RawMessage, err error) {
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil || len(m.ID) == 0 {
			continue // text, a notification
		}
		if m.Method != "" {
			fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not here"}}`+"\n", m.ID)
			continue
		}
		if !bytes.Equal(m.ID, fmt.Append(nil, c.id)) {
			continue
		}
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %.300s", method, m.Error)
		}
		return m.Result, nil
	}
}
