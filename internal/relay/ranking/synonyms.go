package ranking

import (
	"strings"
	"sync"
)

// empty are words that say nothing about a tool.
var empty = setOf(`a an the this that these those it its there here what which who whom whose when where how why
	i me my mine we us our you your he she they them their one ones
	is are was were be been being am do does did done has have had having can could will would shall should may might must
	of to in on at by for from with without into onto about as and or but if then than so not no nor
	some any all each every other another such same own just only also too very more most much many few
	please want wants need needs like let lets would tool tools using use via want give tell`)

// setOf returns the set of some words. Like synonyms, it's made when it's first needed, and not when the program starts.
func setOf(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		out := map[string]bool{}
		for _, w := range strings.Fields(words) {
			out[w] = true
		}
		return out
	})
}

// synonyms has, for the term of each word in groups, the terms of the others in its groups.
var synonyms = sync.OnceValue(func() map[string][]string {
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
})

// groups are words that people and servers use for the same thing. A word may be in several.
var groups = []string{
	// What is done.
	"add append create generate insert make new",
	"delete discard drop erase purge remove rid destroy clear",
	"alter change edit modify patch rename replace set update",
	"display fetch get obtain open read retrieve show view",
	"all browse enumerate list show",
	"discover find locate lookup query search",
	"deliver post publish send submit tell",
	"execute invoke launch run start trigger",
	"abort cancel end halt kill stop terminate",
	"move relocate rename transfer",
	"clone copy duplicate",
	"persist save store write",
	"download export",
	"attach import upload",
	"click press tap touch",
	"enter fill input type",
	"go navigate visit open",
	"compare diff difference changed",
	"describe details info information inspect metadata",
	"overview summarize summary",
	"check status state progress health verify validate",
	"combine join merge",
	"reset restore revert rollback undo",
	"assign assignee delegate hand owner",
	"connect link relate relation relationship",
	"monitor observe track watch",
	"accept approve confirm review",
	"allowed permission permitted access role",
	"archive hide unpublish",
	"deploy release ship",
	"login authenticate auth signin session",
	"draw plot visualize render",
	"convert transform translate",
	"explain analyze understand",
	// With what.
	"directory folder",
	"document file",
	"article doc document note page wiki",
	"image photo picture screenshot",
	"site url web webpage website internet online",
	"bug issue ticket problem",
	"task todo job",
	"project repo repository",
	"pr pull request",
	"annotation comment note remark feedback",
	"chat dm message text",
	"email gmail inbox mail",
	"account member people person profile user",
	"client customer",
	"excel sheet spreadsheet workbook",
	"entry record row item",
	"column field property",
	"database db sql",
	"history log output trace",
	"clock date time timezone",
	"address coordinates location place",
	"direction navigate route",
	"chart diagram graph",
	"container docker image",
	"cluster k8s kubernetes pod",
	"machine node server host",
	"charge pay payment price cost",
	"bill invoice",
	"amount count number total",
	"disk size space storage",
	"calendar event meeting schedule appointment",
	"cycle iteration sprint",
	"category label tag",
	"caption subtitle transcript",
	"clip recording video",
	"android device handset ios mobile phone tablet",
	"crash error exception failure fault",
	"credential key password secret token",
	"alert notification reminder",
	"credit limit quota usage",
	"fact observation",
	"build ci pipeline workflow",
}
