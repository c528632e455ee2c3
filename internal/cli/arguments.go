package cli

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/schema"
)

// argument is one name=value or name:=JSON of the command line.
type argument struct {
	flag       string // for errors: the flag before the argument and a space; "" for none
	key, value string
	json       bool
}

// parseArguments parses pairs of the command line. flag is the flag before the pairs, for errors.
// It is "" if there is none.
func parseArguments(flag string, pairs []string) ([]argument, error) {
	if flag != "" {
		flag += " "
	}
	var out []argument
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok {
			return nil, usagef("use "+flag+"name=value", "%s%q has no =", flag, fit(p, 40))
		}
		x := argument{flag: flag, key: k, value: v}
		x.key, x.json = strings.CutSuffix(k, ":")
		if x.key == "" {
			return nil, usagef("use "+flag+"name=value", "%s%q has no name", flag, fit(p, 40))
		}
		if x.json {
			if err := jsonrpc.Valid([]byte(v), jsonrpc.Limits{}); err != nil {
				return nil, usagef("use "+flag+x.key+"=VALUE for a string", "the value of %s:= is not valid JSON", x.key)
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// typeable reports whether name=value on the command line can set the argument name. The server
// chose the name, so name=value could look like a flag or set another argument.
func typeable(name string) bool {
	return name != "" && !strings.HasPrefix(name, "-") && !strings.Contains(name, "=") && !strings.HasSuffix(name, ":")
}

// needTypes reports whether a schema is needed to find the types of the arguments.
func needTypes(arguments []argument) bool {
	for _, x := range arguments {
		if !x.json {
			return true
		}
	}
	return false
}

// objectOf returns a JSON object with the members of base and the parsed arguments. An
// argument replaces a member of the same name. The schema decides the types of the values.
func objectOf(s schema.View, base []byte, arguments []argument) ([]byte, error) {
	values := map[string][]string{}
	asJSON := map[string]bool{}
	flags := map[string]string{}
	var order []string
	for _, x := range arguments {
		if values[x.key] == nil {
			order = append(order, x.key)
		} else if x.json || asJSON[x.key] {
			return nil, usagef("remove one of the two values", "%s%s is given twice", x.flag, x.key)
		}
		values[x.key] = append(values[x.key], x.value)
		asJSON[x.key], flags[x.key] = x.json, x.flag
	}
	dst := []byte{'{'}
	member := func(key string) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendQuote(dst, key), ':')
	}
	for m := range jsonrpc.Members(base, jsonrpc.Whole(base)) {
		if key, _ := jsonrpc.Text(base, m.Key); values[key] == nil {
			member(key)
			dst = append(dst, m.Value.Of(base)...)
		}
	}
	for _, key := range order {
		member(key)
		if asJSON[key] {
			dst = append(dst, values[key][0]...)
			continue
		}
		v, wants := valueOf(s.Property(key), values[key])
		if wants != "" {
			return nil, usagef("use "+flags[key]+key+":=JSON to send another type",
				"%s%s must be %s", flags[key], key, wants)
		}
		dst = append(dst, v...)
	}
	return append(dst, '}'), nil
}

// valueOf returns the values of a property as JSON. If the values do not fit the schema, wants
// describes valid values.
func valueOf(s schema.View, texts []string) (json []byte, wants string) {
	t := s.Types()
	if len(texts) > 1 || t&schema.Array != 0 && t&schema.String == 0 && !strings.HasPrefix(strings.TrimSpace(texts[0]), "[") {
		if t != 0 && t&schema.Array == 0 {
			return nil, "given only once"
		}
		items := s.Items().Types()
		json = []byte{'['}
		for i, text := range texts {
			if i > 0 {
				json = append(json, ',')
			}
			var bad string
			if json, bad = appendTyped(json, items, text); bad != "" {
				return nil, "an array, each item of which is " + bad
			}
		}
		return append(json, ']'), ""
	}
	return appendTyped(nil, t, texts[0])
}

// appendTyped appends text as JSON of one of the types t. If the types include string, it
// appends a string. Users write name:=JSON for the other types. If no type fits, wants describes
// the types.
func appendTyped(dst []byte, t schema.Types, text string) (json []byte, wants string) {
	if t == 0 || t&schema.String != 0 {
		return jsonrpc.AppendQuote(dst, text), ""
	}
	b := []byte(strings.TrimSpace(text))
	if schema.TypeOf(b)&t != 0 {
		return append(dst, b...), ""
	}
	return dst, t.Describe()
}
