package mcp

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// ServerInfo is what a server declares when a session opens: the result of initialize or of
// server/discover, in one form. The byte slices contain JSON and must not be modified. A slice is
// nil if the server did not send the value.
type ServerInfo struct {
	Revision     Revision // the agreed revision
	Versions     []string // the supported versions, as the server wrote them
	Info         []byte   // an Implementation object
	Capabilities []byte   // a JSON object
	Instructions []byte   // a JSON string
	// Raw is the whole result object. A client of the same era gets the unknown members of Raw. Raw
	// is nil if the ServerInfo describes Dragoman itself.
	Raw []byte
}

// ClientInfo is what is known about a client while one of its calls runs. A legacy client has one
// ClientInfo per session, and a modern client has one per request. A ClientInfo is immutable once a
// call uses it.
type ClientInfo struct {
	Revision     Revision
	Info         []byte              // an Implementation object, nil if unknown
	Capabilities []byte              // a JSON object; nil means {}
	LogLevel     LogLevel            // the lowest severity of log messages to send; for 0, see WantsLog
	Who          *identity.Principal // nil if unknown
	// Conversation distinguishes clients of one principal. It is 0 for a modern HTTP request,
	// because each of these requests is independent.
	Conversation uint64
	// Remote is the network address of the client, or "" on a pipe.
	Remote string
	// Bare is the client as it has declared itself, if Capabilities has more than that; see WithElicitation. Nil
	// otherwise.
	Bare *ClientInfo
}

// These constants limit, in bytes, the data that Dragoman keeps about a client after a request. A
// client may send more data, up to the size limit of a message. In practice, only icons in data
// URLs exceed these limits.
const (
	MaxOwnInfo         = 16 << 10
	MaxOwnCapabilities = 16 << 10
	maxOwnText         = 256 // for the name and for the version, if Info is too long
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
	g.Bare = f.Bare.Own()
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

// shortInfo returns a copy of an Implementation object with only the members that every revision
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

// KnowsVendors reports whether the client has declared an extension of a vendor. The legacy revisions
// have the capability experimental for that.
func (f *ClientInfo) KnowsVendors() bool {
	raw := f.Capabilities
	for m := range jsonrpc.Members(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "extensions")) {
		if name, _ := jsonrpc.Text(raw, m.Key); !strings.HasPrefix(name, "io.modelcontextprotocol/") {
			return true
		}
	}
	for range jsonrpc.Members(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "experimental")) {
		return true
	}
	return false
}

// principalParty begins the parties of clients with a principal.
const principalParty = "principal "

// IsPrincipal reports whether a party has authenticated; see ClientInfo.Party.
func IsPrincipal(party string) bool { return strings.HasPrefix(party, principalParty) }

// Party returns the key under which the client's share of a quota is counted. The key identifies
// the principal. Without authentication, the key identifies the conversation. A modern client over
// HTTP has no conversation, so its key consists of its address and the name that it sends.
func (f *ClientInfo) Party() string {
	switch {
	case f.Who.SeatKey() != "":
		return principalParty + f.Who.SeatKey()
	case f.Conversation != 0:
		return fmt.Sprintf("conversation %d", f.Conversation)
	}
	return f.program(f.Remote)
}

// Program returns the key under which a program's share is counted if it can't be had again by opening another session,
// as [ClientInfo.Party] can. Without authentication, a program is all that has the same name on one machine, and
// machine is the key of all programs there; otherwise it's "", and so it is on a pipe.
func (f *ClientInfo) Program() (party, machine string) {
	if f.Who.SeatKey() != "" || f.Remote == "" {
		return f.Party(), ""
	}
	address := f.Remote
	if ip, err := netip.ParseAddr(address); err == nil && ip.Unmap().IsLoopback() {
		address = "loopback" // which has many addresses
	}
	return f.program(address), "machine " + address
}

func (f *ClientInfo) program(address string) string {
	who := "remote " + address
	if name, _ := jsonrpc.Text(f.Info, jsonrpc.Find(f.Info, jsonrpc.Whole(f.Info), "name")); name != "" {
		who += " " + excerpt.Line(name, 128)
	}
	return who
}
