package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// The ids by which clients know tasks. An id says which server has the task and in
// which of its sessions, since nothing else in a request about a task does. Where
// somebody has signed in it is sealed to that principal: behind one credential for
// many users only we can tell whose a task is (2025-11-25 §Tasks, "Task Isolation
// and Access Control"; SEP-2663, "Auth binding"). Where nobody has there is nothing
// to seal, and an id must outlive us: clients store it, and the server may be
// there longer than we are. Nothing is kept for an id.
const (
	openTask   = "drgt1."
	sealedTask = "drgs1."
)

// place is where a task is.
type place struct {
	server Upstream
	ref    mcp.TaskRef
	// stray: a task of a legacy server under an id that is not from us. The server
	// will know whether there is one.
	stray bool
}

// form is how the server of the place has tasks: those of the old era have a session.
func (p place) form() mcp.TaskForm {
	if p.ref.Session != 0 || p.stray {
		return mcp.RequestedTasks
	}
	return mcp.DirectedTasks
}

var errNoTask error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}

// taskID returns the id under which a client knows a task. sole says that no other
// server stands behind the client's endpoint.
func (r *Relay) taskID(u Upstream, f *mcp.ClientFacts, sole bool, ref mcp.TaskRef) (string, error) {
	if f.Principal != "" {
		k, err := r.key()
		if err != nil {
			return "", err
		}
		sealed := k.aead.Seal(bytes.Clone(k.id[:]), nil, []byte(ref.String()), taskBinding(u.Name(), f))
		return sealedTask + u.Name() + "~" + base64.RawURLEncoding.EncodeToString(sealed), nil
	}
	if sole && ref.Session == 0 && !strings.HasPrefix(ref.ID, openTask) && !strings.HasPrefix(ref.ID, sealedTask) {
		return ref.ID, nil // there is nothing to say
	}
	return openTask + u.Name() + "~" + ref.String(), nil
}

func taskBinding(server string, f *mcp.ClientFacts) []byte {
	sum := sha256.Sum256([]byte("task\x00" + server + "\x00" + f.Principal))
	return sum[:]
}

// placeOf returns where the task is that a client means; errNoTask for what is no
// task of its.
func (r *Relay) placeOf(ctx context.Context, all []Upstream, f *mcp.ClientFacts, sole bool, id string) (place, error) {
	if f.Principal != "" {
		rest, ok := strings.CutPrefix(id, sealedTask)
		u, text := ownerOf(all, rest)
		if !ok || u == nil {
			return place{}, errNoTask
		}
		sealed, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(sealed) < keyIDLen {
			return place{}, errNoTask
		}
		k, ok := r.keyByID([keyIDLen]byte(sealed))
		if !ok {
			return place{}, errNoTask
		}
		plain, err := k.aead.Open(nil, nil, sealed[keyIDLen:], taskBinding(u.Name(), f))
		if err != nil {
			return place{}, errNoTask
		}
		ref, ok := mcp.ParseTaskRef(string(plain))
		if !ok {
			return place{}, errNoTask
		}
		return place{server: u, ref: ref}, nil
	}
	if rest, ok := strings.CutPrefix(id, openTask); ok {
		u, text := ownerOf(all, rest)
		ref, ok := mcp.ParseTaskRef(text)
		if u == nil || !ok {
			return place{}, errNoTask
		}
		return place{server: u, ref: ref}, nil
	}
	if sole && len(all) == 1 && id != "" {
		form, _ := all[0].Tasks(ctx, f, "")
		return place{server: all[0], ref: mcp.TaskRef{ID: id}, stray: form == mcp.RequestedTasks}, nil
	}
	return place{}, errNoTask
}

// ownerOf reads the server's name that an id begins with.
func ownerOf(all []Upstream, rest string) (Upstream, string) {
	name, text, found := strings.Cut(rest, "~")
	for _, u := range all {
		if found && u.Name() == name {
			return u, text
		}
	}
	return nil, ""
}

// taskNames puts the ids of tasks in notices into the words of the client f.
func (r *Relay) taskNames(f *mcp.ClientFacts, sole bool) rename {
	return func(u Upstream, m *jsonrpc.Message, e *jsonrpc.Edits) {
		if u == nil || m.Method != mcp.NoteTaskStatus && m.Method != mcp.NoteTask {
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
		if id, err := r.taskID(u, f, sole, ref); err == nil {
			e.Replace(at, jsonrpc.AppendQuote(nil, id))
		}
	}
}
