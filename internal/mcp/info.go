package mcp

import (
	"bytes"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// ServerInfo is what a server declares when a session opens: the result of initialize or of
// server/discover, in one form. The byte slices contain JSON and must not be modified. They are
// nil if the server sent nothing.
type ServerInfo struct {
	Revision     Revision // the agreed revision
	Versions     []string // the supported versions, in the server's spelling
	Info         []byte   // an Implementation object
	Capabilities []byte   // a JSON object
	Instructions []byte   // a JSON string
	// Raw is the whole result object. A client of the same era gets the unknown members of Raw. Raw
	// is nil if the ServerInfo is Dragoman's own.
	Raw []byte
}

// ClientInfo is what is known about a client while one of its calls runs. A legacy client has one
// ClientInfo per session, and a modern client has one per request. A ClientInfo is immutable once a
// call uses it.
type ClientInfo struct {
	Revision     Revision
	Info         []byte              // an Implementation object, nil if unknown
	Capabilities []byte              // a JSON object; nil means {}
	LogLevel     LogLevel            // the lowest severity of log messages to send; 0 means no log messages
	Who          *identity.Principal // nil if unknown
	// Conversation distinguishes clients of one principal. It is 0 for a modern HTTP request,
	// because such a request is independent of others.
	Conversation uint64
	// Remote is the network address of the client, or "" on a pipe.
	Remote string
}

// These constants limit the data that is kept about a client after its request, in bytes. A client
// may send more, up to the limit of a message. In practice, only icons in data URLs exceed these
// limits.
const (
	MaxOwnInfo         = 16 << 10
	MaxOwnCapabilities = 16 << 10
	maxOwnText         = 256 // maximum length of a name or version, if Info is too long
)

// Own returns a copy that may be kept after the request has ended. The Info and Capabilities of
// a modern client are slices of its request, so they would keep the whole request in memory.
// Parts that are too long are reduced: Info to name and version, and the capabilities to their
// canonical form. For nil, Own returns nil.
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

// shortInfo returns an Implementation object with only the members that every revision
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

// Declares reports whether the client has declared a capability as an object.
func (f *ClientInfo) Declares(capability string) bool {
	at := jsonrpc.Find(f.Capabilities, jsonrpc.Whole(f.Capabilities), capability)
	return jsonrpc.KindOf(f.Capabilities, at) == '{'
}

// Party returns the key under which the client's share of a quota is counted. The key is the
// principal. Without authentication, it is the conversation. A modern client over HTTP has no
// conversation, so its key is its address and the name that it gives.
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
