package transport

import (
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// ErrTooLarge means that a message is over the size limit. The reader skips the message and
// continues after it.
var ErrTooLarge = errors.New("message exceeds the size limit")

// ErrEndless is the final error of a connection. It means that a message over the size limit did
// not end within Endless bytes. On stdio, it can also mean that such a message stopped in the
// middle.
var ErrEndless = errors.New("a message that is larger than the size limit does not end")

// Endless returns the number of bytes of one message that are skipped before the connection is
// closed. limit is the size limit of messages. The result is 16 times the limit, and at least
// 256 MiB. Skipping uses no memory, but no other message can arrive during that time.
func Endless(limit int) int64 { return max(16*int64(limit), 256<<20) }

// BadAnswer is the error of a frame that is not a valid message but looks like the answer to a
// request. It is also the error of a frame that was skipped and may have been an answer.
// Reading continues after the frame.
type BadAnswer struct {
	ID       jsonrpc.ID     // id of the request; "" if it is uncertain
	Err      *jsonrpc.Error // what is wrong with the frame
	TooLarge bool           // the frame was skipped; see ErrTooLarge
	// Doubtful says that the frame has an id but no method, result or error. Such a frame counts as
	// an answer only if no other peer can have chosen this id.
	Doubtful bool
}

func (e *BadAnswer) Error() string { return "the answer is not valid: " + e.Err.Message }

// Unwrap lets errors.As find the *jsonrpc.Error, and lets errors.Is find ErrTooLarge.
func (e *BadAnswer) Unwrap() []error {
	if e.TooLarge {
		return []error{e.Err, ErrTooLarge}
	}
	return []error{e.Err}
}

// Refused returns the error for a frame that jsonrpc.Scan has refused with err. If the frame looks
// like an answer or is doubtful, the result is a *BadAnswer. Otherwise the result is err.
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

// Skipped returns the error for a frame over the size limit. The frame was written to s and
// dropped. The error wraps ErrTooLarge and a *jsonrpc.Error. If the frame is a request that can be
// answered, the *jsonrpc.Error has the id of the request. The error is a *BadAnswer unless the
// frame has a method.
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
	// Refuse fails the server request that the frame answers, if this request is known for certain.
	Refuse(bad *BadAnswer)
}

// Refuse passes err to a conversation that is a Refuser, if err is a *BadAnswer.
func Refuse(c Conversation, err error) {
	var bad *BadAnswer
	// A malformed request of a client may have the same id as one of Dragoman's requests.
	if r, ok := c.(Refuser); ok && errors.As(err, &bad) && !bad.Doubtful {
		r.Refuse(bad)
	}
}
