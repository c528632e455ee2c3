package cli

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// argument is one name=value or name:=JSON from the command line.
type argument struct {
	flag       string // for error messages: the flag before the argument and a space; "" if there is no flag
	key, value string
	json       bool
}

// parseArguments parses name=value and name:=JSON pairs from the command line. flag is the flag
// before the pairs, for error messages. It is "" if there is no flag.
func parseArguments(flag string, pairs []string) ([]argument, error) {
	if flag != "" {
		flag += " "
	}
	var out []argument
	for _, p := range pairs {
		k, v, err := cutPair(flag, p)
		if err != nil {
			return nil, err
		}
		x := argument{flag: flag, key: k, value: v}
		x.key, x.json = strings.CutSuffix(k, ":")
		if x.key == "" {
			return nil, noName(flag, p)
		}
		if x.json {
			if err := jsonrpc.Valid([]byte(v), jsonrpc.Limits{}); err != nil {
				return nil, usagef("use "+flag+x.key+"=VALUE for a string", "the value of %s:= is not valid JSON: %s", x.key, form.FaultOfJSON(v, err))
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// cutPair cuts a pair at its first = into a name, which is not empty, and a value. flag is the flag
// before the pair and a space, for error messages.
func cutPair(flag, pair string) (name, value string, err error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok {
		return "", "", usagef("use "+flag+"name=value", "%s%q has no =", flag, fit(pair, 40))
	}
	if name == "" {
		return "", "", noName(flag, pair)
	}
	return name, value, nil
}

func noName(flag, pair string) error {
	return usagef("use "+flag+"name=value", "%s%q has no name", flag, fit(pair, 40))
}

// typeable reports whether a user can set the argument name with name=value on the command line.
// The server chooses the name. With some names, name=value would look like a flag or would set
// another argument.
func typeable(name string) bool {
	return name != "" && !strings.HasPrefix(name, "-") && !strings.Contains(name, "=") && !strings.HasSuffix(name, ":")
}

// needTypes reports whether objectOf needs a schema to find the types of the arguments.
func needTypes(arguments []argument) bool {
	for _, x := range arguments {
		if !x.json {
			return true
		}
	}
	return false
}

// objectOf returns a JSON object with the members of base and the parsed arguments. An argument
// replaces a member of the same name. The schema s determines the types of values that were given
// as name=value.
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

// valueOf returns the value of a property as JSON. texts are the values that the user gave for this
// property. If they do not fit the schema s of the property, wants describes valid values.
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

// appendTyped appends text as JSON with one of the types t. If t includes string or is empty, it
// appends a string. In this case, users can write name:=JSON to send another type. If text fits
// none of the types, wants describes the types.
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
