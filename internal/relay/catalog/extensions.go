package catalog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// maxExtensions is how many extensions of one server count. If there were a bound for all servers
// together, one of them could keep the others' extensions out, and get their requests.
const maxExtensions = 64

// extension is one extension that servers declare, and the settings of each of these servers.
type extension struct {
	name    string
	servers []int // indexes in hellos
	values  [][]byte
}

// declared returns the extensions that servers declare, in the order of the servers. It leaves out
// the extension for tasks, because the codecs derive it from the capability tasks.
func declared(hellos []*mcp.ServerInfo) (all []extension) {
	for i, h := range hellos {
		if h == nil {
			continue
		}
		caps, count := h.Capabilities, 0
		for m := range jsonrpc.Members(caps, jsonrpc.Find(caps, jsonrpc.Whole(caps), "extensions")) {
			name, ok := jsonrpc.Text(caps, m.Key)
			if !ok || name == mcp.ExtensionTasks || mcp.Authorizes(name) || jsonrpc.KindOf(caps, m.Value) != '{' {
				continue
			}
			if count++; count > maxExtensions {
				break
			}
			at := slices.IndexFunc(all, func(x extension) bool { return x.name == name })
			if at < 0 {
				at, all = len(all), append(all, extension{name: name})
			}
			if x := &all[at]; len(x.servers) == 0 || x.servers[len(x.servers)-1] != i {
				x.servers, x.values = append(x.servers, i), append(x.values, m.Value.Of(caps))
			}
		}
	}
	return all
}

// vendor reports whether no specification of MCP defines the extension.
func (x *extension) vendor() bool { return !strings.HasPrefix(x.name, "io.modelcontextprotocol/") }

// mergedExtensions returns the extensions that an endpoint declares for several servers, and one
// clause for each extension that it must leave out. A client can use the extension for tools with a
// user interface and the one for skills at any number of servers, because the requests name tools and
// resources. Requests of other extensions have methods of their own, so only one server can get
// them; see [View.Extended].
func mergedExtensions(names []string, hellos []*mcp.ServerInfo) (object []byte, left []string) {
	all, out := declared(hellos), []byte{'{'}
	for i := range all {
		x := &all[i]
		owners := claimants(all, x)
		if x.name != mcp.ExtensionApps && x.name != mcp.ExtensionSkills && len(owners) > 1 {
			left = append(left, fmt.Sprintf("the extension %q is left out, because requests cannot say which of these servers they are for: %s",
				excerpt.Cut(x.name, maxRepeated), strings.Join(named(names, owners), ", ")))
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendQuote(out, x.name), ':'), x.settings()...)
	}
	if len(out) == 1 {
		return nil, left
	}
	return append(out, '}'), left
}

// claimants returns the servers that may be meant by a request of an extension. Nothing connects
// the name of a vendor's method with the name of an extension, so all vendors' extensions count.
func claimants(all []extension, x *extension) []int {
	out := slices.Clone(x.servers)
	for i := range all {
		if x.vendor() && all[i].vendor() {
			out = append(out, all[i].servers...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func named(names []string, at []int) (out []string) {
	for _, i := range at {
		out = append(out, names[i])
	}
	return out
}

// settings returns the settings that all servers with the extension have in common. For skills, one
// server that can read directories is enough, because each server gets only the requests for its own.
func (x *extension) settings() []byte {
	for _, v := range x.values {
		if x.name == mcp.ExtensionSkills && string(jsonrpc.Find(v, jsonrpc.Whole(v), "directoryRead").Of(v)) == "true" {
			return v
		}
	}
	first, same := x.values[0], true
	for _, v := range x.values[1:] {
		same = same && bytes.Equal(v, first)
	}
	if same {
		return first
	}
	out := []byte{'{'}
	for m := range jsonrpc.Members(first, jsonrpc.Whole(first)) {
		key, _ := jsonrpc.Text(first, m.Key)
		if slices.ContainsFunc(x.values[1:], func(v []byte) bool {
			return !bytes.Equal(jsonrpc.Find(v, jsonrpc.Whole(v), key).Of(v), m.Value.Of(first))
		}) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Key.Of(first)...), ':'), m.Value.Of(first)...)
	}
	return append(out, '}')
}

// Declared returns nil if a server that the client may see has a method of an extension. Otherwise,
// it returns the error for the request.
func (v View) Declared(ctx context.Context, method string) error {
	m := mcp.LookupMethod(method)
	hellos, _ := v.hellos(ctx)
	for _, h := range hellos {
		if h != nil && m.OfferedBy(h.Capabilities) {
			return nil
		}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + method}
}

// Extended returns the server for a request whose method only a vendor's extension defines. This is
// the only visible server that declares such an extension. If no server does, or more than one,
// Extended returns an error. The same goes for methods that no vendor can have defined; see [mcp.Foreign].
func (v View) Extended(ctx context.Context, method string) (Source, error) {
	if why := mcp.Foreign(method); why != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + excerpt.Cut(method, maxRepeated) + ": " + why}
	}
	owners, names := vendors(v.hellos(ctx))
	switch len(owners) {
	case 0:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + excerpt.Cut(method, maxRepeated)}
	case 1:
		return v.c.Sources[owners[0]], nil
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf(
		"Method not found: %s: it may belong to any of these servers, so use the endpoint of one of them: %s",
		excerpt.Cut(method, maxRepeated), strings.Join(named(names, owners), ", "))}
}

// KnownExtended does the same as Extended for a notification. It reads nothing, so it does not wait. If
// there is no such server, why says so.
func (v View) KnownExtended(method string) (u Source, why string) {
	if why := mcp.Foreign(method); why != "" {
		return nil, why
	}
	switch owners, names := vendors(v.mask(v.c.knownHellos(v.c.audience(v.client)))); len(owners) {
	case 0:
		return nil, "no server declares an extension that may define the notification"
	case 1:
		return v.c.Sources[owners[0]], ""
	default:
		return nil, "the notification does not say which of these servers it is for: " + strings.Join(named(names, owners), ", ")
	}
}

// vendors returns the servers that declare a vendor's extension, and the names of all servers.
func vendors(hellos []*mcp.ServerInfo, names []string) (owners []int, _ []string) {
	all := declared(hellos)
	for i := range all {
		if all[i].vendor() {
			owners = append(owners, all[i].servers...)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners), names
}

// hellos returns the information and the names of the servers. The information is nil for a server
// that the client may not see, or that has not been read yet.
func (v View) hellos(ctx context.Context) (hellos []*mcp.ServerInfo, names []string) {
	return v.mask(v.c.hellos(ctx, v.c.audience(v.client)))
}

// mask removes the information of the servers that the client may not see. It returns hellos.
func (v View) mask(hellos []*mcp.ServerInfo) (_ []*mcp.ServerInfo, names []string) {
	names = make([]string, len(hellos))
	for i, u := range v.c.Sources {
		if names[i] = u.Name(); !v.Shows(KindServer, names[i], "") {
			hellos[i] = nil
		}
	}
	return hellos, names
}
