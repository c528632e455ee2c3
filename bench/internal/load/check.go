package load

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// maxMessage is the maximum length of a message in bytes.
const maxMessage = 16 << 20

// scan parses a message.
func scan(msg []byte) (*jsonrpc.Message, error) {
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{Bytes: maxMessage})
	if err != nil {
		return nil, fmt.Errorf("%w: %.200s", err, msg)
	}
	return m, nil
}

// IsRequest reports whether msg is a request or a notification.
func IsRequest(msg []byte) bool {
	m, err := scan(msg)
	return err == nil && m.Method != ""
}

// ResultOf returns the result in msg, which must be the answer to the request with the given id.
func ResultOf(msg, id []byte) ([]byte, error) {
	m, err := scan(msg)
	switch {
	case err != nil:
		return nil, err
	case string(m.ID) != string(id):
		return nil, fmt.Errorf("the answer has the id %.40s, want %s", m.ID, id)
	case m.Kind == jsonrpc.Failure:
		return nil, fmt.Errorf("error %.300s", m.Error.Of(msg))
	case m.Kind != jsonrpc.Result:
		return nil, fmt.Errorf("the answer has neither result nor error: %.200s", msg)
	}
	return m.Result.Of(msg), nil
}

// checkEcho returns an error unless the result of a call has exactly one text block with the
// given text.
func checkEcho(result, text []byte, era words.Era) error {
	whole := jsonrpc.Whole(result)
	if jsonrpc.KindOf(result, jsonrpc.Find(result, whole, "isError")) == 't' {
		return fmt.Errorf("the tool failed: %.200s", result)
	}
	// 2026-07-28 §Schema, Result, about resultType: "Servers implementing this protocol version
	// MUST include this field."
	if kind, _ := jsonrpc.Text(result, jsonrpc.Find(result, whole, "resultType")); era == words.Modern && kind != "complete" {
		return fmt.Errorf("resultType is %.40q, want complete", kind)
	}
	blocks := 0
	for block := range jsonrpc.Elements(result, jsonrpc.Find(result, whole, "content")) {
		blocks++
		if kind, _ := jsonrpc.Text(result, jsonrpc.Find(result, block, "type")); kind != "text" {
			return fmt.Errorf("the content has the type %.40q, want text", kind)
		}
		// The text needs no escapes, so its bytes on the wire are the text itself.
		got := bytes.Trim(jsonrpc.Find(result, block, "text").Of(result), `"`)
		if !bytes.Equal(got, text) {
			return errors.New(difference(got, text))
		}
	}
	if blocks != 1 {
		return fmt.Errorf("content: got %d blocks, want 1", blocks)
	}
	return nil
}

func difference(got, want []byte) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	return fmt.Sprintf("the tool returned another text: %d bytes instead of %d, different from byte %d on", len(got), len(want), at)
}

// filler returns a text of size bytes. Its characters are pseudo-random and need no escapes in
// JSON.
func filler(size int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ."
	b := make([]byte, size)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = letters[state>>26]
	}
	return b
}
