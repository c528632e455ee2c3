package requirements

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// URIs of the resources that always exist.
const (
	overviewURI     = scheme + "overview"
	workflowURI     = scheme + "workflow"
	instructionsURI = scheme + "instructions"
)

// overviewMost is the maximum number of items in the overview.
const overviewMost = 2000

func (s *Server) addResources() {
	s.addOverview()
	s.mcp.AddResource(&mcp.Resource{
		URI: workflowURI, Name: "workflow", Title: "Kinds, statuses and types", MIMEType: "application/json",
		Description: "For each kind of item its statuses and the statuses that may follow; the types of requirements and relations, and the priorities.",
	}, s.readResource)
	s.mcp.AddResource(&mcp.Resource{
		URI: instructionsURI, Name: "instructions", Title: "Instructions", MIMEType: "text/plain",
		Description: "The description and content of the active prompt. They are the instructions for new sessions.",
	}, s.readResource)
	s.mcp.AddResource(&mcp.Resource{
		URI: usersURI, Name: "users", Title: "Users", MIMEType: "application/json",
		Description: "Who has written what: the verified users, and the names that clients have given.",
	}, s.readResource)
	for _, c := range collections {
		s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
			URITemplate: c.template(), Name: c.name, Title: c.title, MIMEType: "application/json",
			Description: c.title + " by its " + c.argument() + ". Subscribers are notified of changes.",
		}, s.readResource)
	}
}

// addOverview adds the resource of the overview. If the SDK has this resource already, the SDK
// notifies the clients that the list of resources has changed.
func (s *Server) addOverview() {
	s.mcp.AddResource(&mcp.Resource{
		URI: overviewURI, Name: "overview", Title: "Overview", MIMEType: "text/markdown",
		Description: "All items with their ids, titles and statuses, as a nested list.",
	}, s.readResource)
}

// itemsCursor is the beginning of each cursor of resources/list.
const itemsCursor = "after:"

// listResources lists all items in pages. The first page begins with the resources that always
// exist.
func (s *Server) listResources(ctx context.Context, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	p, _ := req.GetParams().(*mcp.ListResourcesParams)
	after, rest := "", false
	if p != nil && p.Cursor != "" {
		if after, rest = strings.CutPrefix(p.Cursor, itemsCursor); !rest {
			return nil, wrong("the cursor is not valid. Use nextCursor of the previous page.")
		}
		p.Cursor = ""
	}
	res, err := next(ctx, "resources/list", req)
	list, ok := res.(*mcp.ListResourcesResult)
	if err != nil || !ok {
		return res, err
	}
	page, err := s.store.Items(ctx, store.Query{After: after, Limit: pageSize})
	if err != nil {
		return nil, protocol(err)
	}
	if rest {
		list.Resources = []*mcp.Resource{}
	}
	for _, it := range page.Items {
		list.Resources = append(list.Resources, &mcp.Resource{URI: uriOf(it.ID), Name: it.ID, Title: it.Title, MIMEType: "application/json"})
	}
	list.NextCursor = ""
	if page.Next != "" {
		list.NextCursor = itemsCursor + page.Next
	}
	return list, nil
}

// readResource returns the content of a resource.
func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, wrong(err.Error())
	}
	defer done()
	c, err := s.contents(ctx, req.Params.URI)
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}

func (s *Server) contents(ctx context.Context, uri string) (*mcp.ResourceContents, error) {
	switch uri {
	case overviewURI:
		text, err := s.overview(ctx)
		return &mcp.ResourceContents{URI: uri, MIMEType: "text/markdown", Text: text}, protocol(err)
	case usersURI:
		value, err := s.users(ctx)
		return document(uri, value), protocol(err)
	case workflowURI:
		return document(uri, workflow()), nil
	case instructionsURI:
		p, err := s.store.Active(ctx)
		if err != nil {
			return nil, protocol(err)
		}
		c := &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: p.Instructions()}
		if c.Text == "" {
			c.Blob = []byte{} // an empty blob, because the SDK leaves out an empty text
		}
		return c, nil
	}
	c, id, ok := split(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	value, actual, err := s.object(ctx, c, id)
	switch {
	case store.IsCode(err, store.NotFound), store.IsCode(err, store.Invalid), err == nil && actual != uri:
		return nil, mcp.ResourceNotFoundError(uri)
	case err != nil:
		return nil, protocol(err)
	}
	return document(uri, value), nil
}

// object returns the object with this id in the form for results, and the URI of the object. The
// URI is "" if the object is an item, but not one of the collection c.
func (s *Server) object(ctx context.Context, c collection, id string) (any, string, error) {
	switch {
	case c.kind != "":
		d, err := s.store.Details(ctx, id)
		out := detailsOf(d)
		if err == nil && d.Kind != c.kind {
			out.URI = ""
		}
		return out, out.URI, err
	case c == collections[commentCollection]:
		one, err := s.store.CommentOf(ctx, id)
		out := commentOf(one)
		return out, out.URI, err
	case c == collections[relationCollection]:
		one, err := s.store.Relation(ctx, id)
		out := relationOf(one)
		return out, out.URI, err
	}
	p, err := s.store.Prompt(ctx, id)
	out := promptOf(p)
	return out, out.URI, err
}

// document returns a resource that contains value as JSON.
func document(uri string, value any) *mcp.ResourceContents {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("JSON of %T: %v", value, err)) // impossible for the types of this package
	}
	return &mcp.ResourceContents{URI: uri, MIMEType: "application/json", Text: string(b)}
}

// protocol turns an error of the store into a JSON-RPC error.
func protocol(err error) error {
	var e *store.Error
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	code := int64(jsonrpc.CodeInternalError)
	if errors.As(err, &e) && e.Code != store.Unusable {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: sentence(err).Error()}
}

// workflow returns the statuses, types, relations and priorities that the store allows.
func workflow() any {
	type status struct {
		Status string         `json:"status"`
		Next   []store.Status `json:"next_statuses"`
	}
	type kind struct {
		Kind     store.Kind `json:"kind"`
		Prefix   string     `json:"id_prefix"`
		Statuses []status   `json:"statuses"`
	}
	out := struct {
		Kinds      []kind   `json:"kinds"`
		Types      []string `json:"requirement_types"`
		Relations  []string `json:"relation_types"`
		Priorities []string `json:"priorities"`
	}{nil, store.Types(), store.RelationTypes(), store.Priorities()}
	for _, k := range store.Kinds() {
		one := kind{Kind: k, Prefix: store.Prefix(k)}
		for _, st := range store.Statuses(k) {
			one.Statuses = append(one.Statuses, status{string(st), store.Next(k, st)})
		}
		out.Kinds = append(out.Kinds, one)
	}
	return out
}

// overview returns the items as a nested list, at most overviewMost of them.
func (s *Server) overview(ctx context.Context) (string, error) {
	d, err := s.store.Dump(ctx, "", maxExport)
	if store.IsCode(err, store.Full) {
		return "There are too many items for an overview. List them with the tool list_items.\n", nil
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	lines := 0
	walk(d, "", func(it store.Item, depth int) bool {
		if lines++; lines > overviewMost {
			return false
		}
		fmt.Fprintf(&b, "%s- %s %s (%s)\n", strings.Repeat("  ", depth), it.ID, it.Title, it.Status)
		return true
	})
	switch {
	case lines == 0:
		return "There are no items yet. Create one with the tool create_item.\n", nil
	case lines > overviewMost:
		b.WriteString("\n… there are more; list them with the tool list_items.\n")
	}
	return b.String(), nil
}

// completions is the maximum number of values in a completion.
const completions = 100

// complete completes the ids and names in URI templates, and the ids in the arguments of prompts.
func (s *Server) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, wrong(err.Error())
	}
	defer done()
	value := strings.ToUpper(strings.TrimSpace(req.Params.Argument.Value))
	var out mcp.CompletionResultDetails
	switch ref := req.Params.Ref; ref.Type {
	case "ref/prompt":
		p, err := s.store.Prompt(ctx, ref.Name)
		if err != nil {
			return nil, protocol(err)
		}
		if !slices.Contains(placeholders(p), req.Params.Argument.Name) {
			break
		}
		kinds := kindsOf(req.Params.Argument.Name)
		if len(kinds) == 1 {
			out, err = s.completeItems(ctx, kinds[0], value)
		} else if len(kinds) > 1 {
			out, err = s.completeItems(ctx, "", value)
		}
		if err != nil {
			return nil, protocol(err)
		}
	case "ref/resource":
		out, err = s.completeURI(ctx, ref.URI, value)
		if err != nil {
			return nil, err
		}
	}
	if out.Values == nil {
		out.Values = []string{}
	}
	return &mcp.CompleteResult{Completion: out}, nil
}

func (s *Server) completeURI(ctx context.Context, uri, value string) (out mcp.CompletionResultDetails, err error) {
	for i, c := range collections {
		if c.template() != uri {
			continue
		}
		switch {
		case c.kind != "":
			out, err = s.completeItems(ctx, c.kind, value)
		case i == promptCollection:
			var all []store.Prompt
			all, err = s.store.Prompts(ctx)
			for _, p := range all {
				if strings.HasPrefix(strings.ToUpper(p.Name), value) && len(out.Values) < completions {
					out.Values = append(out.Values, p.Name)
				}
			}
		default:
			out.Values, err = s.store.IDs(ctx, c.prefix, value, completions)
		}
		return out, protocol(err)
	}
	return out, wrong(fmt.Sprintf("there is no template %q. List them with resources/templates/list.", uri))
}

// completeItems returns the ids that begin with value. If no id begins with value, it returns the
// ids of items whose texts contain value.
func (s *Server) completeItems(ctx context.Context, k store.Kind, value string) (mcp.CompletionResultDetails, error) {
	p, err := s.store.Items(ctx, store.Query{Kind: k, Prefix: value, Limit: completions})
	if err == nil && len(p.Items) == 0 && len(value) <= store.MaxSearch {
		p, err = s.store.Items(ctx, store.Query{Kind: k, Search: value, Limit: completions})
	}
	out := mcp.CompletionResultDetails{Total: p.Total, HasMore: p.Next != ""}
	for _, it := range p.Items {
		out.Values = append(out.Values, it.ID)
	}
	return out, err
}
