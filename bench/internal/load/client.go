// Package load is the client side of a measurement: many MCP clients of one era call the tool
// echo, each with one call in flight, and check every answer.
//
// A Client has one keep-alive connection. It writes each request with a single write, from a
// buffer that is prepared once. Between calls it overwrites only the id of the request, which is
// also at the beginning and at the end of the text. So every text is unique, and the Client detects
// a truncated, swapped or stale answer. The body of an answer may have a Content-Length, be chunked,
// or be an event stream. A wrong answer is an error. The latency of a call includes the time to
// write the request and to read the answer, but not the time to check the answer.
package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/jsonspan"
	"github.com/dragoman-mcp/dragoman/bench/internal/wire"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const (
	dialTimeout = 5 * time.Second
	// answerTimeout limits the wait for one answer while no slice is being measured. At the end
	// of a slice, it limits the wait for the calls that are still running.
	answerTimeout = 10 * time.Second
	// idDigits is the number of digits in every id. A float64 represents fifteen digits exactly.
	idDigits = 15
	// MinSize is the minimum length of a text, which must have room for an id at each end.
	MinSize = 2 * idDigits
	// MaxClients is the maximum number of clients. All their ids have idDigits digits.
	MaxClients = 1000
)

// Client is one MCP client. It is not safe for concurrent use.
type Client struct {
	addr    string
	path    string // of the endpoint
	era     words.Era
	conn    net.Conn
	reader  *wire.Reader
	answer  wire.Response
	session string

	next     uint64 // the next id
	request  []byte // the HTTP request of a call: head and body
	id       []byte // id, text, mark and tailMark are slices of request
	text     []byte
	mark     []byte
	tailMark []byte

	taken []time.Duration // latencies of the current slice
}

// Dial connects a client to addr. addr is a host and a port, optionally followed by a path, as in
// 127.0.0.1:7300/s/echo/mcp. The default path is /mcp. number must be below MaxClients. Clients with
// different numbers use different request ids.
func Dial(addr string, era words.Era, number int) (*Client, error) {
	addr, path, _ := strings.Cut(addr, "/")
	if path == "" {
		path = "mcp"
	}
	conn, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &Client{
		addr: addr, path: "/" + path, era: era, conn: conn, reader: wire.NewReader(conn),
		next: 100_000_000_000_000 + uint64(number)*100_000_000_000,
	}, nil
}

// Close closes the connection. It does not end the session.
func (c *Client) Close() error { return c.conn.Close() }

// Open prepares the client for its first call: a legacy client performs the initialize handshake,
// and a modern client does nothing.
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
		return fmt.Errorf("initialize: the answer does not have the requested version: %.200s", result)
	}
	c.session = string(c.answer.Session)
	if _, err := c.ask("POST", "", words.Initialized(), ""); err != nil {
		return fmt.Errorf("notifications/initialized: %w", err)
	}
	return nil
}

// Discover sends server/discover. A modern client may send it before its first call.
func (c *Client) Discover() error {
	id := c.newID()
	result, err := c.ask("POST", "server/discover", words.Discover(id), id)
	if err == nil && !bytes.Contains(result, []byte(words.ModernVersion)) {
		err = fmt.Errorf("the answer does not list the modern version: %.200s", result)
	}
	if err != nil {
		return fmt.Errorf("server/discover: %w", err)
	}
	return nil
}

// List requests the list of tools. It returns an error if the list does not contain echo.
func (c *Client) List() error {
	id := c.newID()
	result, err := c.ask("POST", "tools/list", words.List(c.era, id), id)
	if err == nil && !bytes.Contains(result, []byte(`"echo"`)) {
		err = fmt.Errorf("the answer does not list the tool echo: %.200s", result)
	}
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	return nil
}

// Listen opens the GET stream of a legacy server and leaves it open. ok is false if the server does
// not offer this stream.
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

// Reopen opens a new session. It does not end the old session.
func (c *Client) Reopen() error {
	c.session = ""
	return c.Open()
}

// Share makes c use the session of other. c keeps its own connection.
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

// Prepare sets the size of the text for the following calls. size must be at least MinSize.
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

// Call sends the request that Prepare has built, checks the answer, and returns the latency.
func (c *Client) Call() (time.Duration, error) {
	strconv.AppendUint(c.id[:0], c.next, 10) // overwrites the id in place, because every id has the same number of digits
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

// ask sends one message and returns the result of the request with the given id. If id is empty,
// ask accepts any answer with a status from 200 to 299 and returns no result.
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

// result returns the result in the last answer, which must be the answer to the request with the
// given id.
func (c *Client) result(id []byte) ([]byte, error) {
	a := &c.answer
	if a.Status != 200 {
		return nil, fmt.Errorf("HTTP %d %.200s", a.Status, a.Body)
	}
	if !a.EventStream() {
		return ResultOf(a.Body, id)
	}
	var result []byte
	err := errors.New("the event stream has no answer")
	found := 0
	wire.Events(a.Body, func(data []byte) {
		// Notifications may come before the answer. IsRequest is true for them too.
		if !IsRequest(data) {
			found++
			result, err = ResultOf(data, id)
		}
	})
	if found > 1 {
		return nil, fmt.Errorf("the event stream has %d answers, want 1", found)
	}
	return result, err
}

// head returns the request line and the header fields of an HTTP request. method is the value of
// the header Mcp-Method of a modern client.
func (c *Client) head(verb, method string, length int) []byte {
	b := make([]byte, 0, 512+length)
	b = append(b, verb...)
	b = append(b, ' ')
	b = append(b, c.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.addr...)
	b = append(b, "\r\nUser-Agent: dragoman-bench\r\n"...)
	if verb == "GET" {
		b = append(b, "Accept: text/event-stream\r\n"...)
	} else {
		b = append(b, "Accept: application/json, text/event-stream\r\n"...)
	}
	if c.era == words.Modern {
		// The required headers: 2026-07-28 §Streamable HTTP, "Request Metadata".
		b = append(b, "MCP-Protocol-Version: "+words.ModernVersion+"\r\nMcp-Method: "...)
		b = append(b, method...)
		if method == "tools/call" {
			b = append(b, "\r\nMcp-Name: echo"...)
		}
		b = append(b, "\r\n"...)
	} else if c.session != "" {
		// The required headers: 2025-11-25 §Transports, "Session Management", "Protocol Version
		// Header".
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

// IsRequest reports whether msg is a request or a notification. Answers have no method.
func IsRequest(msg []byte) bool {
	found := false
	_ = jsonspan.Members(msg, func(key, _ []byte) { found = found || string(key) == "method" })
	return found
}
