package config

import (
	"maps"
	"slices"
	"strings"
)

// everySection is a file that contains every mapping that has settings.
const everySection = `
mcpServers: {NAME: {command: x}}
dragoman:
  server: {instructions: {}}
  revisions: {}
  names: {}
  limits: {}
  log: {}
  dialects: {NAME: {detect: {}, open: {}, tools: {}, errors: {}}}
  servers: {NAME: {expose: {tools: {}, prompts: {}, resources: {}}}}
`

// Keys returns the path of every setting, sorted. NAME stands for names that users
// choose. Keys records the list while Parse reads everySection, so tests can compare the
// documentation with the parser.
func Keys() []string {
	none := func(string) (string, bool) { return "", false }
	c := &compiler{asked: map[string]bool{}, process: none, env: none}
	c.compile([]byte(everySection))
	all := slices.Sorted(maps.Keys(c.asked))
	return slices.DeleteFunc(slices.Clone(all), func(key string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, key+".") })
	})
}
