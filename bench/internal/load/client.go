// Package load is the client side of a measurement: many MCP clients of one era call the tool
// echo, each with one call in flight, and check every answer.
//
// A Client has one keep-alive connection, or a share of a Pipe. It builds each request once, and overwrites only its id,
// which is also at the beginning and at the end of the text. So every text is unique, and the Client
// detects a truncated, swapped or stale answer. A wrong answer is an error. The latency of a call
// includes the time to write the request and to read the answer, but not the time to check the answer.
//
// The clients and the upstream use fasthttp: with net/http they would take more CPU time than the measured
// process, on the same cores.
package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

const (
	dialTimeout = 5 * time.Second
	// answerTimeout limits the wait for one answer.
	answerTimeout = 10 * time.Second
	// idDigits is the number of digits in every id. A float64 represents fifteen digits exactly.
	idDigits = 15
	// MinSize is the minimum length of a text, which must have room for an id at each end.
	MinSize = 2 * idDigits
	// MaxClients is the maximum number of clients. All their ids have idDigits digits.
	MaxClients = 8000
)

// Client is one MCP client. It is not safe for concurrent use.
type Client struct {
	// Tool is the tool to call, and Name what a legacy client calls itself. Dial sets both.
	Tool, Name string
	// Key is an API key to send, or "". It must be set before the first request.
	Key string
	// Lists makes Call request the list of tools, as List does. It must be set before the first request.
	Lists bool
	// Home is where Open opens the session, as an address for Dial, or "" for where all other requests go.
	Home string

	era     words.Era
	url     string
	conn    net.Conn // nil before the first request
	http    fasthttp.HostClient
	answer  fasthttp.Response
	session string

	pipe    *Pipe // replaces url, conn and http; nil for a client over HTTP
	answers chan []byte
	line    []byte // the last answer from pipe

	next     uint64           // the next id
	request  fasthttp.Request // of a call
	body     []byte           // of request, and a newline
	id       []byte           // id, text, mark and tailMark are slices of body
	text     []byte
	mark     []byte
	tailMark []byte

	taken []time.Duration // latencies of the current slice
}

// Dial returns a client of addr, which connects with its first request. addr is a host and a port,
// optionally followed by a path, as in 127.0.0.1:7300/s/echo/mcp. The default path is /mcp. number must
// be below MaxClients. Clients with different numbers use different request ids.
func Dial(addr string, era words.Era, number int) *Client {
	host, path, _ := strings.Cut(addr, "/")
	if path == "" {
		path = "mcp"
	}
	c := &Client{Tool: "echo", Name: "dragoman-bench", era: era, url: "http://" + host + "/" + path, next: firstID(number)}
	c.http = fasthttp.HostClient{
		Addr: host, Name: "dragoman-bench", ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		MaxResponseBodySize: maxMessage, MaxIdemponentCallAttempts: 1, MaxIdleConnDuration: time.Hour,
		Dial: func(addr string) (conn net.Conn, err error) {
			if c.conn != nil {
				return nil, errors.New("the server closed the connection")
			}
			c.conn, err = net.DialTimeout("tcp", addr, dialTimeout)
			return c.conn, err
		},
	}
	return c
}

// Close closes the connection. It does not end the session.
func (c *Client) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Open prepares the client for its first call: a legacy client performs the initialize handshake,
// and a modern client does nothing.
func (c *Client) Open() error {
	if c.era == words.Modern || c.pipe != nil && c.pipe.opened {
		return nil
	}
	if c.Home != "" {
		home := Dial(c.Home, c.era, 0)
		defer home.Close()
		home.Name, home.Key = c.Name, c.Key
		err := home.Open()
		c.Share(home)
		return err
	}
	id := c.newID()
	result, err := c.ask("POST", "", words.Initialize(id, c.Name), id)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if !bytes.Contains(result, []byte(`"protocolVersion":"`+words.LegacyVersion+`"`)) {
		return fmt.Errorf("initialize: the answer does not have the requested version: %.200s", result)
	}
	c.session = string(c.answer.Header.Peek("Mcp-Session-Id"))
	if _, err := c.ask("POST", "", words.Initialized(), ""); err != nil {
		return fmt.Errorf("notifications/initialized: %w", err)
	}
	if c.pipe != nil {
		c.pipe.opened = true
	}
	return nil
}

// List requests the list of tools. It returns an error if the list does not contain the tool.
func (c *Client) List() error {
	id := c.newID()
	result, err := c.ask("POST", "tools/list", words.List(c.era, id), id)
	if err == nil && !bytes.Contains(result, []byte(`"`+c.Tool+`"`)) {
		err = fmt.Errorf("the answer does not list the tool %s: %.200s", c.Tool, result)
	}
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	return nil
}

// Listen opens a stream for notifications and leaves it open: a GET stream for a legacy client, and
// subscriptions/listen for a modern one. ok is false if the server does not offer the GET stream.
func (c *Client) Listen() (ok bool, err error) {
	c.http.StreamResponseBody = true // do not wait for the end of the stream
	var req fasthttp.Request
	if c.era == words.Modern {
		c.head(&req, "POST", "subscriptions/listen")
		req.SetBodyRaw(words.Listen(c.newID()))
	} else {
		c.head(&req, "GET", "")
	}
	if err := c.http.Do(&req, &c.answer); err != nil {
		return false, err
	}
	switch status := c.answer.StatusCode(); {
	case status == 200 && c.eventStream():
		return true, nil
	case status != 405:
		return false, fmt.Errorf("listen: HTTP %d", status)
	}
	return false, nil
}

// Watch reads the stream that Listen has opened until it ends. It returns an error if anything but
// notifications comes, because nobody asks this client or is answered on its stream.
func (c *Client) Watch() error {
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil // it has ended
	}
	events := rawlink.NewReader(c.answer.BodyStream(), maxMessage)
	for {
		event, err := events.Next()
		if err != nil {
			return nil
		}
		if len(event.Data) == 0 {
			continue
		}
		if m, err := scan(event.Data); err != nil || m.Kind != jsonrpc.Notification {
			return fmt.Errorf("the stream for notifications has %.200s", event.Data)
		}
	}
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
	body, idAt, textAt := words.Call(c.era, c.newID(), c.Tool, string(filler(size)))
	c.request.Reset()
	c.head(&c.request, "POST", "tools/call")
	c.body = append(body, '\n')
	body = c.body[:len(body)] // append may have moved it
	c.request.SetBodyRaw(body)
	c.id = body[idAt : idAt+idDigits]
	c.text = body[textAt : textAt+size]
	c.mark, c.tailMark = c.text[:idDigits], c.text[size-idDigits:]
}

// Call sends the request that Prepare has built, checks the answer, and returns the latency.
func (c *Client) Call() (time.Duration, error) {
	if c.Lists {
		start := time.Now()
		err := c.List()
		return time.Since(start), err
	}
	strconv.AppendUint(c.id[:0], c.next, 10) // overwrites the id in place, because every id has the same number of digits
	copy(c.mark, c.id)
	copy(c.tailMark, c.id)
	c.next++
	start := time.Now()
	var err error
	if c.pipe != nil {
		c.line, err = c.pipe.ask(c.body, c.id, c.answers)
	} else {
		err = c.http.Do(&c.request, &c.answer)
	}
	if err != nil {
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
func (c *Client) ask(verb, method string, body []byte, id string) (result []byte, err error) {
	if c.pipe != nil {
		if c.line, err = c.pipe.ask(append(body, '\n'), []byte(id), c.answers); err != nil || id == "" {
			return nil, err
		}
		return c.result([]byte(id))
	}
	var req fasthttp.Request
	c.head(&req, verb, method)
	req.SetBodyRaw(body)
	if err := c.http.Do(&req, &c.answer); err != nil {
		return nil, err
	}
	if id != "" {
		return c.result([]byte(id))
	}
	if status := c.answer.StatusCode(); status < 200 || status > 299 {
		return nil, fmt.Errorf("HTTP %d %.200s", status, c.answer.Body())
	}
	return nil, nil
}

func (c *Client) eventStream() bool {
	return bytes.HasPrefix(c.answer.Header.ContentType(), []byte("text/event-stream"))
}

// result returns the result in the last answer, which must be the answer to the request with the
// given id.
func (c *Client) result(id []byte) ([]byte, error) {
	if c.pipe != nil {
		return ResultOf(c.line, id)
	}
	body := c.answer.Body()
	if status := c.answer.StatusCode(); status != 200 {
		return nil, fmt.Errorf("HTTP %d %.200s", status, body)
	}
	if !c.eventStream() {
		return ResultOf(body, id)
	}
	var result []byte
	err := errors.New("the event stream has no answer")
	found := 0
	events := rawlink.NewReader(bytes.NewReader(body), maxMessage)
	for {
		event, end := events.Next()
		if end != nil {
			break
		}
		// Notifications may come before the answer. IsRequest is true for them too.
		if len(event.Data) > 0 && !IsRequest(event.Data) {
			found++
			result, err = ResultOf(event.Data, id)
		}
	}
	if found > 1 {
		return nil, fmt.Errorf("the event stream has %d answers, want 1", found)
	}
	return result, err
}

// head sets the request line and the header fields of a request. method is the value of the header
// Mcp-Method of a modern client.
func (c *Client) head(req *fasthttp.Request, verb, method string) {
	req.SetRequestURI(c.url)
	h := &req.Header
	h.SetMethod(verb)
	h.Set("Accept", "application/json, text/event-stream")
	if verb == "POST" {
		h.SetContentType("application/json")
	}
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	switch {
	case c.era == words.Modern:
		// The required headers: 2026-07-28 §Streamable HTTP, "Request Metadata".
		h.Set("MCP-Protocol-Version", words.ModernVersion)
		h.Set("Mcp-Method", method)
		if method == "tools/call" {
			h.Set("Mcp-Name", c.Tool)
		}
	case c.session != "":
		// The required headers: 2025-11-25 §Transports, "Session Management", "Protocol Version
		// Header".
		h.Set("MCP-Protocol-Version", words.LegacyVersion)
		h.Set("Mcp-Session-Id", c.session)
	}
}
