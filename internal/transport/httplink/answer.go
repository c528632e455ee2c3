package httplink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// maxTrailer is the maximum number of bytes of the trailer of a chunked body.
const maxTrailer = 4 << 10

// framing is how the end of a body is found (RFC 9112 §6.3).
type framing uint8

const (
	nothing framing = iota // there is no body
	sized                  // it has a Content-Length
	chunked                // Transfer-Encoding: chunked
	endless                // it ends with the connection
)

var errHeadTooLarge = fmt.Errorf("net/http: server response headers exceeded %d bytes; aborted", maxHead)

// readHead reads the head of the response, and skips those of interim responses. All of them
// together have at most maxHead bytes.
//
// It refuses what RFC 9112 allows nobody to send, also where net/http is lenient, because two that
// read a head differently disagree about where the next one begins. The differences are listed in
// lenient (exchange_fuzz_test.go) and in docs/adr/0030. Servers written by hand end their lines with
// a bare LF, which a recipient may accept (§2.2): there is no next answer on their connection.
func (x *exchange) readHead() (*http.Response, error) {
	if _, err := x.in.Peek(1); err != nil {
		return nil, err
	}
	x.received = true
	budget, strict := maxHead, true
	for {
		head, crlf, err := readLines(x.in, &budget, errHeadTooLarge)
		if err != nil {
			return nil, err
		}
		strict = strict && crlf
		resp, err := parseHead(head)
		if err != nil {
			return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err)
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		if err := x.frame(resp); err != nil {
			return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err)
		}
		if !strict {
			x.keep = 0
		}
		resp.Request = x.req
		return resp, nil
	}
}

// readLines reads lines up to an empty one, which it leaves out, and ends each with LF. crlf is false if
// one ended without CR. A line may contain no other CR and no NUL. budget is how many bytes it may
// still read.
func readLines(in *bufio.Reader, budget *int, tooLarge error) (lines string, crlf bool, err error) {
	var few [1 << 10]byte
	all := few[:0]
	begin := 0 // of the current line
	crlf = true
	for {
		part, err := in.ReadSlice('\n')
		if *budget -= len(part); *budget < 0 {
			return "", false, tooLarge
		}
		all = append(all, part...)
		line := all[begin:]
		text, whole := bytes.CutSuffix(line, []byte("\r\n"))
		if !whole {
			text = bytes.TrimSuffix(line, []byte("\n"))
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && begin == 0 && len(line) > 0:
			// This is probably not HTTP, so say what it is.
			return "", false, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", malformed("HTTP response", string(line)))
		case err == io.EOF:
			return "", false, io.ErrUnexpectedEOF
		case err != nil:
			return "", false, err
		case bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, 0) >= 0:
			what := "MIME header line"
			if begin == 0 {
				what = "HTTP response"
			}
			return "", false, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", malformed(what, strings.TrimRight(string(text), "\r")))
		}
		crlf = crlf && whole
		if len(text) == 0 {
			return string(all[:begin]), crlf, nil
		}
		all = append(all[:begin+len(text)], '\n')
		begin = len(all)
	}
}

func malformed(what, value string) error { return fmt.Errorf("malformed %s %q", what, value) }

// parseHead parses a status line and header fields (RFC 9112 §4 and §5).
func parseHead(head string) (*http.Response, error) {
	line, fields, _ := strings.Cut(head, "\n")
	proto, status, ok := strings.Cut(line, " ")
	if !ok || strings.ContainsFunc(line, control) {
		return nil, malformed("HTTP response", line)
	}
	status = strings.TrimLeft(status, " ")
	digits, _, _ := strings.Cut(status, " ")
	code, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || len(digits) != 3 || code < 100 {
		return nil, malformed("HTTP status code", digits)
	}
	if len(proto) != len("HTTP/1.1") || proto[:7] != "HTTP/1." || proto[7] < '0' || proto[7] > '9' {
		return nil, malformed("HTTP version", proto)
	}
	header, err := parseFields(fields)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: status, StatusCode: int(code), Proto: proto, ProtoMajor: 1, ProtoMinor: int(proto[7] - '0'), Header: header,
	}, nil
}

func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// parseFields parses lines of header fields. Folded lines are refused (RFC 9112 §5.2).
func parseFields(lines string) (http.Header, error) {
	n := strings.Count(lines, "\n")
	header, values := make(http.Header, n), make([]string, n)
	for lines != "" {
		var line string
		line, lines, _ = strings.Cut(lines, "\n")
		name, value, ok := strings.Cut(line, ":")
		value = textproto.TrimString(value)
		switch {
		case !ok:
			return nil, fmt.Errorf("malformed MIME header: missing colon: %q", line)
		case !validName(name), !validValue(value): // a folded line has a space in its name
			return nil, malformed("MIME header line", line)
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if old := header[name]; old != nil {
			header[name] = append(old, value)
			continue
		}
		values[0] = value
		header[name] = values[:1:1]
		values = values[1:]
	}
	return header, nil
}

// frame finds out how the body ends, and whether the connection can be used after it.
func (x *exchange) frame(resp *http.Response) error {
	h := resp.Header
	lengths, encodings := h["Content-Length"], h["Transfer-Encoding"]
	length, err := parseLength(lengths)
	switch {
	case err != nil:
		return err
	case len(encodings) > 0 && len(lengths) > 0:
		return errors.New("http: message has both Content-Length and Transfer-Encoding")
	case len(encodings) > 1:
		return fmt.Errorf("too many transfer encodings: %q", encodings)
	case len(encodings) == 1 && (resp.ProtoMinor == 0 || !strings.EqualFold(encodings[0], "chunked")):
		return fmt.Errorf("unsupported transfer encoding: %q", encodings[0])
	}
	keep := resp.ProtoMinor > 0
	if hasToken(h["Connection"], "close") {
		keep = false
		if resp.ProtoMinor > 0 {
			delete(h, "Connection")
		}
	} else if !keep {
		keep = hasToken(h["Connection"], "keep-alive")
	}
	if len(lengths) > 1 {
		h["Content-Length"] = lengths[:1]
	}
	resp.ContentLength = length
	switch code := resp.StatusCode; {
	case code == http.StatusSwitchingProtocols, code == http.StatusNoContent, code == http.StatusNotModified:
		// A length is allowed only in a 304, and means the body that a 200 would have.
		keep = keep && code != http.StatusSwitchingProtocols && len(encodings) == 0 && (code == http.StatusNotModified || length <= 0)
		resp.ContentLength = 0
	case x.req.Method == http.MethodHead:
	case len(encodings) > 0:
		x.body, x.chunks = chunked, httputil.NewChunkedReader(x.in)
		resp.ContentLength = -1
	case length > 0:
		x.body, x.left = sized, length
	case length < 0:
		x.body, keep = endless, false
	}
	if len(encodings) > 0 {
		delete(h, "Transfer-Encoding")
		resp.TransferEncoding = encodings
	}
	if resp.Close = !keep; keep {
		x.keep = keepTime(h["Keep-Alive"])
	}
	return nil
}

// parseLength returns the value of Content-Length, or -1 if there is none. It may be there several
// times with the same value (RFC 9110 §8.6).
func parseLength(lengths []string) (int64, error) {
	if len(lengths) == 0 {
		return -1, nil
	}
	for _, other := range lengths[1:] {
		if other != lengths[0] {
			return 0, fmt.Errorf("http: message cannot contain multiple Content-Length headers; got %q", lengths)
		}
	}
	n, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("bad Content-Length %q", lengths[0])
	}
	return int64(n), nil
}

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(textproto.TrimString(part), token) {
				return true
			}
		}
	}
	return false
}

// keepTime returns how long a connection may be idle. A server that says when it closes idle
// connections may do so while a request is on its way to it, so we stop using them earlier.
func keepTime(values []string) time.Duration {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			name, seconds, _ := strings.Cut(textproto.TrimString(part), "=")
			if n, err := strconv.ParseUint(seconds, 10, 16); err == nil && strings.EqualFold(name, "timeout") {
				return min(idleTime, time.Duration(n)*time.Second*3/4)
			}
		}
	}
	return idleTime
}

// skipTrailer reads the trailer of a chunked body, which nobody needs.
func (x *exchange) skipTrailer() error {
	budget := maxTrailer
	lines, crlf, err := readLines(x.in, &budget, errors.New("http: suspiciously long trailer after chunked body"))
	if err == nil && !crlf {
		err = malformed("trailer", lines) // net/http refuses it, too
	}
	if err == nil {
		_, err = parseFields(lines)
	}
	return err
}
