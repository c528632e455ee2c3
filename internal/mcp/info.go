package mcp

import (
	"bytes"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// ServerInfo is what a server says of itself when a conversation opens: the result of
// initialize or of server/discover, in one form. The byte slices are JSON, owned
// by nobody who writes, and nil where the server said nothing.
type ServerInfo struct {
	Revision     Revision // the one that was agreed on
	Versions     []string // what the server says it supports, as it says it
	Info         []byte   // an Implementation object
	Capabilities []byte   // an object
	Instructions []byte   // a string
	// Raw is the whole result object, so that members that we do not know can be
	// carried to a client of the same era. It is nil when we made the Hello.
	Raw []byte
}

// ClientInfo is what is known of a client while one of its calls runs. A legacy
// client has one for its whole session, a modern one for each request. It is not
// written to once a call carries it.
type ClientInfo struct {
	Revision     Revision
	Info         []byte              // an Implementation object, nil when unknown
	Capabilities []byte              // an object, nil means {}
	LogLevel     LogLevel            // the least severe log message that it wants; 0 none
	Who          *identity.Principal // nil for nobody in particular
	// Conversation tells clients of one principal apart; 0 for a modern HTTP
	// request, which has no conversation around it.
	Conversation uint64
	// Remote is the network address that it comes from, "" on a pipe.
	Remote string
}

// The bounds of what is kept of a client that outlives its request, in bytes each. A
// client is free to send more, as long as a message may be; an icon as data is the one
// thing that is known to be long.
const (
	MaxOwnInfo         = 16 << 10
	MaxOwnCapabilities = 16 << 10
	maxOwnText         = 256 // of a name or version of a longer Info
)

// Own returns a copy to keep after the request has ended. A modern client's Info and
// Capabilities are part of its request, so keeping them would keep the whole request in
// memory. Parts that are too long are cut to what is required: Info to name and
// version, the capabilities to their canonical form. Own of nil is nil.
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
