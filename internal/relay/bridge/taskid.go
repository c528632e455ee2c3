package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// idStart is the prefix of the task ids that clients get. An id contains the server and the session
// of the task, because no other part of a request about a task identifies them. It also contains a
// signature: clients share sessions, and servers number their tasks, so without it a client could
// guess the ids of the others (2025-11-25 §Tasks, "Task Isolation and Access Control"; SEP-2663,
// "Auth binding"). For an authenticated client, the signature covers the seat too: another key of the same
// person may be for fewer tools.
//
// Dragoman stores nothing for an id. A task has the same id in answers, server requests and
// notifications.
const idStart = "drgt2."

// Task identifies a task at a server.
type Task struct {
	Server Server
	Ref    mcp.TaskRef
	// stray marks a task of a legacy server with an id that Dragoman did not make. The server
	// knows whether the task exists.
	stray bool
}

// Form returns the form of the task. A task of a legacy server has a session, or is stray.
func (p Task) Form() mcp.TaskForm {
	if p.Ref.Session != 0 || p.stray {
		return mcp.RequestedTasks
	}
	return mcp.DirectedTasks
}

// ErrNoTask means that the client has no such task.
var ErrNoTask error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}

// taskID returns the id that a client gets for a task. sole says whether the client's endpoint has
// only one server.
func (b *Bridge) taskID(server string, f *mcp.ClientInfo, sole bool, ref mcp.TaskRef) string {
	if b.OneClient && sole && ref.Session == 0 && !strings.HasPrefix(ref.ID, idStart) && !strings.HasPrefix(ref.ID, placedStart) {
		return ref.ID // unchanged, because there is nobody else
	}
	start := idStart
	if place := b.mark(anchor); place != anchor && ref.Session != 0 {
		start = placedStart + place + "~"
	}
	sign := rand.Text() // which nobody can have signed, so no id is valid without a key
	if k, ok := b.signer(nil); ok {
		sign = k.signature(server, f, ref)
	}
	return start + server + "~" + sign + "~" + ref.String()
}

// onlyKey signs the ids of tasks where there's nobody else who could guess them.
var onlyKey = Key{Secret: []byte("one client")}

// macLen is the length of a signature in bytes, without the ID of its key.
const macLen = 16

// signer returns the key with which an id of a task was signed. If sign is nil, it returns the key that signs now.
func (b *Bridge) signer(sign []byte) (Key, bool) {
	if b.OneClient {
		return onlyKey, true
	}
	if sign == nil {
		k, err := b.keyring().Newest(ForTasks)
		return k, err == nil
	}
	var id [keyIDLen]byte
	if len(sign) == keyIDLen+macLen {
		id = [keyIDLen]byte(sign)
	}
	return b.keyring().ByID(ForTasks, id)
}

// signature returns the part of an id that nobody can guess. It begins with the ID of the key, unless that is zero.
func (k Key) signature(server string, f *mcp.ClientInfo, ref mcp.TaskRef) string {
	mac := hmac.New(sha256.New, k.Secret)
	for _, part := range [...]string{f.Who.SeatKey(), server, ref.String()} {
		sum := sha256.Sum256([]byte(part))
		mac.Write(sum[:])
	}
	sign := mac.Sum(nil)[:macLen]
	if k.ID != [keyIDLen]byte{} {
		sign = append(k.ID[:], sign...)
	}
	return base64.RawURLEncoding.EncodeToString(sign)
}

// signed reports whether Dragoman has signed the id of a task for a client.
func (b *Bridge) signed(sign, server string, f *mcp.ClientInfo, ref mcp.TaskRef) bool {
	raw, err := base64.RawURLEncoding.DecodeString(sign)
	if err != nil {
		return false
	}
	k, ok := b.signer(raw)
	return ok && hmac.Equal([]byte(sign), []byte(k.signature(server, f, ref)))
}

// FindTask returns the task with an id that a client has sent. sole says whether the client's
// endpoint has only one server. An error means that the client has no such task.
func (b *Bridge) FindTask(ctx context.Context, all []Server, f *mcp.ClientInfo, sole bool, id string) (Task, error) {
	if err := b.CheckTaskPlace(id); err != nil {
		return Task{}, err
	}
	if rest, ok := withoutPlace(id); ok {
		u, text := ownerOf(all, rest)
		sign, text, _ := strings.Cut(text, "~")
		ref, isRef := mcp.ParseTaskRef(text)
		if u == nil || !isRef || !b.signed(sign, u.Name(), f, ref) {
			return Task{}, ErrNoTask
		}
		return Task{Server: u, Ref: ref}, nil
	}
	if b.OneClient && sole && len(all) == 1 && id != "" {
		form := all[0].Tasks(ctx, f)
		return Task{Server: all[0], Ref: mcp.TaskRef{ID: id}, stray: form == mcp.RequestedTasks}, nil
	}
	return Task{}, ErrNoTask
}

// ownerOf finds the server whose name is at the beginning of an id. It returns the server and the
// part of the id after the name. The server is nil if it is unknown.
func ownerOf(all []Server, rest string) (Server, string) {
	name, text, found := strings.Cut(rest, "~")
	for _, u := range all {
		if found && u.Name() == name {
			return u, text
		}
	}
	return nil, ""
}

// TaskNames returns a function that replaces the task ids in a server's notifications with the ids
// that the client f knows. sole has the same meaning as in FindTask. If it is false, the function also
// names the server in the questions of a task (SEP-2663, "Task Status Notifications").
func (b *Bridge) TaskNames(f *mcp.ClientInfo, sole bool) func(server string, m *jsonrpc.Message, e *jsonrpc.Edits) {
	return func(server string, m *jsonrpc.Message, e *jsonrpc.Edits) {
		if server == "" || m.Method != mcp.NoteTaskStatus && m.Method != mcp.NoteTask {
			return
		}
		if !sole {
			mcp.SayWhoAsksAll(e, m.Raw, m.Param("inputRequests"), server)
		}
		at := m.Param("taskId")
		text, ok := jsonrpc.Text(m.Raw, at)
		ref := mcp.TaskRef{ID: text}
		if m.Method == mcp.NoteTaskStatus {
			ref, ok = mcp.ParseTaskRef(text)
		}
		if !ok {
			return
		}
		e.Replace(mcp.WhyTaskID, at, jsonrpc.AppendQuote(nil, b.taskID(server, f, sole, ref)))
	}
}
