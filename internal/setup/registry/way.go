package registry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Kind is how a Way reaches a server.
type Kind string

// The kinds of ways.
const (
	NPM    Kind = "npm"
	PyPI   Kind = "pypi"
	OCI    Kind = "oci"
	NuGet  Kind = "nuget"
	MCPB   Kind = "mcpb"
	Remote Kind = "remote"
)

// Way is one way to run a server. Its texts are safe to print.
type Way struct {
	Kind    Kind
	What    string // the package with its version, the URL of the bundle, or the URL of the server
	Program string // the program that must be on PATH; "" for a remote, and for a bundle before Install
	Problem string // why Dragoman cannot use the way, like the rest of a sentence about it; "" if it can
	// Cautions are what a person must agree to first, each like the rest of a sentence about the way:
	// "takes the package from https://npm.example.com, which is not the official registry".
	Cautions []string
	Wants    []Want

	bundle bundleSource
	recipe recipe
}

// Want is a value that a Way asks for.
type Want struct {
	Key         string // names the value in Answers; only letters, digits, _, - and .
	About       string // for people; "" for none
	Placeholder string // an example of a value; "" for none
	Format      string // "string", "number", "boolean" or "filepath"
	Default     []string
	Choices     []string // the only possible values; nil for any
	Required    bool
	Repeated    bool // the answer may have several values
	// Secret means that the entry gets the reference ${Variable}, and the value is set in the
	// environment.
	Secret   bool
	Variable string

	min, max *float64 // the limits of a number; nil for none
}

// Answers are what a person has answered to the questions of a Way.
type Answers struct {
	// Values has the values by Want.Key. A Want without a key here gets its default. An empty list
	// leaves an optional Want out in spite of its default. The values of a secret are not used, but
	// at least one value means that the entry shall refer to the secret.
	Values map[string][]string
	// Agreed means that the person has read all Cautions and agrees.
	Agreed bool
}

// Missing is the error of Way.Entry if required values are missing.
type Missing struct{ Keys []string }

// Error returns the keys of the values.
func (e *Missing) Error() string { return "a value is missing for " + strings.Join(e.Keys, ", ") }

// Cautioned is the error of Way.Entry if nobody has agreed to the cautions of the way.
type Cautioned struct{ Cautions []string }

// Error returns the cautions.
func (e *Cautioned) Error() string {
	return "this needs your explicit consent, because it " + strings.Join(e.Cautions, "; and it ")
}

// Choose returns the index of the way that fits this machine best: a package whose program is on
// PATH, then a bundle, then a URL. A way without cautions goes first. Within that, the order of the
// publisher counts. If no way can be used, the error says why for each of them.
func Choose(ways []Way, onPath func(program string) bool) (int, error) {
	best, least := -1, math.MaxInt
	var why []string
	for i := range ways {
		w := &ways[i]
		rank := 0
		switch {
		case w.Problem != "":
			why = append(why, w.What+" "+w.Problem)
			continue
		case w.Kind == Remote:
			rank = 2
		case w.Kind == MCPB && w.Program == "":
			rank = 1
		case !onPath(w.Program):
			why = append(why, w.What+" needs "+w.Program+", which is not on PATH")
			continue
		}
		if len(w.Cautions) > 0 {
			rank += 10
		}
		if rank < least {
			best, least = i, rank
		}
	}
	switch {
	case best >= 0:
		return best, nil
	case len(ways) == 0:
		return -1, errors.New("the server has neither a package nor a URL")
	}
	return -1, errors.New(strings.Join(why, "; "))
}

// part is a piece of a template: literal text, or the value of a Want.
type part struct {
	text string
	want int // the index in Way.Wants plus 1; 0 for literal text
}

// template is a text with values in it.
type template []part

// slot is one argument, environment variable or header.
type slot struct {
	name  string     // the name of the variable or header; "" for an argument
	words []template // one template, or the words of an argument such as -e NAME=VALUE
	// repeated means that the words are repeated for each value of their Wants.
	repeated bool
	// needs are Wants, as in part.want, without whose values the slot is left out. The Wants in words
	// count too.
	needs []int
}

// recipe makes an entry of mcpServers.
type recipe struct {
	command string
	args    []slot
	env     []slot
	dir     string

	url     template // nil for a command
	sse     bool     // HTTP+SSE of 2024-11-05 instead of Streamable HTTP
	headers []slot
}

// Entry returns the entry of mcpServers. It fails with a *Cautioned error if the way has cautions and
// nobody agreed, with a *Missing error if required values are missing, and for values that the way
// does not allow.
func (w *Way) Entry(a Answers) (*clientfile.Value, error) {
	switch {
	case w.Problem != "":
		return nil, fmt.Errorf("%s %s", w.What, w.Problem)
	case w.bundle.address != "":
		return nil, fmt.Errorf("%s must be installed first", w.What)
	case len(w.Cautions) > 0 && !a.Agreed:
		return nil, &Cautioned{w.Cautions}
	}
	v, err := w.values(a.Values)
	if err != nil {
		return nil, err
	}
	if w.recipe.url != nil {
		return w.recipe.remoteEntry(v)
	}
	return w.recipe.commandEntry(v)
}

// value is the text for a Want: either literal, or the name of a variable.
type value struct{ text, variable string }

// values are the texts for all Wants, in the order of Way.Wants. A Want without a text is left out.
type values [][]value

// values checks the answers.
func (w *Way) values(answers map[string][]string) (values, error) {
	for key := range answers {
		if !slices.ContainsFunc(w.Wants, func(x Want) bool { return x.Key == key }) {
			return nil, fmt.Errorf("the server does not want %s", excerpt.Quote(key, 100))
		}
	}
	out := make(values, len(w.Wants))
	var missing []string
	for i, want := range w.Wants {
		given, answered := answers[want.Key]
		if !answered {
			given = want.Default
		}
		switch {
		case want.Secret && (len(given) > 0 || want.Required):
			out[i] = []value{{variable: want.Variable}}
			continue
		case len(given) == 0 && want.Required:
			missing = append(missing, want.Key)
		case len(given) > 1 && !want.Repeated:
			return nil, fmt.Errorf("%s takes only one value", want.Key)
		}
		for _, text := range given {
			if bad := want.bad(text); bad != "" {
				return nil, fmt.Errorf("the value of %s %s", want.Key, bad)
			}
			out[i] = append(out[i], value{text: text})
		}
	}
	if len(missing) > 0 {
		return nil, &Missing{missing}
	}
	return out, nil
}

// bad returns the problem with a value, or "".
func (w *Want) bad(text string) string {
	if bad := badText(text); bad != "" {
		return bad
	}
	switch {
	case w.Choices != nil && !slices.Contains(w.Choices, text):
		return "must be one of " + excerpt.Line(strings.Join(w.Choices, ", "), maxLine)
	case w.Format == "boolean" && text != "true" && text != "false":
		return "must be true or false"
	case w.Format == "number":
		switch n, err := strconv.ParseFloat(text, 64); {
		case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
			return "must be a number"
		case w.min != nil && n < *w.min:
			return "must not be less than " + strconv.FormatFloat(*w.min, 'g', -1, 64)
		case w.max != nil && n > *w.max:
			return "must not be more than " + strconv.FormatFloat(*w.max, 'g', -1, 64)
		}
	}
	return ""
}

func (r *recipe) commandEntry(v values) (*clientfile.Value, error) {
	entry := clientfile.Mapping("command", clientfile.Text(clientfile.Literal(r.command)))
	var args []string
	for _, s := range r.args {
		words, err := s.render(v)
		if err != nil {
			return nil, err
		}
		args = append(args, words...)
	}
	entry.Members = append(entry.Members, clientfile.Member{Key: "args", Value: clientfile.Texts(args)})
	if err := addFields(entry, "env", r.env, v); err != nil {
		return nil, err
	}
	if r.dir != "" {
		entry.Members = append(entry.Members, clientfile.Member{Key: "cwd", Value: clientfile.Text(clientfile.Literal(r.dir))})
	}
	return entry, nil
}

func (r *recipe) remoteEntry(v values) (*clientfile.Value, error) {
	words, err := slot{words: []template{r.url}}.render(v)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, errors.New("the URL cannot be made from the answers")
	}
	if bad := badAddress(r.url.plain(v)); bad != "" {
		return nil, fmt.Errorf("the URL %s %s", excerpt.Quote(r.url.plain(v), 200), bad)
	}
	kind := "http"
	if r.sse {
		kind = "sse"
	}
	entry := clientfile.Mapping("type", clientfile.Text(kind), "url", clientfile.Text(words[0]))
	return entry, addFields(entry, "headers", r.headers, v)
}

// addFields adds the mapping of the variables or headers that have values.
func addFields(entry *clientfile.Value, key string, fields []slot, v values) error {
	all := clientfile.Mapping()
	for _, s := range fields {
		words, err := s.render(v)
		if err != nil {
			return err
		}
		if len(words) > 0 {
			all.Members = append(all.Members, clientfile.Member{Key: s.name, Value: clientfile.Text(words[0])})
		}
	}
	if len(all.Members) > 0 {
		entry.Members = append(entry.Members, clientfile.Member{Key: key, Value: all})
	}
	return nil
}

// wants returns the Wants in the words, as in part.want.
func (s slot) wants() (out []int) {
	for _, t := range s.words {
		for _, p := range t {
			if p.want > 0 {
				out = append(out, p.want)
			}
		}
	}
	return out
}

// render returns the words of the slot, or none if a value is missing.
func (s slot) render(v values) (out []string, err error) {
	own := s.wants()
	times := 1
	for _, want := range slices.Concat(own, s.needs) {
		if len(v[want-1]) == 0 {
			return nil, nil
		}
	}
	if s.repeated {
		for _, want := range own {
			times = max(times, len(v[want-1]))
		}
	}
	for i := range times {
		for _, t := range s.words {
			word, err := t.render(v, i)
			if err != nil {
				return nil, err
			}
			out = append(out, word)
		}
	}
	return out, nil
}

// render returns the text of a template for the configuration file, where ${NAME} is a reference and
// $${ stands for ${. Of a Want with several values, the value with the number nth counts; if there
// are fewer, its last value.
func (t template) render(v values, nth int) (string, error) {
	var out, plain strings.Builder
	for _, p := range t {
		text, variable := p.text, ""
		if p.want > 0 {
			all := v[p.want-1]
			x := all[min(nth, len(all)-1)]
			text, variable = x.text, x.variable
		}
		plain.WriteString(text)
		if variable == "" {
			continue
		}
		// A $ right before a reference would turn it into literal text; see config.Expand.
		if strings.HasSuffix(plain.String(), "$") {
			return "", errors.New("the server wants a $ before the secret ${" + variable + "}, which the configuration cannot express")
		}
		// Only the whole text between two references shows where it has a ${, because the $ and the {
		// may come from different parts.
		out.WriteString(clientfile.Literal(plain.String()) + "${" + variable + "}")
		plain.Reset()
	}
	return out.String() + clientfile.Literal(plain.String()), nil
}

// plain returns the text with x in place of each secret, to check its form.
func (t template) plain(v values) string {
	var out strings.Builder
	for _, p := range t {
		switch {
		case p.want == 0:
			out.WriteString(p.text)
		case len(v[p.want-1]) == 0:
		case v[p.want-1][0].variable != "":
			out.WriteByte('x')
		default:
			out.WriteString(v[p.want-1][0].text)
		}
	}
	return out.String()
}
