//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// oneEraMode runs in front of a stdio server that supports both eras, and makes it a server of
// one era. It answers messages of the other era in the same way as a server without that era. These
// messages never reach the server.
//
//	conformance one-era legacy|modern CMD [ARG...]
func oneEraMode(args []string) int {
	if len(args) < 2 || (args[0] != "legacy" && args[0] != "modern") {
		return exitUsage
	}
	gate, tell := legacyGate, func(line []byte) []byte { return line }
	if args[0] == "modern" {
		gate, tell = modernGate, tellModern
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stderr = os.Stderr
	toServer, err := cmd.StdinPipe()
	if err != nil {
		return exitRig
	}
	fromServer, err := cmd.StdoutPipe()
	if err != nil {
		return exitRig
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "one-era:", err)
		return exitRig
	}

	out := &lines{w: os.Stdout}
	go func() { // ends at the end of stdin, or when this process exits
		defer toServer.Close()
		each(os.Stdin, func(line []byte) error {
			pass, answer := gate(line)
			if answer != nil {
				return out.write(answer)
			}
			_, err := toServer.Write(append(pass, '\n'))
			return err
		})
	}()
	each(fromServer, func(line []byte) error { return out.write(tell(line)) })
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "one-era:", err)
		return 1
	}
	return 0
}

// envelope has the members that a gate reads.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// legacyGate returns the line to pass to a server of the older era, or the answer to send back
// instead. The answer to server/discover is "method not found". legacyGate removes the keys of the
// newer era from _meta, because a server of the older era ignores them.
func legacyGate(line []byte) (pass, answer []byte) {
	var e envelope
	if json.Unmarshal(line, &e) != nil || e.Method == "" {
		return line, nil
	}
	if e.Method == "server/discover" && e.ID != nil {
		return nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, e.ID)
	}
	var msg, params, meta map[string]json.RawMessage
	if json.Unmarshal(line, &msg) != nil || json.Unmarshal(msg["params"], &params) != nil || json.Unmarshal(params["_meta"], &meta) != nil {
		return line, nil // without _meta there are no keys of the newer era
	}
	for key := range meta {
		if strings.HasPrefix(key, "io.modelcontextprotocol/") {
			delete(meta, key)
		}
	}
	params["_meta"] = must(json.Marshal(meta))
	msg["params"] = must(json.Marshal(params))
	return must(json.Marshal(msg)), nil
}

// modernGate returns the line to pass to a server of the newer era, or the answer to send back
// instead. It refuses initialize (2026-07-28 Versioning: error -32022 with the supported
// versions). It also refuses each request without a protocol version, because 2026-07-28 requires
// a version in each request.
func modernGate(line []byte) (pass, answer []byte) {
	var e struct {
		envelope
		Params struct {
			Version string                     `json:"protocolVersion"`
			Meta    map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &e) != nil || e.Method == "" || e.ID == nil {
		return line, nil
	}
	if e.Method == "initialize" {
		return nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":%q}}}`, e.ID, e.Params.Version)
	}
	if _, ok := e.Params.Meta["io.modelcontextprotocol/protocolVersion"]; !ok {
		return nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid params: _meta names no protocol version"}}`, e.ID)
	}
	return line, nil
}

// tellModern removes the older revisions from the answer to server/discover.
func tellModern(line []byte) []byte {
	if !bytes.Contains(line, []byte(`"supportedVersions"`)) {
		return line
	}
	var msg, result map[string]json.RawMessage
	if json.Unmarshal(line, &msg) != nil || json.Unmarshal(msg["result"], &result) != nil || result["supportedVersions"] == nil {
		return line
	}
	result["supportedVersions"] = json.RawMessage(`["2026-07-28"]`)
	msg["result"] = must(json.Marshal(result))
	return must(json.Marshal(msg))
}

// must returns b. It panics on an error, which cannot happen, because each value was valid JSON
// when it was read.
func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// each calls f with every line of r that is not empty, without its newline.
func each(r io.Reader, f func(line []byte) error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		if len(line) > 0 && f(line) != nil || err != nil {
			return
		}
	}
}

// lines writes whole lines. Several goroutines may use it.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append(line, '\n'))
	return err
}
