package matrix

import "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"

// FeatureInfo describes a feature.
type FeatureInfo struct {
	Name   string
	Letter string // the abbreviation of a feature that can be lost; "" for other features
	About  string // a short description of what is tested
}

// FeatureInfos returns the features in the order in which they are tested.
func FeatureInfos() []FeatureInfo {
	var out []FeatureInfo
	for _, f := range features() {
		out = append(out, FeatureInfo{f.name, letters[f.name], f.about})
	}
	return out
}

// ExpectedLoss is a feature that clients of one revision cannot use with servers of another
// revision, because a revision or a transport cannot express the feature.
type ExpectedLoss struct {
	Feature string
	Pairs   []Pair   // the pairs of transports over which the feature is lost
	Whys    []string // the reason for each of Pairs, as a sentence
	Always  bool     // the feature is lost over all transports
	Why     string   // the first of Whys
}

// AbsentFrom returns the features that clients of one revision and servers of another one do not have,
// over any transport.
func AbsentFrom(client, server mcp.Revision) (out []string) {
	for _, f := range features() {
		absent := true
		for _, ct := range Transports(client) {
			for _, st := range Transports(server) {
				absent = absent && absentIn(f.name, Pair{client, server, ct, st})
			}
		}
		if absent {
			out = append(out, f.name)
		}
	}
	return out
}

// Expected returns the features that are lost between two revisions through Dragoman, in the order
// of the features. All other features work, or neither revision has them. The test of the matrix checks
// this.
func Expected(client, server mcp.Revision) []ExpectedLoss {
	var out []ExpectedLoss
	for _, f := range features() {
		x, pairs := ExpectedLoss{Feature: f.name}, 0
		for _, ct := range Transports(client) {
			for _, st := range Transports(server) {
				pairs++
				p := Pair{client, server, ct, st}
				why := lossOf(f.name, p)
				if why == "" || absentIn(f.name, p) {
					continue
				}
				if x.Why == "" {
					x.Why = why
				}
				x.Pairs, x.Whys = append(x.Pairs, p), append(x.Whys, why)
			}
		}
		if x.Always = len(x.Pairs) == pairs; len(x.Pairs) > 0 {
			out = append(out, x)
		}
	}
	return out
}
