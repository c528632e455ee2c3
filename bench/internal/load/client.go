// Package load is the client side of a measurement: many MCP clients of one era
// that call the tool echo, one call in flight each, and check every answer.
//
// A Client owns one keep-alive connection and writes each request with one write
// from a buffer that is prepared once: only the id and two marks in the text are
// overwritten between calls, so that every text is unique and a cut, swapped or
// stale answer cannot pass for the right one. Answers may come sized, chunked or
// as an event stream. An answer that is not the expected one is an error, never a
// statistic. Latency is taken around the write and the read; the check is outside.
package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/jsonspan"
	"github.com/dragoman-mcp/dragoman/bench/internal/wire"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const (
	dialTimeout = 5 * time.Second
	// answerTimeout bounds one answer outside a slice, and what a slice may run over.
	answerTimeout = 10 * time.Second
	// idDigits is the width of every id: fifteen digits are exact in a double.
	idDigits = 15
	// MinSize is the shortest text that has room for both marks.
	MinSize = 2 * idDigits
	// MaxClients is how many clients can number their requests apart.
	MaxClients = 1000
)

// Client is one MCP client. Not safe for concurrent use.
type Client struct {
	addr    string
	era     words.Era
	conn    net.Conn
	reader  *wire.Reader
	answer  wire.Response
	session string

	next     uint64 // the next id
	request  []byte // of a call: head and body
	id       []byte // these four are parts of request
	text     []byte
	mark     []byte
	tailMark []byte

	taken []time.Duration // latencies of the current slice
}

// Dial connects the client with the given number, below MaxClients, to addr.
func Dial(addr string, era words.Era, number int) (*Client, error) {
	conn, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &Client{
		addr: addr, era: era, conn: conn, reader: wire.NewReader(conn),
		next: 100_000_000_000_000 + uint64(number)*100_000_000_000,
	}, nil
}

// Close ends the connection, not the session.
func (c *Client) Close() error { return c.conn.Close() }

// Open does what a client of this era must do before its first call: nothing, or
// the initialize handshake.
func (c *Client) Open() error {
	if c.era == words.Modern {
		return nil
	}
	id := c.newID()
	result, err := c.ask("POST", "", words.Initialize(id), id)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if !bytes.Contains(result, []byte(`"protocolVersion":"`+words.LegacyVersion+`"`)) {
		return fmt.Errorf("initialize: another version: %.200s", result)
	}
	c.session = string(c.answer.Session)
	if _, err := c.ask("POST", "", words.Initialized(), ""); err != nil {
		return fmt.Errorf("notifications/initialized: %w", err)
	}
	return nil
}

// Discover sends server/discover, which is what a modern client may open with.
func (c *Client) Discover() error {
	id := c.newID()
	result, err := c.ask("POST", "server/discover", words.Discover(id), id)
	if err == nil && !bytes.Contains(result, []byte(words.ModernVersion)) {
		err = fmt.Errorf("no modern version: %.200s", result)
	}
	if err != nil {
		return fmt.Errorf("server/discover: %w", err)
	}
	return nil
}

// List asks for the tools and expects to find echo.
func (c *Client) List() error {
	id := c.newID()
	result, err := c.ask("POST", "tools/list", words.List(c.era, id), id)
	if err == nil && !bytes.Contains(result, []byte(`"echo"`)) {
		err = fmt.Errorf("no tool echo: %.200s", result)
	}
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	return nil
}

// Listen opens the legacy stream for what a server says unasked, and leaves it
// open. ok is false if the server offers none.
func (c *Client) Listen() (ok bool, err error) {
	if err := c.send(c.head("GET", "", 0)); err != nil {
		return false, err
	}
	if err := c.reader.ResponseHead(&c.answer); err != nil {
		return false, err
	}
	switch {
	case c.answer.Status == 200 && c.answer.EventStream():
		return true, nil
	case c.answer.Status == 405:
		return false, nil
	}
	return false, fmt.Errorf("GET: HTTP %d", c.answer.Status)
}

// Reopen opens another session, and leaves the one there was to itself.
func (c *Client) Reopen() error {
	c.session = ""
	return c.Open()
}

// Share makes c speak in the session of other, over its own connection.
func (c *Client) Share(other *Client) { c.session = other.session }

// Leave ends the session, if there is one.
func (c *Client) Leave() error {
	if c.session == "" {
		return nil
	}
	_, err := c.ask("DELETE", "", nil, "")
	c.session = ""
	return err
}

// Prepare sets the size of the text of the calls to come, at least MinSize.
func (c *Client) Prepare(size int) {
	text := filler(size)
	body, idAt, textAt := words.Call(c.era, c.newID(), string(text))
	head := c.head("POST", "tools/call", len(body))
	c.request = append(head, body...)
	body = c.request[len(head):]
	c.id = body[idAt : idAt+idDigits]
	c.text = body[textAt : textAt+size]
	c.mark, c.tailMark = c.text[:idDigits], c.text[size-idDigits:]
}

// Call makes one prepared call, checks its answer and returns how long it took.
func (c *Client) Call() (time.Duration, error) {
	strconv.AppendUint(c.id[:0], c.next, 10) // in place: every id has the same width
	copy(c.mark, c.id)
	copy(c.tailMark, c.id)
	c.next++
	start := time.Now()
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	if err := c.reader.Response(&c.answer); err != nil {
		return 0, err
	}
	taken := time.Since(start)
	result, err := c.result(c.id)
	if err != nil {
		return 0, err
	}
	return taken, checkEcho(result, c.text, c.era)
}

// ask does one exchange and returns the result that answers id; with id empty,
// any success without content will do.
func (c *Client) ask(verb, method string, body []byte, id string) ([]byte, error) {
	if err := c.send(append(c.head(verb, method, len(body)), body...)); err != nil {
		return nil, err
	}
	if err := c.reader.Response(&c.answer); err != nil {
		return nil, err
	}
	if id == "" {
		if c.answer.Status < 200 || c.answer.Status > 299 {
			return nil, fmt.Errorf("HTTP %d %.200s", c.answer.Status, c.answer.Body)
		}
		return nil, nil
	}
	return c.result([]byte(id))
}

func (c *Client) send(b []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// result finds in the last answer the result of request id.
func (c *Client) result(id []byte) ([]byte, error) {
	a := &c.answer
	if a.Status != 200 {
		return nil, fmt.Errorf("HTTP %d %.200s", a.Status, a.Body)
	}
	if !a.EventStream() {
		return ResultOf(a.Body, id)
	}
	var result []byte
	err := errors.New("no answer on the event stream")
	found := 0
	wire.Events(a.Body, func(data []byte) {
		// Notifications may come before the answer; they have a method.
		if !IsRequest(data) {
			found++
			result, err = ResultOf(data, id)
		}
	})
	if found > 1 {
		return nil, fmt.Errorf("%d answers on one event stream", found)
	}
	return result, err
}

// head writes a request line and fields. method is empty for what has no MCP
// method to mirror.
func (c *Client) head(verb, method string, length int) []byte {
	b := make([]byte, 0, 512+length)
	b = append(b, verb...)
	b = append(b, " /mcp HTTP/1.1\r\nHost: "...)
	b = append(b, c.addr...)
	b = append(b, "\r\nUser-Agent: dragoman-bench\r\n"...)
	if verb == "GET" {
		b = append(b, "Accept: text/event-stream\r\n"...)
	} else {
		b = append(b, "Accept: application/json, text/event-stream\r\n"...)
	}
	if c.era == words.Modern {
		// 2026-07-28 §Streamable HTTP, "Request Metadata".
		b = append(b, "MCP-Protocol-Version: "+words.ModernVersion+"\r\nMcp-Method: "...)
		b = append(b, method...)
		if method == "tools/call" {
			b = append(b, "\r\nMcp-Name: echo"...)
		}
		b = append(b, "\r\n"...)
	} else if c.session != "" {
		// 2025-11-25 §Transports, "Session Management", "Protocol Version Header".
		b = append(b, "MCP-Protocol-Version: "+words.LegacyVersion+"\r\nMcp-Session-Id: "...)
		b = append(b, c.session...)
		b = append(b, "\r\n"...)
	}
	if verb == "POST" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(length), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

func (c *Client) newID() string {
	c.next++
	return strconv.FormatUint(c.next-1, 10)
}

// IsRequest says whether msg is a request or a notification, not an answer.
func IsRequest(msg []byte) bool {
	found := false
	_ = jsonspan.Members(msg, func(key, _ []byte) { found = found || string(key) == "method" })
	return found
}
