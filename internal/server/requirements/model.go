package requirements

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// item is the form of an item in results and resources.
type item struct {
	ID           string   `json:"id" jsonschema:"the reference id, which never changes"`
	Kind         string   `json:"kind"`
	Parent       string   `json:"parent,omitempty" jsonschema:"the id of the item that this one belongs to"`
	Title        string   `json:"title"`
	Description  string   `json:"description,omitempty"`
	Status       string   `json:"status"`
	NextStatuses []string `json:"next_statuses" jsonschema:"the statuses that may follow"`
	Type         string   `json:"type,omitempty" jsonschema:"the type of a requirement"`
	Priority     string   `json:"priority"`
	Version      int64    `json:"version" jsonschema:"for update_item"`
	Author       string   `json:"author,omitempty" jsonschema:"who created the item"`
	AuthorID     string   `json:"author_id,omitempty" jsonschema:"the id of the author; without it, the author is only what the client said"`
	Editor       string   `json:"editor,omitempty" jsonschema:"who changed the item last"`
	EditorID     string   `json:"editor_id,omitempty" jsonschema:"as author_id"`
	Created      string   `json:"created"`
	Updated      string   `json:"updated"`
	URI          string   `json:"uri" jsonschema:"the resource"`
}

// summary is the short form of an item in lists.
type summary struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Parent   string `json:"parent,omitempty"`
	Title    string `json:"title"`
	Status   string `json:"status"`
	Type     string `json:"type,omitempty"`
	Priority string `json:"priority"`
	Version  int64  `json:"version"`
}

type relation struct {
	ID      string `json:"id"`
	Source  string `json:"source"`
	Type    string `json:"type"`
	Target  string `json:"target"`
	Created string `json:"created"`
	URI     string `json:"uri" jsonschema:"the resource"`
}

type comment struct {
	ID       string `json:"id"`
	Item     string `json:"item"`
	Author   string `json:"author,omitempty"`
	AuthorID string `json:"author_id,omitempty" jsonschema:"the id of the author; without it, the author is only what the client said"`
	Text     string `json:"text"`
	Resolved bool   `json:"resolved"`
	Created  string `json:"created"`
	URI      string `json:"uri" jsonschema:"the resource"`
}

type details struct {
	item
	Children      []summary  `json:"children" jsonschema:"the items that belong to this one, at most 200; list_items has all"`
	ChildrenTotal int        `json:"children_total"`
	Relations     []relation `json:"relations" jsonschema:"the relations from and to the item, at most 200"`
	Comments      []comment  `json:"comments" jsonschema:"the newest comments first, at most 20; list_comments has all"`
	CommentsTotal int        `json:"comments_total"`
}

type prompt struct {
	Name        string   `json:"name"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Content     string   `json:"content,omitempty"`
	Arguments   []string `json:"arguments" jsonschema:"the names in double braces"`
	Active      bool     `json:"active" jsonschema:"the description and content of the active prompt are the instructions of the server"`
	Version     int64    `json:"version" jsonschema:"for save_prompt"`
	Editor      string   `json:"editor,omitempty" jsonschema:"who saved this version"`
	EditorID    string   `json:"editor_id,omitempty" jsonschema:"the id of the editor; without it, the editor is only what the client said"`
	Updated     string   `json:"updated"`
	URI         string   `json:"uri" jsonschema:"the resource"`
}

func itemOf(it store.Item) item {
	next := []string{}
	for _, n := range store.Next(it.Kind, it.Status) {
		next = append(next, string(n))
	}
	return item{
		ID: it.ID, Kind: string(it.Kind), Parent: it.Parent, Title: it.Title, Description: it.Description,
		Status: string(it.Status), NextStatuses: next, Type: it.Type, Priority: it.Priority,
		Version: it.Version, Author: it.Author.Name, AuthorID: it.Author.ID, Editor: it.Editor.Name, EditorID: it.Editor.ID, Created: it.Created, Updated: it.Updated, URI: uriOf(it.ID),
	}
}

func summaries(all []store.Item) []summary {
	list := []summary{}
	for _, it := range all {
		list = append(list, summary{it.ID, string(it.Kind), it.Parent, it.Title, string(it.Status), it.Type, it.Priority, it.Version})
	}
	return list
}

func relationOf(r store.Relation) relation {
	return relation{r.ID, r.Source, r.Type, r.Target, r.Created, uriOf(r.ID)}
}

func commentOf(c store.Comment) comment {
	return comment{c.ID, c.Item, c.Author.Name, c.Author.ID, c.Text, c.Resolved, c.Created, uriOf(c.ID)}
}

func comments(all []store.Comment) []comment {
	list := []comment{}
	for _, c := range all {
		list = append(list, commentOf(c))
	}
	return list
}

// detailsOf returns d in the form for results, with at most 20 comments, because one comment can
// have 16 KiB.
func detailsOf(d store.Details) details {
	out := details{
		item: itemOf(d.Item), Children: summaries(d.Children), ChildrenTotal: d.ChildrenTotal,
		Relations: []relation{}, Comments: comments(d.Comments[:min(len(d.Comments), 20)]), CommentsTotal: d.CommentsTotal,
	}
	for _, r := range d.Relations {
		out.Relations = append(out.Relations, relationOf(r))
	}
	return out
}

func promptOf(p store.Prompt) prompt {
	return prompt{p.Name, p.Title, p.Description, p.Content, placeholders(p), p.Active, p.Version, p.Editor.Name, p.Editor.ID, p.Updated, collections[promptCollection].uri(p.Name)}
}

// collection is a group of resources whose URIs differ only in the id or name at the end.
type collection struct {
	name   string // the first part of the URI after scheme, and the name of the URI template
	prefix string // the prefix of the ids; "" for prompts
	kind   store.Kind
	title  string
}

// scheme is the beginning of all URIs.
const scheme = "requirements://"

// Indexes in the slice collections. The collections of items come first, in the order of
// store.Kinds.
const (
	commentCollection = iota + 4
	relationCollection
	promptCollection
)

var collections = []collection{
	{"epics", store.Prefix(store.Epic), store.Epic, "An epic"},
	{"user-stories", store.Prefix(store.Story), store.Story, "A user story"},
	{"acceptance-criteria", store.Prefix(store.Criterion), store.Criterion, "An acceptance criterion"},
	{"requirements", store.Prefix(store.Requirement), store.Requirement, "A requirement"},
	{"comments", "CM", "", "A comment"},
	{"relations", "REL", "", "A relation"},
	{"prompts", "", "", "A prompt"},
}

func (c collection) uri(id string) string { return scheme + c.name + "/" + id }

// argument returns the name of the variable in the URI template.
func (c collection) argument() string {
	if c.prefix == "" {
		return "name"
	}
	return "id"
}

func (c collection) template() string { return c.uri("{" + c.argument() + "}") }

// uriOf returns the URI of the object with this id, or "" if no collection has ids with the prefix
// of this id.
func uriOf(id string) string {
	prefix, _, _ := strings.Cut(id, "-")
	i := slices.IndexFunc(collections, func(c collection) bool { return c.prefix == prefix && prefix != "" })
	if i < 0 {
		return ""
	}
	return collections[i].uri(id)
}

// split returns the collection of a URI, and the id or name at the end of the URI. ok is false if
// the URI has another form.
func split(uri string) (c collection, id string, ok bool) {
	rest, ok := strings.CutPrefix(uri, scheme)
	name, id, slash := strings.Cut(rest, "/")
	i := slices.IndexFunc(collections, func(c collection) bool { return c.name == name })
	if !ok || !slash || i < 0 || id == "" {
		return collection{}, "", false
	}
	id, err := url.PathUnescape(id)
	return collections[i], id, err == nil && collections[i].uri(id) == uri
}
