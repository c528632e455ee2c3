//go:build unix

package daemon

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// crowdServer is a server for many clients at the same time. To be fast enough for a million calls,
// it has one goroutine and flushes its output only when no input is buffered. The argument "mark"
// of a call is repeated in every message about the call. Calls that arrive together are answered in
// random order.
//
// The argument "do" changes a call. With "late" or "never", the call runs until the client cancels
// it. The server then behaves as if the cancellation had arrived late: it sends a log line and a
// progress notification, and with "late" also an answer. With "count", the answer is the number of
// log lines so far.
type crowdServer struct {
	modern bool
	in     *bufio.Reader
	out    *bufio.Writer
	held   []crowdCall
	hung   map[string]crowdCall // the calls that run until they are cancelled, by id
	logged int
}

type crowdCall struct{ id, token, mark, do string }

func runAsCrowdServer(modern bool) {
	journal := &fakeServer{}
	journal.note("start %d", os.Getpid())
	s := &crowdServer{modern: modern, in: bufio.NewReaderSize(os.Stdin, 1<<16), out: bufio.NewWriterSize(os.Stdout, 1<<16), hung: map[string]crowdCall{}}
	for {
		for len(s.held) > 32 || len(s.held) > 0 && s.in.Buffered() == 0 {
			s.release(rand.IntN(len(s.held)))
		}
		if s.in.Buffered() == 0 {
			_ = s.out.Flush()
		}
		line, err := s.in.ReadBytes('\n')
		if err != nil {
			return
		}
		if m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1}); err == nil {
			s.take(m)
		}
	}
}

func (s *crowdServer) take(m *jsonrpc.Message) {
	switch m.Method {
	case mcp.MethodDiscover:
		if s.modern {
			s.result(string(m.ID), `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"crowd","version":"1"}`)
			return
		}
	case mcp.MethodInitialize:
		if !s.modern {
			s.result(string(m.ID), `"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"crowd","version":"1"}`)
			return
		}
	case mcp.MethodListTools:
		s.result(string(m.ID), `"tools":[{"name":"say","inputSchema":{"type":"object"}}]`)
		return
	case mcp.MethodPing, mcp.MethodSetLevel:
		s.result(string(m.ID), "")
		return
	case mcp.MethodCallTool:
		args := m.Param("arguments")
		c := crowdCall{id: string(m.ID), token: string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))}
		c.mark, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, args, "mark"))
		c.do, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, args, "do"))
		if c.do == "count" {
			s.answer(c, strconv.Itoa(s.logged))
			return
		}
		s.progress(c, 1)
		if c.do == "" {
			s.held = append(s.held, c)
		} else {
			s.hung[c.id] = c
		}
		return
	case mcp.NoteCancelled:
		id := string(m.Param("requestId").Of(m.Raw))
		if c, ok := s.hung[id]; ok {
			delete(s.hung, id)
			s.log(c)
			s.progress(c, 2)
			if c.do == "late" {
				s.answer(c, c.mark)
			}
		}
		return
	}
	if m.Kind == jsonrpc.Request {
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", m.ID)
	}
}

func (s *crowdServer) release(i int) {
	c := s.held[i]
	s.held[i] = s.held[len(s.held)-1]
	s.held = s.held[:len(s.held)-1]
	s.log(c)
	s.answer(c, c.mark)
}

func (s *crowdServer) progress(c crowdCall, n int) {
	fmt.Fprintf(s.out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`+"\n", c.token, n, c.mark)
}

func (s *crowdServer) log(c crowdCall) {
	s.logged++
	fmt.Fprintf(s.out, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":%q}}`+"\n", c.mark)
}

func (s *crowdServer) answer(c crowdCall, text string) {
	s.result(c.id, fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, text))
}

func (s *crowdServer) result(id, members string) {
	if s.modern {
		if members != "" {
			members = "," + members
		}
		members = `"resultType":"complete"` + members
	}
	fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`+"\n", id, members)
}
