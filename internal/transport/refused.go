package transport

import (
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// ErrTooLarge is wrapped by the error of a frame over the size limit. The frame was
// skipped, and reading goes on behind it.
var ErrTooLarge = errors.New("message exceeds the size limit")

// ErrEndless is the final error of a link on which a frame over the size limit did
// not end within Endless, or, on stdio, stopped in the middle.
var ErrEndless = errors.New("a message over the size limit does not end")

// Endless returns how many bytes of one frame are skipped on a link whose messages
// are bounded by limit, before the link is given up: 16 times the limit, and at
// least 256 MiB. Skipping costs no memory, but while it lasts nothing else arrives.
func Endless(limit int) int64 { return max(16*int64(limit), 256<<20) }

// BadAnswer is the error of a frame that is not a message and looks like the answer
// to a request, or that was skipped and may have been one. Reading goes on after it.
type BadAnswer struct {
	ID       jsonrpc.ID     // of the request; "" where it is not certain
	Err      *jsonrpc.Error // what is wrong with the frame
	TooLarge bool           // it was skipped, see ErrTooLarge
	// Doubtful: the frame has an id and no method, and no result or error was found
	// either. It counts only where nobody else can have chosen that id.
	Doubtful bool
}

func (e *BadAnswer) Error() string { return "the answer is not valid: " + e.Err.Message }

// Unwrap makes errors.As find the *jsonrpc.Error, and errors.Is ErrTooLarge.
func (e *BadAnswer) Unwrap() []error {
	if e.TooLarge {
		return []error{e.Err, ErrTooLarge}
	}
	return []error{e.Err}
}

// Refused returns the error of a frame that jsonrpc.Scan has refused with err: a
// *BadAnswer where the frame looks like an answer or is a doubtful one, else err.
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

// Skipped returns the error of a frame over the size limit that was written to s
// and dropped: it wraps ErrTooLarge and a *jsonrpc.Error, which has the id of a
// request that can be answered. It is a *BadAnswer unless the frame names a method.
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

// Refuser is a Conversation that can be told of an answer of its client which is not
// a message.
type Refuser interface {
	// Refuse fails the question of ours that the frame answers, if that is certain.
	Refuse(bad *BadAnswer)
}

// Refuse tells a conversation of a frame of its client, where that is a *BadAnswer.
func Refuse(c Conversation, err error) {
	var bad *BadAnswer
	// A client's malformed request may have the id of a question of ours.
	if r, ok := c.(Refuser); ok && errors.As(err, &bad) && !bad.Doubtful {
		r.Refuse(bad)
	}
}
