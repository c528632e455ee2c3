package ranking

import "strings"

// empty are words that say nothing about a tool.
var empty = setOf(`a an the this that these those it its there here what which who whom whose when where how why
	i me my mine we us our you your he she they them their one ones
	is are was were be been being am do does did done has have had having can could will would shall should may might must
	of to in on at by for from with without into onto about as and or but if then than so not no nor
	some any all each every other another such same own just only also too very more most much many few
	please want wants need needs like let lets would tool tools using use via want give tell`)

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// synonyms has, for the term of each word in groups, the terms of the others in its groups.
var synonyms = synonymsOf(groups)

func synonymsOf(groups []string) map[string][]string {
	out := map[string][]string{}
	for _, g := range groups {
		var terms []string
		for _, w := range strings.Fields(g) {
			terms = append(terms, string(termOf([]byte(w))))
		}
		for _, t := range terms {
			for _, other := range terms {
				if other != t {
					out[t] = append(out[t], other)
				}
			}
		}
	}
	return out
}

// groups are words that people and servers use for the same thing. A word may be in several.
var groups = []string{
	"delete remove erase drop destroy purge discard",
	"create add new make insert generate",
	"update edit modify change alter patch rename set",
	"get fetch read retrieve show view display obtain open",
	"list enumerate browse show all",
	"search find query lookup locate discover",
	"send post publish submit deliver",
	"message chat dm text reply",
	"email mail inbox gmail",
	"folder directory",
	"file document",
	"picture image photo screenshot",
	"website site webpage page url web link",
	"issue ticket bug task",
	"task todo",
	"repository repo project",
	"branch fork",
	"merge combine",
	"pull request pr",
	"comment remark note annotate",
	"user person people member account",
	"customer client",
	"table sheet spreadsheet",
	"row record entry",
	"column field",
	"database db sql",
	"run execute launch start invoke",
	"stop kill terminate end halt cancel",
	"move relocate transfer",
	"copy duplicate clone",
	"save store write persist",
	"download export",
	"upload import attach",
	"chart graph plot diagram visualize",
	"click press tap",
	"type enter fill input",
	"log history trace",
	"time date clock",
	"location place address coordinates",
	"route directions navigate",
	"container docker",
	"pod kubernetes k8s cluster",
	"payment charge pay",
	"invoice bill",
	"compare diff difference",
	"count number size",
	"describe info information details metadata",
	"summary summarize overview",
	"schedule plan calendar event meeting",
	"permission access role",
}
