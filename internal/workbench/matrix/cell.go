package matrix

import (
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Transport is a transport between two peers.
type Transport string

// These transports connect a client with Dragoman, and Dragoman with a server.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http" // Streamable HTTP
	SSE   Transport = "sse"  // HTTP+SSE
)

// Transports returns the transports that a revision defines. The matrix tests each of these
// transports. The revision must be known.
func Transports(r mcp.Revision) []Transport {
	if r.Can(mcp.StreamableHTTP) {
		return []Transport{Stdio, HTTP}
	}
	return []Transport{Stdio, SSE}
}

// Outcome is the result of testing a feature between two peers.
type Outcome string

// Absent is the outcome of a feature that neither end of a pair has. Nothing is lost then: the pair could
// not have had the feature without Dragoman either. None is the direct outcome of a pair that was not tested without Dragoman: the two peers have
// different transports, or Options.Through is set.
const (
	Works  Outcome = "works"
	Loss   Outcome = "loss"
	Absent Outcome = "absent"
	Fails  Outcome = "fails"
	None   Outcome = "n/a"
)

// Pair is one client and one server, with their transports.
type Pair struct {
	Client, Server                   mcp.Revision
	ClientTransport, ServerTransport Transport
}

func (p Pair) String() string {
	return fmt.Sprintf("%s %s > %s %s", p.Client, p.ClientTransport, p.Server, p.ServerTransport)
}

// Cell is one feature of one pair.
type Cell struct {
	Pair
	Feature string
	Outcome Outcome // the outcome through Dragoman
	Direct  Outcome // the outcome without Dragoman
	// Reason says what is lost or absent, or why the feature failed. It is "" if the feature works.
	Reason string
	// DirectReason is the reason for the outcome without Dragoman.
	DirectReason string
	// Console is the outcome through a serve that lets questions wait for a person. It's measured where that may help
	// (see consoleHelps), and otherwise the same as Outcome. ConsoleReason is as Reason.
	Console       Outcome
	ConsoleReason string
}

// Filter selects the pairs and features to measure. The zero Filter selects everything.
type Filter struct {
	// Clients and Servers are the revisions to measure. An empty list means all revisions.
	Clients, Servers []mcp.Revision
	// ClientTransports and ServerTransports are the transports to measure. An empty list means all
	// transports.
	ClientTransports, ServerTransports []Transport
	// Features are the names of the features to measure. An empty list means all features.
	Features []string
}

func wanted[T comparable](from []T, v T) bool { return len(from) == 0 || slices.Contains(from, v) }

// revisions returns all revisions, oldest first.
func revisions() []mcp.Revision {
	all := mcp.Revisions()
	slices.Reverse(all)
	return all
}

// pairs returns the selected pairs, oldest revisions first.
func (f *Filter) pairs() []Pair {
	var out []Pair
	for _, client := range revisions() {
		for _, server := range revisions() {
			for _, ct := range Transports(client) {
				for _, st := range Transports(server) {
					if wanted(f.Clients, client) && wanted(f.Servers, server) && wanted(f.ClientTransports, ct) && wanted(f.ServerTransports, st) {
						out = append(out, Pair{client, server, ct, st})
					}
				}
			}
		}
	}
	return out
}

// Features returns the names of the features in the order in which they are tested.
func Features() []string {
	var names []string
	for _, f := range features() {
		names = append(names, f.name)
	}
	return names
}
