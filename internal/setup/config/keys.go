package config

import (
	"maps"
	"slices"
	"strings"
)

// everySection is a configuration file that contains every mapping of the configuration.
const everySection = `
mcpServers: {NAME: {command: x}}
dragoman:
  server: {instructions: {}}
  revisions: {}
  names: {}
  vault: {}
  cluster: {}
  tls: {}
  access: {issuers: [{roles: {}, introspect: {}}], people: {}, oidc: {roles: {}}, clients: {}}
  limits: {traffic: [{who: {}}]}
  log: {}
  audit: {}
  telemetry: {traces: {headers: {}}}
  dialects: {NAME: {detect: {}, open: {}, tools: {}, errors: {}}}
  servers: {NAME: {signIn: {params: {}}, expose: {tools: {}, prompts: {}, resources: {}}}}
  tools: {}
  policy: [{who: {}, as: {annotations: {}}}]
  projects: {NAME: {}}
`

// Keys returns the path of every setting, sorted. NAME stands for names that users choose. Keys
// parses everySection and records every key that the parser looks up, so tests can compare the
// documentation with the parser.
func Keys() []string {
	none := func(string) (string, bool) { return "", false }
	c := &compiler{home: ourKey, asked: map[string]bool{}, process: none, env: none}
	c.compile([]byte(everySection))
	all := slices.Sorted(maps.Keys(c.asked))
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "[0]", "") // the only item of a list
	}
	return slices.DeleteFunc(slices.Clone(all), func(key string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, key+".") })
	})
}
