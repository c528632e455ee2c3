package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
	"github.com/dragoman-mcp/dragoman/internal/setup/registry"
)

// fromRegistry returns the entry for a server of a registry. With --dry-run, the entry of a bundle is
// nil, because nothing is downloaded.
func (c *addCommand) fromRegistry(ctx context.Context, into string, old *config.Snapshot) (addition, error) {
	given, err := c.given()
	if err != nil {
		return addition{}, err
	}
	reg, client, err := openRegistry(c.registry)
	if err != nil {
		return addition{}, err
	}
	defer client.CloseIdleConnections()
	name, version, _ := strings.Cut(c.t.address, "@")
	c.showProgress()
	c.status.Step("", "asking the registry")
	s, err := reg.Get(ctx, name, version)
	c.status.Step("", "")
	if none, ok := errors.AsType[*registry.NotFound](err); ok {
		return addition{}, withHint(err, "run `dragoman search %s`; if you mean a URL, write https://%s", shellWord(none.Name[strings.IndexByte(none.Name, '/')+1:]), none.Name)
	}
	if err != nil {
		return addition{}, err
	}
	own := c.t.name
	if own == "" {
		own = clientfile.Name(s.Short())
	}
	if _, taken := old.Server(own); taken {
		return addition{}, nameTaken(own, into)
	}
	way, err := c.choose(&s)
	if err != nil {
		return addition{}, err
	}
	c.introduce(&s, way)
	agreed, err := c.agreeTo(ctx, way)
	if err != nil {
		return addition{}, err
	}
	if way.Kind == registry.MCPB {
		if c.dry {
			c.status.Printf("nothing was downloaded; what else the bundle wants is in the bundle")
			return addition{}, nil
		}
		if way, err = c.install(ctx, client, way, agreed); err != nil {
			return addition{}, err
		}
		if agreed, err = c.agreeTo(ctx, way); err != nil {
			return addition{}, err
		}
	}
	c.tellWants(way)
	entry, err := c.entry(ctx, way, registry.Answers{Values: given, Agreed: agreed})
	if err != nil {
		return addition{}, err
	}
	return addition{
		server:  clientfile.Server{Name: own, Original: s.Name, Entry: entry, Variables: secretsOf(way, entry)},
		comment: fmt.Sprintf("%s %s, from %s", s.Name, s.Version, c.registry), registered: true,
	}, nil
}

// install downloads and unpacks a bundle, and returns the way to run it.
func (c *addCommand) install(ctx context.Context, client *http.Client, w *registry.Way, agreed bool) (*registry.Way, error) {
	data, err := dataFolder()
	if err != nil {
		return nil, err
	}
	c.status.Step("", "downloading the bundle")
	bundle, err := registry.Install(ctx, client, w, filepath.Join(data, "bundles"), agreed)
	c.status.Step("", "")
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir()
	inside := bundle.Way(registry.Host{OS: goruntime.GOOS, Home: home})
	return &inside, nil
}

// given returns the values of --set. KEY= with nothing after it leaves the value out.
func (c *addCommand) given() (map[string][]string, error) {
	out := map[string][]string{}
	for _, kv := range c.set {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usagef("use --set KEY=VALUE", "--set has no key or no =")
		}
		if out[k] == nil {
			out[k] = []string{}
		}
		if v != "" {
			out[k] = append(out[k], v)
		}
	}
	return out, nil
}

// choose returns the way to run a server.
func (c *addCommand) choose(s *registry.Server) (*registry.Way, error) {
	ways := s.Ways()
	if c.use != "" {
		var kinds []string
		for i := range ways {
			if kind := string(ways[i].Kind); kind == c.use && ways[i].Problem == "" {
				return &ways[i], nil
			} else if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		if !slices.Contains(kinds, c.use) {
			return nil, usagef("use one of "+clean(strings.Join(kinds, ", ")), "%s has no way of the kind %q", s.Name, c.use)
		}
		ways = slices.DeleteFunc(ways, func(w registry.Way) bool { return string(w.Kind) != c.use })
	}
	i, err := registry.Choose(ways, func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
	if err != nil {
		return nil, withHint(fmt.Errorf("%s cannot be run here: %w", s.Name, err), "install what is missing, or start the server yourself and add its URL or command")
	}
	return &ways[i], nil
}

// introduce prints what is known about a server before any question.
func (c *addCommand) introduce(s *registry.Server, w *registry.Way) {
	if c.quiet {
		return
	}
	c.status.Printf("%s %s: %s", s.Name, s.Version, s.Description)
	if s.Repository != "" {
		c.status.Printf("its source code: %s", s.Repository)
	}
	how := "runs " + w.What
	switch {
	case w.Kind == registry.Remote:
		how = "connects to " + w.What
	case w.Program != "":
		how += " with " + w.Program
	}
	c.status.Printf("%s", how)
	if s.Status == registry.Deprecated {
		c.status.label(yellow, "warning", strings.TrimSuffix("the registry says that this server is deprecated: "+s.StatusNote, ": "))
	}
	if s.Unread > 0 {
		c.status.label(yellow, "warning", fmt.Sprintf("the server offers %d more ways to run it, which are not used", s.Unread))
	}
}

// tellWants prints which values a way wants.
func (c *addCommand) tellWants(w *registry.Way) {
	if c.quiet {
		return
	}
	for _, x := range w.Wants {
		kind := "a value"
		if x.Secret {
			kind = "a secret, from the variable " + x.Variable
			if _, set := c.env(x.Variable); set {
				kind += ", which is set here"
			}
		}
		if !x.Required {
			kind += ", optional"
		}
		text := "wants " + x.Key + " (" + kind + ")"
		if x.About != "" {
			text += ": " + x.About
		}
		c.status.Printf("%s", text)
	}
}

// agreeTo asks for consent to the cautions of a way. With --dry-run it only shows them.
func (c *addCommand) agreeTo(ctx context.Context, w *registry.Way) (bool, error) {
	if len(w.Cautions) == 0 || w.Problem != "" {
		return true, nil
	}
	for _, text := range w.Cautions {
		c.status.label(yellow, "warning", w.What+" "+text)
	}
	switch {
	case c.dry || c.trust:
		return true, nil
	case c.yes || !c.interactive:
		return false, usagef("if you agree to that, add --trust", "nothing was written, because %s does something unusual", w.What)
	case !c.confirm(ctx, "Do you agree to that? [y/N]"):
		return false, errors.New("nothing was written, because you did not agree")
	}
	return true, nil
}

// entry asks for the values that a way still wants, and returns its entry.
func (c *addCommand) entry(ctx context.Context, w *registry.Way, a registry.Answers) (*clientfile.Value, error) {
	if c.interactive && !c.yes && w.Problem == "" {
		if err := c.ask(ctx, w, a.Values); err != nil {
			return nil, err
		}
	}
	entry, err := w.Entry(a)
	if missing, ok := errors.AsType[*registry.Missing](err); ok {
		var words []string
		for _, key := range missing.Keys {
			words = append(words, "--set "+key+"=…")
		}
		return nil, usagef("add "+strings.Join(words, " "), "%s", err)
	}
	switch {
	case err != nil && w.Problem != "":
		return nil, withHint(err, "choose another way with --use")
	case err != nil:
		return nil, usagef("correct --set", "%s", err)
	}
	return entry, nil
}

// secretsOf returns the variables to which an entry refers.
func secretsOf(w *registry.Way, entry *clientfile.Value) (out []clientfile.Variable) {
	names := intake.References(&clientfile.Server{Entry: entry})
	for _, x := range w.Wants {
		if x.Secret && slices.Contains(names, x.Variable) {
			out = append(out, clientfile.Variable{Name: x.Variable, About: x.About})
		}
	}
	return out
}

// ask asks at the terminal for the values that are not in answers, and puts them there. It never asks
// for a secret, but only whether an optional one is there.
func (c *addCommand) ask(ctx context.Context, w *registry.Way, answers map[string][]string) error {
	form := formOf(w, answers)
	fields := tool.ArgumentsOf(schema.Of(form, jsonrpc.Whole(form)))
	if len(fields) == 0 {
		return nil
	}
	values := map[string][]byte{}
	k := &asker{world: c.world}
	action := k.converse(ctx, func(t *terminal) string {
		t.say("", "Enter alone takes the value in brackets, or skips an optional value. :cancel stops.")
		for _, f := range fields {
			if action := t.field(f, values); action != "" {
				return action
			}
		}
		return ""
	})
	if action != "" {
		return errors.New("nothing was written, because you stopped")
	}
	for _, x := range w.Wants {
		raw, ok := values[x.Key]
		switch {
		case !ok:
			continue
		case x.Secret && string(raw) != "true":
			answers[x.Key] = []string{}
		default:
			answers[x.Key] = textsOf(raw)
		}
	}
	return nil
}

// textsOf returns a JSON value as texts: an array as one text for each item.
func textsOf(raw []byte) []string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []string
	for _, one := range list {
		var s string
		if json.Unmarshal(one, &s) != nil {
			s = string(one)
		}
		out = append(out, s)
	}
	return out
}

// formOf returns a JSON Schema of the values to ask for, so that the terminal asks for them like for
// the fields of a server's form.
func formOf(w *registry.Way, answers map[string][]string) []byte {
	type object = map[string]any
	properties := []byte{'{'}
	required := []string{}
	for _, x := range w.Wants {
		if _, ok := answers[x.Key]; ok || x.Secret && x.Required {
			continue
		}
		one := object{"type": "string"}
		switch {
		case x.Secret:
			one = object{"type": "boolean", "default": false}
			x.About = strings.TrimSuffix("Will you set the variable "+x.Variable+"? "+x.About, " ")
		case x.Format == "number" || x.Format == "boolean":
			one["type"] = x.Format
		case x.Required:
			one["minLength"] = 1
		}
		if x.Placeholder != "" {
			x.About = strings.TrimPrefix(x.About+" (for example "+x.Placeholder+")", " ")
		}
		if x.Choices != nil {
			one["enum"] = x.Choices
		}
		if len(x.Default) > 0 && !x.Repeated {
			one["default"] = json.RawMessage(jsonrpc.AppendQuote(nil, x.Default[0]))
			if one["type"] != "string" {
				one["default"] = json.RawMessage(x.Default[0])
			}
		}
		if x.Repeated && !x.Secret {
			one = object{"type": "array", "items": one}
			if len(x.Default) > 0 {
				one["default"] = x.Default
			}
		}
		one["description"] = x.About
		raw, err := json.Marshal(one)
		if err != nil {
			continue // a default that is not JSON, such as the number 0x1F, which is valid as text
		}
		if len(properties) > 1 {
			properties = append(properties, ',')
		}
		properties = append(append(jsonrpc.AppendQuote(properties, x.Key), ':'), raw...)
		if x.Required {
			required = append(required, x.Key)
		}
	}
	names, _ := json.Marshal(required) // texts can always be encoded
	return fmt.Appendf(nil, `{"type":"object","properties":%s},"required":%s}`, properties, names)
}
