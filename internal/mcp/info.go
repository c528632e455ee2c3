package mcp

import (
	"bytes"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// ServerInfo is what a server declares when a conversation opens: the result of
// initialize or of server/discover, in one form. The byte slices are JSON and must not
// be written to. They are nil if the server sent nothing.
type ServerInfo struct {
	Revision     Revision // the agreed revision
	Versions     []string // the supported versions, as the server wrote them
	Info         []byte   // an Implementation object
	Capabilities []byte   // an object
	Instructions []byte   // a string
	// Raw is the whole result object, so that unknown members can be passed on to a
	// client of the same era. It is nil if the ServerInfo is our own.
	Raw []byte
}

// ClientInfo is what is known of a client while one of its calls runs. A legacy client
// has one per session, a modern one has one per request. It is immutable once a call
// uses it.
type ClientInfo struct {
	Revision     Revision
	Info         []byte              // an Implementation object, nil when unknown
	Capabilities []byte              // an object, nil means {}
	LogLevel     LogLevel            // the least severe level of log messages to send; 0 none
	Who          *identity.Principal // nil if unknown
	// Conversation tells clients of one principal apart. It is 0 for a modern HTTP
	// request, which belongs to no conversation.
	Conversation uint64
	// Remote is the client's network address, "" on a pipe.
	Remote string
}

// The limits of what is kept of a client after its request, in bytes each. A client may
// send more, up to the limit of a message. In practice only icons as data URLs are
// long.
const (
	MaxOwnInfo         = 16 << 10
	MaxOwnCapabilities = 16 << 10
	maxOwnText         = 256 // of a name or version of a longer Info
)

// Own returns a copy that may be kept after the request has ended. A modern client's
// Info and Capabilities are part of its request, so keeping them would keep the whole
// request in memory. Parts that are too long are reduced: Info to name and version, the
// capabilities to their canonical form. Own of nil is nil.
func (f *ClientInfo) Own() *ClientInfo {
	if f == nil {
		return nil
	}
	g := *f
	if len(f.Info) <= MaxOwnInfo {
		g.Info = bytes.Clone(f.Info)
	} else {
		g.Info = shortInfo(f.Info)
	}
	if len(f.Capabilities) <= MaxOwnCapabilities {
		g.Capabilities = bytes.Clone(f.Capabilities)
	} else {
		g.Capabilities = CanonicalCapabilities(f.Capabilities)
	}
	return &g
}

// shortInfo returns the members of an Implementation object that every revision
// requires.
func shortInfo(info []byte) []byte {
	out := []byte{'{'}
	for _, key := range []string{"name", "version"} {
		text, ok := jsonrpc.Text(info, jsonrpc.Find(info, jsonrpc.Whole(info), key))
		if !ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, key), ':')
		out = jsonrpc.AppendQuote(out, excerpt.Cut(text, maxOwnText))
	}
	return append(out, '}')
}

// Declares reports whether the client has declared a capability, as an object.
func (f *ClientInfo) Declares(capability string) bool {
	at := jsonrpc.Find(f.Capabilities, jsonrpc.Whole(f.Capabilities), capability)
	return jsonrpc.KindOf(f.Capabilities, at) == '{'
}

// Party returns the key by which a client's share is counted: the principal; without
// authentication the conversation; and for a modern client over HTTP, which has no
// conversation, its address and the name that it gives.
func (f *ClientInfo) Party() string {
	switch {
	case f.Who.SeatKey() != "":
		return "principal " + f.Who.SeatKey()
	case f.Conversation != 0:
		return fmt.Sprintf("conversation %d", f.Conversation)
	}
	who := "remote " + f.Remote
	if name, _ := jsonrpc.Text(f.Info, jsonrpc.Find(f.Info, jsonrpc.Whole(f.Info), "name")); name != "" {
		who += " " + excerpt.Line(name, 128)
	}
	return who
}
