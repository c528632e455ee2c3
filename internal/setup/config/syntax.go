package config

import "strings"

// plainSyntax returns the text of an error of the YAML parser in words that describe the file, not the
// parser. A text that is not in the table stays as it is.
func plainSyntax(text string) string {
	if c, ok := strings.CutPrefix(text, "found unknown escape character "); ok {
		return `a text in double quotes has an unknown escape, \` + strings.Trim(c, "'") + `, and a literal backslash is written \\`
	}
	if plain, ok := syntaxWords[text]; ok {
		return plain
	}
	return text
}

// syntaxWords has the commonest texts of the YAML parser.
var syntaxWords = map[string]string{
	"sequence end token ']' not found":                                   "this [ is not closed",
	"could not find flow mapping end token '}'":                          "this { is not closed",
	"could not find '[' character corresponding to ']'":                  "this ] has no [ before it",
	"could not find '{' character corresponding to '}'":                  "this } has no { before it",
	"',' or ']' must be specified":                                       "a , or a ] is missing before this",
	"',' or '}' must be specified":                                       "a , or a } is missing before this",
	"could not find end character of double-quoted text":                 "this double quote is not closed",
	"could not find end character of single-quoted text":                 "this single quote is not closed",
	"could not find flow map content":                                    "this key has no value",
	"could not find map value":                                           "this key has no value",
	"could not find value for mapping key":                               "this key has no value",
	"expected sequence element, but found ','":                           "a value is missing before this ,",
	"expected map key-value delimiter ':'":                               "this key has no : after it",
	"unexpected key name":                                                "this key has no : after it, or no space after the :",
	"unexpected scalar value type":                                       "a value is missing or not allowed here",
	"non-map value is specified":                                         "a value stands where a key belongs",
	"mapping value is not allowed in this context":                       "a key with a value is not allowed here",
	"value is not allowed in this context":                               "this is not allowed here",
	"value is not allowed in this context. map key-value is pre-defined": "the key already has a value",
	"map key definition includes an implicit line break":                 "a key must stand on one line",
	"block sequence entries are not allowed in this context":             "a list item that begins with - must begin on a line of its own",
	"undefined alias name":                                               "a value that begins with * must stand in quotes",
	"undefined anchor name":                                              "a value that begins with & must stand in quotes",
	"unexpected directive value. document not started":                   "a value that begins with % must stand in quotes",
	"unexpected end content":                                             "there is text after the end of the document",
}
