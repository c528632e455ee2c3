package requirements

import (
	"context"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

func (s *Server) addTools() {
	s.addItemTools()
	s.addLinkTools()
	s.addExport()
	s.addPromptTools()
}

// words sets the values that p allows.
func words[T ~string](p *jsonschema.Schema, values []T) {
	for _, v := range values {
		p.Enum = append(p.Enum, string(v))
	}
}

// longest sets the maximum length of a text argument. A schema counts characters, and a character
// has up to four bytes in UTF-8. So the store also checks the length in bytes.
func longest(p *jsonschema.Schema, most int) { p.MaxLength = &most }

// statuses returns the statuses of all kinds, each once.
func statuses() []store.Status {
	var all []store.Status
	seen := map[store.Status]bool{}
	for _, k := range store.Kinds() {
		for _, st := range store.Statuses(k) {
			if !seen[st] {
				seen[st] = true
				all = append(all, st)
			}
		}
	}
	return all
}

// restrictItem sets the allowed values and the limits of the arguments that several tools share.
func restrictItem(p map[string]*jsonschema.Schema) {
	for name, schema := range p {
		switch name {
		case "kind":
			words(schema, store.Kinds())
		case "status":
			words(schema, statuses())
		case "type":
			words(schema, store.Types())
		case "priority":
			words(schema, store.Priorities())
		case "title":
			longest(schema, store.MaxTitle)
		case "description":
			longest(schema, store.MaxDescription)
		case "limit":
			tools.Range(schema, 1, store.MaxPage)
		case "version":
			tools.Range(schema, 1, 1<<53)
		case "query":
			longest(schema, store.MaxSearch)
		}
	}
}

type createIn struct {
	Kind        store.Kind `json:"kind" jsonschema:"what to create"`
	Title       string     `json:"title" jsonschema:"one line; for a user story for example: As a … I want … so that …"`
	Description string     `json:"description,omitempty" jsonschema:"Markdown"`
	Parent      string     `json:"parent,omitempty" jsonschema:"the id of the item that it belongs to: an epic for a user story; a user story for an acceptance criterion (required); an epic, user story or acceptance criterion for a requirement; none for an epic"`
	Type        string     `json:"type,omitempty" jsonschema:"for a requirement only; without it, functional"`
	Priority    string     `json:"priority,omitempty" jsonschema:"without it, medium"`
}

type idIn struct {
	ID string `json:"id" jsonschema:"the reference id, for example REQ-001"`
}

type listIn struct {
	Kind     store.Kind   `json:"kind,omitempty"`
	Status   store.Status `json:"status,omitempty"`
	Type     string       `json:"type,omitempty" jsonschema:"the type of requirements"`
	Priority string       `json:"priority,omitempty"`
	Parent   string       `json:"parent,omitempty" jsonschema:"the id of the item to which the results belong"`
	Limit    int          `json:"limit,omitempty" jsonschema:"the most items of a page; without it, 50"`
	Cursor   string       `json:"cursor,omitempty" jsonschema:"next_cursor of the previous page"`
}

type searchIn struct {
	Query string `json:"query" jsonschema:"words that must all occur in the id, the title, the description or the comments of an item; case does not matter"`
	listIn
}

type listOut struct {
	Items      []summary `json:"items"`
	Total      int       `json:"total" jsonschema:"the number of items on all pages"`
	NextCursor string    `json:"next_cursor,omitempty" jsonschema:"for the next page"`
}

type updateIn struct {
	ID          string        `json:"id" jsonschema:"the reference id"`
	Version     int64         `json:"version" jsonschema:"the version that you have read; if somebody changed the item meanwhile, the update fails"`
	Title       *string       `json:"title,omitempty"`
	Description *string       `json:"description,omitempty" jsonschema:"replaces the whole description"`
	Status      *store.Status `json:"status,omitempty" jsonschema:"one of next_statuses of the item"`
	Type        *string       `json:"type,omitempty" jsonschema:"for a requirement only"`
	Priority    *string       `json:"priority,omitempty"`
	Parent      *string       `json:"parent,omitempty" jsonschema:"the id of the new parent; an empty text removes the parent"`
}

func (s *Server) addItemTools() {
	add(s, tool{
		name: "create_item", title: "Create an item", writes: true,
		description: "Creates an epic, user story, acceptance criterion or requirement, and returns it with its new reference id. To change its status later, use update_item.",
		restrict:    restrictItem,
	}, func(ctx context.Context, req *mcp.CallToolRequest, in createIn) (item, error) {
		who, err := s.writer(req, "")
		if err != nil {
			return item{}, err
		}
		it, err := s.store.Create(ctx, store.Item{Author: who, Kind: in.Kind, Title: in.Title, Description: in.Description, Parent: in.Parent, Type: in.Type, Priority: in.Priority})
		return itemOf(it), err
	})
	add(s, tool{
		name: "get_item", title: "Read an item",
		description: "Returns an item by its reference id, with its children, relations and newest comments.",
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in idIn) (details, error) {
		d, err := s.store.Details(ctx, in.ID)
		return detailsOf(d), err
	})
	add(s, tool{
		name: "list_items", title: "List items",
		description: "Lists items in pages: epics first, then user stories, acceptance criteria and requirements, each by number. The arguments select items.",
		restrict:    restrictItem,
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in listIn) (listOut, error) {
		return s.list(ctx, in.query())
	})
	add(s, tool{
		name: "search_items", title: "Search items",
		description: "Finds items by words in their ids, titles, descriptions and comments. The other arguments narrow the search.",
		restrict:    restrictItem,
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in searchIn) (listOut, error) {
		q := in.query()
		if q.Search = in.Query; strings.TrimSpace(in.Query) == "" {
			return listOut{}, &store.Error{Code: store.Invalid, Text: "the query is empty", Next: "add a word, or use list_items"}
		}
		return s.list(ctx, q)
	})
	add(s, tool{
		name: "update_item", title: "Change an item", writes: true, destroys: true, idempotent: true,
		description: "Changes an item. Arguments that are left out stay as they are. A status must be one of the item's next_statuses. Items are never deleted; set the status cancelled or obsolete instead.",
		restrict:    restrictItem,
	}, func(ctx context.Context, req *mcp.CallToolRequest, in updateIn) (item, error) {
		who, err := s.writer(req, "")
		if err != nil {
			return item{}, err
		}
		it, err := s.store.Update(ctx, in.ID, in.Version, store.Update{Editor: who, Title: in.Title, Description: in.Description, Status: in.Status, Type: in.Type, Priority: in.Priority, Parent: in.Parent})
		return itemOf(it), err
	})
}

func (in listIn) query() store.Query {
	return store.Query{Kind: in.Kind, Status: in.Status, Type: in.Type, Priority: in.Priority, Parent: in.Parent, Limit: in.Limit, After: in.Cursor}
}

func (s *Server) list(ctx context.Context, q store.Query) (listOut, error) {
	p, err := s.store.Items(ctx, q)
	return listOut{Items: summaries(p.Items), Total: p.Total, NextCursor: p.Next}, err
}

type linkIn struct {
	Source string `json:"source" jsonschema:"the id of the item from which the relation leads"`
	Type   string `json:"type" jsonschema:"for example: source depends_on target"`
	Target string `json:"target" jsonschema:"the id of the item to which it leads"`
}

type commentIn struct {
	Item   string `json:"item" jsonschema:"the id of the item"`
	Text   string `json:"text" jsonschema:"Markdown"`
	Author string `json:"author,omitempty" jsonschema:"without it, the name of the client; if Dragoman knows who calls, that counts instead"`
}

type resolveIn struct {
	ID       string `json:"id" jsonschema:"the id of the comment, for example CM-001"`
	Resolved *bool  `json:"resolved,omitempty" jsonschema:"false opens the comment again; without it, true"`
}

type commentsIn struct {
	Item   string `json:"item" jsonschema:"the id of the item"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most comments of a page; without it, 50"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the previous page"`
}

type commentsOut struct {
	Comments   []comment `json:"comments" jsonschema:"the newest first"`
	NextCursor string    `json:"next_cursor,omitempty" jsonschema:"for the next page"`
}

func (s *Server) addLinkTools() {
	restrict := func(p map[string]*jsonschema.Schema) { words(p["type"], store.RelationTypes()) }
	add(s, tool{
		name: "link_items", title: "Link two items", writes: true,
		description: "Adds a relation from one item to another. conflicts_with and relates_to mean the same in both directions. To make an item part of another one, set its parent with update_item.",
		restrict:    restrict,
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in linkIn) (relation, error) {
		r, err := s.store.Link(ctx, in.Source, in.Type, in.Target)
		return relationOf(r), err
	})
	add(s, tool{
		name: "unlink_items", title: "Remove a relation", writes: true, destroys: true,
		description: "Removes the relation between two items, and returns it.",
		restrict:    restrict,
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in linkIn) (relation, error) {
		r, err := s.store.Unlink(ctx, in.Source, in.Type, in.Target)
		return relationOf(r), err
	})
	add(s, tool{
		name: "add_comment", title: "Comment on an item", writes: true,
		description: "Adds a comment to an item.",
		restrict:    func(p map[string]*jsonschema.Schema) { longest(p["text"], store.MaxComment) },
	}, func(ctx context.Context, req *mcp.CallToolRequest, in commentIn) (comment, error) {
		who, err := s.writer(req, in.Author)
		if err != nil {
			return comment{}, err
		}
		c, err := s.store.Comment(ctx, store.Comment{Item: in.Item, Author: who, Text: in.Text})
		return commentOf(c), err
	})
	add(s, tool{
		name: "resolve_comment", title: "Resolve a comment", writes: true, idempotent: true,
		description: "Marks a comment as resolved, or as open again.",
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in resolveIn) (comment, error) {
		c, err := s.store.Resolve(ctx, in.ID, in.Resolved == nil || *in.Resolved)
		return commentOf(c), err
	})
	add(s, tool{
		name: "list_comments", title: "List comments",
		description: "Lists the comments on an item in pages, the newest first.",
		restrict:    restrictItem,
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in commentsIn) (commentsOut, error) {
		list, next, err := s.store.Comments(ctx, in.Item, in.Cursor, in.Limit)
		return commentsOut{Comments: comments(list), NextCursor: next}, err
	})
}
