package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of an item: epic, user story, acceptance criterion or requirement.
type Kind string

// The kinds of items, in the order in which lists show them.
const (
	Epic        Kind = "epic"
	Story       Kind = "user_story"
	Criterion   Kind = "acceptance_criterion"
	Requirement Kind = "requirement"
)

// Kinds returns all kinds in the order in which lists show them.
func Kinds() []Kind { return []Kind{Epic, Story, Criterion, Requirement} }

// rule contains the properties of the items of one kind.
type rule struct {
	prefix   string   // the prefix of the reference ids
	noun     string   // the name of the kind in sentences, with its article
	parents  []Kind   // kinds of possible parents
	orphans  bool     // an item of this kind may have no parent
	statuses []Status // the first is the status of a new item
}

var rules = map[Kind]rule{
	Epic:        {prefix: "EP", noun: "an epic", orphans: true, statuses: []Status{"backlog", "draft", "in_progress", "done", "cancelled"}},
	Story:       {prefix: "US", noun: "a user story", parents: []Kind{Epic}, orphans: true, statuses: []Status{"backlog", "draft", "in_progress", "done", "cancelled"}},
	Criterion:   {prefix: "AC", noun: "an acceptance criterion", parents: []Kind{Story}, statuses: []Status{"open", "met", "failed", "obsolete"}},
	Requirement: {prefix: "REQ", noun: "a requirement", parents: []Kind{Epic, Story, Criterion}, orphans: true, statuses: []Status{"draft", "review", "approved", "implemented", "verified", "obsolete"}},
}

// transitions contains, for each kind and status, the statuses that may follow.
var transitions = map[Kind]map[Status][]Status{
	Epic:  work,
	Story: work,
	Criterion: {
		"open":     {"met", "failed", "obsolete"},
		"met":      {"open", "failed", "obsolete"},
		"failed":   {"open", "met", "obsolete"},
		"obsolete": {"open"},
	},
	Requirement: {
		"draft":       {"review", "obsolete"},
		"review":      {"draft", "approved", "obsolete"},
		"approved":    {"review", "implemented", "obsolete"},
		"implemented": {"approved", "verified", "obsolete"},
		"verified":    {"implemented", "obsolete"},
		"obsolete":    {"draft"},
	},
}

var work = map[Status][]Status{
	"backlog":     {"draft", "cancelled"},
	"draft":       {"backlog", "in_progress", "cancelled"},
	"in_progress": {"draft", "done", "cancelled"},
	"done":        {"in_progress"},
	"cancelled":   {"backlog"},
}

// Status is the state of an item. Each kind has its own statuses.
type Status string

// Statuses returns the statuses of a kind. The first is the status of a new item.
func Statuses(k Kind) []Status { return slices.Clone(rules[k].statuses) }

// Next returns the statuses that may follow the status s of an item.
func Next(k Kind, s Status) []Status { return slices.Clone(transitions[k][s]) }

// Types returns the types of requirements. The first is the default.
func Types() []string {
	return []string{"functional", "non_functional", "constraint", "interface", "business_rule"}
}

// Priorities returns the priorities of items, the highest first.
func Priorities() []string { return []string{"critical", "high", "medium", "low"} }

// defaultPriority is the priority of an item that is created without one.
const defaultPriority = "medium"

// RelationTypes returns the types of relations.
func RelationTypes() []string {
	return []string{"depends_on", "blocks", "derives_from", "conflicts_with", "relates_to"}
}

// mutual contains the relation types that mean the same in both directions.
var mutual = []string{"conflicts_with", "relates_to"}

// Prefixes of the reference ids of comments and relations.
const (
	commentPrefix  = "CM"
	relationPrefix = "REL"
)

// Item is an epic, a user story, an acceptance criterion or a requirement.
type Item struct {
	ID          string // the reference id, for example REQ-007; it never changes
	Kind        Kind
	Parent      string // the id of the parent, or ""
	Title       string
	Description string
	Status      Status
	Type        string // the type of a requirement; "" for other kinds
	Priority    string
	Version     int64 // 1 for a new item; each update adds 1
	Author      User  // who created the item
	Editor      User  // who made the last update; the zero value if there was none
	Created     string
	Updated     string // times are RFC 3339, in UTC, with milliseconds
}

// Relation is a link from the item Source to the item Target.
type Relation struct {
	ID, Source, Type, Target, Created string
}

// Comment is a remark about an item.
type Comment struct {
	ID, Item, Text, Created string
	Author                  User
	Resolved                bool
}

// User is who writes something. The zero value means that nobody knows.
type User struct {
	ID   string // whom Dragoman has vouched for; "" if Name is only what the client has said
	Name string
}

// Activity is what a user has written that is still there.
type Activity struct {
	User
	Items    int // which the user has created
	Edits    int // items and prompts of which the user made the last change
	Comments int
	Last     string // when the user wrote the newest of them
}

// Prompt is a text for models. At most one prompt is active; its text becomes the instructions of
// the server.
type Prompt struct {
	Name, Title, Description, Content string
	Active                            bool
	Editor                            User  // who saved this version
	Version                           int64 // 1 for a new prompt; each update adds 1
	Created, Updated                  string
}

// Instructions returns the description and the content of the prompt.
func (p Prompt) Instructions() string {
	return strings.TrimSpace(p.Description + "\n\n" + p.Content)
}

// Limits. The limits of texts are in bytes.
const (
	MaxTitle       = 500
	MaxDescription = 64 << 10
	MaxComment     = 16 << 10
	MaxAuthor      = 100 // the name of a user
	MaxUserID      = 200
	MaxUsers       = 1000 // in a list
	MaxName        = 64   // the name of a prompt
	MaxSummary     = 2 << 10
	MaxContent     = 48 << 10 // the content of a prompt
	MaxSearch      = 200
	MaxPage        = 200 // the maximum number of entries on a page
	MaxPrompts     = 200
	MaxComments    = 2000 // comments on one item
	MaxRelations   = 500  // relations of one item
	MaxItems       = 100_000
)

// reference returns the reference id with this prefix and number.
func reference(prefix string, n int64) string { return fmt.Sprintf("%s-%03d", prefix, n) }

// parse splits a reference id into its prefix and its number. It accepts small letters and missing
// zeros.
func parse(id string) (prefix string, n int64, ok bool) {
	prefix, digits, ok := strings.Cut(strings.TrimSpace(id), "-")
	if !ok || digits == "" || len(digits) > 12 || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return "", 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return strings.ToUpper(prefix), n, err == nil && n > 0
}

// ParseID returns the reference id of an item in its usual form, and the kind of the item. It
// accepts small letters and missing zeros: for req-7, it returns REQ-007.
func ParseID(id string) (string, Kind, error) {
	if prefix, n, ok := parse(id); ok {
		for k, r := range rules {
			if r.prefix == prefix {
				return reference(prefix, n), k, nil
			}
		}
	}
	return "", "", invalid("use an id such as EP-001, US-001, AC-001 or REQ-001; search_items finds the ids of items", "%s is not the id of an item", quote(id))
}

// parseOther returns the usual form of the id of a comment or a relation.
func parseOther(id, prefix, noun string) (string, error) {
	if p, n, ok := parse(id); ok && p == prefix {
		return reference(prefix, n), nil
	}
	return "", invalid(fmt.Sprintf("use an id such as %s-001; get_item shows the ids", prefix), "%s is not the id of a %s", quote(id), noun)
}

// Prefix returns the prefix of the reference ids of a kind, for example REQ.
func Prefix(k Kind) string { return rules[k].prefix }

// number returns the number in a reference id, such as 7 for REQ-007.
func number(id string) int64 {
	_, n, _ := parse(id)
	return n
}
