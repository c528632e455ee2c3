package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// These constants are prefixes of the task ids that clients get. An id contains the server and the
// session of the task, because no other part of a request about a task identifies them.
//
// For authenticated clients the id is signed for the principal. A server sees one credential for
// many users, so only Dragoman can tell whose task it is (2025-11-25 §Tasks, "Task Isolation and
// Access Control"; SEP-2663, "Auth binding").
//
// For anonymous clients the id is not signed, because it must remain valid after a restart of
// Dragoman: clients store ids, and the server may continue to run. Dragoman stores nothing for an
// id. A task has the same id in answers, server requests and notifications.
const (
	openTask   = "drgt1."
	signedTask = "drgs1."
)

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

var errNoTask error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}

// taskID returns the id that a client gets for a task. sole says whether the client's endpoint has
// only one server.
func (r *Bridge) taskID(server string, f *mcp.ClientInfo, sole bool, ref mcp.TaskRef) string {
	if f.Who.Key() != "" {
		return signedTask + server + "~" + r.signature(server, f, ref) + "~" + ref.String()
	}
	if sole && ref.Session == 0 && !strings.HasPrefix(ref.ID, openTask) && !strings.HasPrefix(ref.ID, signedTask) {
		return ref.ID // unchanged, because the endpoint has only one server
	}
	return openTask + server + "~" + ref.String()
}

// signature returns the part of an id that binds a task to a principal. The key of the signature
// does not change while the process runs, because the id of a task must not change between
// messages.
func (r *Bridge) signature(server string, f *mcp.ClientInfo, ref mcp.TaskRef) string {
	r.mu.Lock()
	if r.taskKey == nil {
		r.taskKey = make([]byte, 32)
		_, _ = rand.Read(r.taskKey) // never fails since Go 1.24
	}
	mac := hmac.New(sha256.New, r.taskKey)
	r.mu.Unlock()
	for _, part := range [...]string{f.Who.Key(), server, ref.String()} {
		sum := sha256.Sum256([]byte(part))
		mac.Write(sum[:])
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// FindTask returns the task with an id that a client has sent. sole says whether the client's
// endpoint has only one server. An error means that the client has no such task.
func (r *Bridge) FindTask(ctx context.Context, all []Server, f *mcp.ClientInfo, sole bool, id string) (Task, error) {
	if f.Who.Key() != "" {
		rest, ok := strings.CutPrefix(id, signedTask)
		u, text := ownerOf(all, rest)
		sign, text, _ := strings.Cut(text, "~")
		ref, isRef := mcp.ParseTaskRef(text)
		if !ok || u == nil || !isRef || !hmac.Equal([]byte(sign), []byte(r.signature(u.Name(), f, ref))) {
			return Task{}, errNoTask
		}
		return Task{Server: u, Ref: ref}, nil
	}
	if rest, ok := strings.CutPrefix(id, openTask); ok {
		u, text := ownerOf(all, rest)
		ref, ok := mcp.ParseTaskRef(text)
		if u == nil || !ok {
			return Task{}, errNoTask
		}
		return Task{Server: u, Ref: ref}, nil
	}
	if sole && len(all) == 1 && id != "" {
		form := all[0].Tasks(ctx, f)
		return Task{Server: all[0], Ref: mcp.TaskRef{ID: id}, stray: form == mcp.RequestedTasks}, nil
	}
	return Task{}, errNoTask
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
// that the client f knows. sole has the same meaning as in FindTask.
func (r *Bridge) TaskNames(f *mcp.ClientInfo, sole bool) func(server string, m *jsonrpc.Message, e *jsonrpc.Edits) {
	return func(server string, m *jsonrpc.Message, e *jsonrpc.Edits) {
		if server == "" || m.Method != mcp.NoteTaskStatus && m.Method != mcp.NoteTask {
			return
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
		e.Replace(mcp.WhyTaskID, at, jsonrpc.AppendQuote(nil, r.taskID(server, f, sole, ref)))
	}
}
