package config

import (
	"strings"
	"testing"
)

// TestCluster checks what a replica needs, and that it's said what is wrong.
func TestCluster(t *testing.T) {
	t.Parallel()
	const url = `database: "postgres://d@h/d", `
	for text, want := range map[string]struct {
		c   Cluster
		bad string
	}{
		url + `cluster: {listen: "10.0.0.1:7301"}`:                                         {Cluster{"10.0.0.1:7301", "10.0.0.1:7301", "", drainGrace}, ""},
		url + `cluster: {listen: "0.0.0.0:7301", advertise: "r1.internal:7301", name: r1}`: {Cluster{"0.0.0.0:7301", "r1.internal:7301", "r1", drainGrace}, ""},
		url + `cluster: {listen: ":7301"}`:                                                 {bad: "dragoman.cluster: advertise is missing"},
		url + `cluster: {listen: ":7301", advertise: "0.0.0.0:1"}`:                         {bad: "is not an address that others can reach"},
		url + `cluster: {listen: "10.0.0.1:7301", advertise: "10.0.0.1"}`:                  {bad: "is not an address that others can reach"},
		url + `cluster: {listen: "10.0.0.1:7301", name: "-a"}`:                             {bad: "dragoman.cluster.name"},
		url + `cluster: {listen: "10.0.0.1:7301", names: a}`:                               {bad: "unknown key"},
		url + `cluster: {listen: "10.0.0.1:7301", drainGrace: 0s}`:                         {Cluster{"10.0.0.1:7301", "10.0.0.1:7301", "", 0}, ""},
		url + `cluster: {listen: "10.0.0.1:7301", drainGrace: 1h}`:                         {bad: "must be between 0s and 5m"},
		url + `cluster: {}`:                                            {bad: "listen is missing"},
		`cluster: {listen: "10.0.0.1:7301"}`:                           {bad: "needs a database that all replicas share"},
		`database: here.db, cluster: {listen: "10.0.0.1:7301"}`:        {bad: "needs a database that all replicas share"},
		url + `projects: {shop: {cluster: {listen: "10.0.0.1:7301"}}}`: {bad: "unknown key"},
	} {
		s, problems := Parse("f", []byte("mcpServers: {}\ndragoman: {"+text+"}"), nil)
		if got := listing(problems); want.bad == "" && got != "" || !strings.Contains(got, want.bad) {
			t.Errorf("%s: %s", text, got)
		}
		if s != nil && want.bad == "" && s.Cluster != want.c {
			t.Errorf("%s: %+v", text, s.Cluster)
		}
	}
}
