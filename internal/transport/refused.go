package transport

import (
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// ErrTooLarge means that a message exceeds the size limit. The transport skips this message, and
// the next Read returns the message after it.
var ErrTooLarge = errors.New("message exceeds the size limit")

// ErrEndless is the final error of a connection. It means that a message above the size limit did
// not end within Endless bytes. On stdio, it can also mean that no more bytes of such a message
// arrived.
var ErrEndless = errors.New("a message that is larger than the size limit does not end")

// Endless returns the number of bytes of one message that are skipped before the connection is
// closed. limit is the size limit of messages. The result is 16 times the limit, and at least 256
// MiB. Skipping uses no memory, but no other message can be read at the same time.
func Endless(limit int) int64 { return max(16*int64(limit), 256<<20) }

// BadAnswer is the error for a frame that is not a valid message but looks like the answer to a
// request. It is also the error for a frame that was skipped and may have been an answer. After a
// BadAnswer, reading may continue.
type BadAnswer struct {
	ID       jsonrpc.ID     // id of the request; "" if the id is uncertain
	Err      *jsonrpc.Error // what is wrong with the frame
	TooLarge bool           // the frame was skipped because it was too large
	// Doubtful is true if the frame has an id but no method, result or error. Such a frame is
	// certainly an answer only if the sender cannot have chosen the id for a request of its own.
	Doubtful bool
}

func (e *BadAnswer) Error() string { return "the answer is not valid: " + e.Err.Message }

// Unwrap returns Err, so that errors.As finds it. If TooLarge is set, Unwrap also returns
// ErrTooLarge.
func (e *BadAnswer) Unwrap() []error {
	if e.TooLarge {
		return []error{e.Err, ErrTooLarge}
	}
	return []error{e.Err}
}

// Refused returns the error for a frame that jsonrpc.Scan has refused with err. If the frame looks
// like an answer, or is doubtful as in BadAnswer.Doubtful, the result is a *BadAnswer. Otherwise,
// the result is err.
func Refused(frame []byte, err error) error {
	var why *jsonrpc.Error
	if !errors.As(err, &why) {
		return err
	}
	var s jsonrpc.Salvage
	_, _ = s.Write(frame)
	if kind, id := s.Verdict(); kind == jsonrpc.Result {
		return &BadAnswer{ID: id, Err: why}
	}
	if id := s.Suspect(); id != "" {
		return &BadAnswer{ID: id, Err: why, Doubtful: true}
	}
	return err
}

// Skipped returns the error for a frame that exceeds limit. The transport has written the frame to
// s and dropped it. The error wraps ErrTooLarge and a *jsonrpc.Error. If the frame is certainly a
// request, the *jsonrpc.Error contains its id, unless the id is uncertain. If the frame may be an
// answer, the error is a *BadAnswer.
func Skipped(limit int, s *jsonrpc.Salvage) error {
	why := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "message exceeds " + strconv.Itoa(limit) + " bytes"}
	kind, id := s.Verdict()
	if kind != jsonrpc.Request {
		return &BadAnswer{ID: id, Err: why, TooLarge: true}
	}
	why.ID = id
	return &skipped{why}
}

type skipped struct{ err *jsonrpc.Error }

func (e *skipped) Error() string { return e.err.Message }

func (e *skipped) Unwrap() []error { return []error{e.err, ErrTooLarge} }

// Refuser is a Conversation that handles invalid answers from its client.
type Refuser interface {
	// Refuse fails the server request that the frame answers. If it is not certain which request
	// that is, Refuse fails none.
	Refuse(bad *BadAnswer)
}

// Refuse passes err to c if err is a *BadAnswer and c is a Refuser. It drops doubtful answers.
func Refuse(c Conversation, err error) {
	var bad *BadAnswer
	// A doubtful frame may be a malformed request from the client. Its id may equal the id of one
	// of Dragoman's requests.
	if r, ok := c.(Refuser); ok && errors.As(err, &bad) && !bad.Doubtful {
		r.Refuse(bad)
	}
}
