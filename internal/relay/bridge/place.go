package bridge

import (
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Most of what a retry or a poll needs is in the state or the id itself, so any process that has the
// keys can serve it. A parked call and the session of a task are in one process, and so is the memory
// of which states have been used. States and ids that need one of these name the process.

// anchor is what we mark to name this process.
const anchor = "1"

func (b *Bridge) mark(id string) string {
	if b.Places == nil {
		return id
	}
	return b.Places.Mark(id)
}

// These are the refusals for clients that stay here, although another process has what they want.
var (
	errParkAway = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "another process of Dragoman runs the call that this requestState belongs to, or has run it; only that one can continue it, and the server may have executed it",
		Data:    []byte(`{"origin":"gateway","cause":"park_lost","outcome":"unknown","retryable":false}`)}
	errAskedAway = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "the call was not sent: another process of Dragoman has asked the user about it, and the answer counts only there; send the original request again to ask the user again",
		Data:    []byte(`{"origin":"gateway","cause":"asked_elsewhere","outcome":"not_sent","retryable":false}`)}
	errTaskAway = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found: only the process of Dragoman that has begun the task can find it, and this is another one"}
)

// checkPlace returns an error if the thing with a marked id is in another process. The error is a
// *transport.Elsewhere, and for a client that stays here it is the refusal.
func (b *Bridge) checkPlace(marked string, refusal *jsonrpc.Error) error {
	if b.Places == nil {
		return nil
	}
	if home := b.Places.Of(marked); home != "" {
		return fmt.Errorf("%w: %w", refusal, &transport.Elsewhere{Home: home, Refusal: refusal})
	}
	return nil
}

// placedStart is the prefix of the id of a task in a session of this process, if there are other
// processes. The name of the process follows, then what follows idStart in other ids.
const placedStart = "drgs2."

// CheckTaskPlace returns an error that wraps a *transport.Elsewhere if a task with this id is in
// another process. It does not check whether the task exists.
func (b *Bridge) CheckTaskPlace(id string) error {
	if rest, ok := strings.CutPrefix(id, placedStart); ok {
		place, _, _ := strings.Cut(rest, "~")
		return b.checkPlace(place, errTaskAway)
	}
	if rest, ok := strings.CutPrefix(id, keptTaskID); ok {
		return b.checkPlace(rest, errTaskAway)
	}
	return nil
}

// withoutPlace returns what follows idStart in an id. It returns false if Dragoman did not make the
// id.
func withoutPlace(id string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(id, placedStart); ok {
		_, rest, ok = strings.Cut(rest, "~")
		return rest, ok
	}
	return strings.CutPrefix(id, idStart)
}
