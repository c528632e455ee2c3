package load

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/bench/internal/jsonspan"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

// ResultOf returns the result in msg, which must be the answer to the request with the given id.
func ResultOf(msg, id []byte) ([]byte, error) {
	var gotID, result, failed []byte
	version := false
	err := jsonspan.Members(msg, func(key, value []byte) {
		switch string(key) {
		case "jsonrpc":
			version = string(value) == `"2.0"`
		case "id":
			gotID = value
		case "result":
			result = value
		case "error":
			failed = value
		}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %.200s", err, msg)
	case !version:
		return nil, fmt.Errorf("the answer is not JSON-RPC 2.0: %.200s", msg)
	case gotID == nil:
		return nil, fmt.Errorf("the answer has no id, want %s", id)
	case !bytes.Equal(gotID, id):
		return nil, fmt.Errorf("the answer has the id %.40s, want %s", gotID, id)
	case failed != nil:
		return nil, fmt.Errorf("error %.300s", failed)
	case result == nil:
		return nil, fmt.Errorf("the answer has neither result nor error: %.200s", msg)
	}
	return result, nil
}

// checkEcho returns an error unless the result of a call has exactly one text block with the
// given text.
func checkEcho(result, text []byte, era words.Era) error {
	var content, kind, got, resultType []byte
	isError := false
	err := jsonspan.Members(result, func(key, value []byte) {
		switch string(key) {
		case "content":
			content = value
		case "isError":
			isError = string(value) == "true"
		case "resultType":
			resultType = value
		}
	})
	if err != nil {
		return err
	}
	if isError {
		return fmt.Errorf("the tool failed: %.200s", result)
	}
	// 2026-07-28 §Schema, Result, about resultType: "Servers implementing this protocol version
	// MUST include this field."
	if era == words.Modern && string(resultType) != `"complete"` {
		return fmt.Errorf("resultType is %.40q, want complete", resultType)
	}
	first, err := jsonspan.First(content)
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	err = jsonspan.Members(first, func(key, value []byte) {
		switch string(key) {
		case "type":
			kind = value
		case "text":
			got, _ = jsonspan.Text(value)
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("content: %w", err)
	case string(kind) != `"text"`:
		return fmt.Errorf("the content has the type %.40q, want text", kind)
	case !bytes.Equal(got, text):
		return errors.New(difference(got, text))
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
