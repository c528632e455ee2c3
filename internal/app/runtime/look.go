package runtime

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// looked are the lists that Look reads, in this order.
var looked = []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates}

// looking is all that a client may send that looks. It's what clients ask before anybody uses anything: no tool is called,
// no prompt is filled in and no resource is read.
var looking = append([]string{mcp.MethodInitialize, mcp.MethodDiscover}, looked...)

// ErrOnlyLooks is the error for anything else.
var ErrOnlyLooks = errors.New("whoever looks as somebody else only lists, and uses nothing")

// Bounds of a look.
const (
	mostLooked      = 2000    // items of a list
	mostLookedBytes = 4 << 20 // of a list
)

// Looked is what a client gets of an endpoint before it uses anything.
type Looked struct {
	// Refused is how the client isn't let in, and Failed the error that its handshake gets. Then there is nothing else.
	Refused      *Refused
	Failed       *jsonrpc.Error
	Instructions string
	Lists        []LookedList
}

// LookedList is a list as a client gets it.
type LookedList struct {
	Method string
	Items  [][]byte       // as the client gets them
	More   bool           // there are more than a look reads
	Failed *jsonrpc.Error // the answer, if it isn't a list
}

// Look returns what whoever comes with an API key gets at an endpoint; see Visit for server. It's a client of the endpoint
// itself, so everything that decides about the key's own clients decides here. Three things differ, since nobody who has
// the key is there: the client can only list, it counts for no limit, and it has nobody's sign-in, so that a server at
// which the key's owner has signed in answers as before that. Of o, Look uses the revision, the information and the
// capabilities.
func (p *Project) Look(ctx context.Context, key, server string, o VisitOptions) (out Looked, err error) {
	who, err := p.holder(key)
	var denied *httpdoor.Denied
	if errors.As(err, &denied) {
		status := denied.Status
		if status == 0 {
			status = http.StatusUnauthorized
		}
		out.Refused = &Refused{status, denied.Reason}
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if _, out.Refused = p.enterAt(who, server); out.Refused != nil {
		if out.Refused.Text == "" {
			out.Refused.Text = httpdoor.Nothing(p.pathOf(server))
		}
		return out, nil
	}
	o = VisitOptions{Who: who, Remote: o.Remote, Revision: o.Revision, Info: o.Info, Capabilities: o.Capabilities}
	v, err := p.Visit(ctx, server, o)
	if errors.As(err, &out.Failed) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer v.Close()
	if v.hello == nil {
		if v.hello, err = v.Call(ctx, mcp.MethodDiscover, []byte("{}")); err != nil {
			return out, err
		}
	}
	if v.hello.Kind == jsonrpc.Failure {
		out.Failed = wireError(v.hello)
		return out, nil
	}
	out.Instructions, _ = jsonrpc.Text(v.hello.Raw, v.hello.ResultMember("instructions"))
	for _, method := range looked {
		l, err := v.list(ctx, method)
		if err != nil {
			return out, err
		}
		out.Lists = append(out.Lists, l)
	}
	return out, nil
}

// pathOf returns the path of an endpoint as Visit knows it.
func (p *Project) pathOf(server string) string {
	all := p.joined.endpoint.Path()
	switch server {
	case "":
		return all
	case SearchEndpoint:
		return p.find.endpoint.Path()
	}
	return strings.TrimSuffix(all, "/mcp") + "/s/" + server + "/mcp"
}

// SignsPeopleIn reports whether a server knows people by their sign-in.
func (p *Project) SignsPeopleIn(server string) bool { return p.signers.CanSignIn(server) }

// holder returns whoever comes with a key, as the one as whom somebody looks.
func (p *Project) holder(key string) (*identity.Principal, error) {
	if p.runtime.opts.Holder == nil {
		return nil, ErrNobody
	}
	who, err := p.runtime.opts.Holder(key)
	if err == nil {
		who = who.Running(identity.Look)
	}
	if err == nil && who == nil {
		err = ErrNobody
	}
	return who, err
}

// list reads a list, as far as a look does.
func (v *Visitor) list(ctx context.Context, method string) (out LookedList, err error) {
	out.Method = method
	params, size, key := []byte("{}"), 0, mcp.LookupMethod(method).ListKey
	for {
		answer, err := v.Call(ctx, method, params)
		if err != nil {
			return out, err
		}
		if answer.Kind == jsonrpc.Failure {
			out.Failed = wireError(answer)
			return out, nil
		}
		for x := range answer.At(answer.ResultMember(key)).Elements() {
			raw := x.Raw()
			if size += len(raw); len(out.Items) == mostLooked || size > mostLookedBytes {
				out.More = true
				return out, nil
			}
			out.Items = append(out.Items, raw)
		}
		cursor := answer.ResultMember("nextCursor")
		if text, ok := jsonrpc.Text(answer.Raw, cursor); !ok || text == "" {
			return out, nil
		}
		if len(out.Items) == 0 { // a server that only ever has another page
			out.More = true
			return out, nil
		}
		params = append(append([]byte(`{"cursor":`), cursor.Of(answer.Raw)...), '}')
	}
}
