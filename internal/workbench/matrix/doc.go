// Package matrix measures which clients work with which servers: every client revision with every
// server revision, over every transport that each revision defines, feature by feature. It measures
// with Dragoman and, for comparison, without Dragoman.
//
// Both ends are strict peers of package fake. They refuse and report every message that their
// revision does not allow. Dragoman itself is the real program and runs as a child process. A cell
// works if the feature gave the expected result and neither end saw a violation. A cell is a loss
// if loss.go names the revision or transport that cannot express the feature, and neither end saw a
// violation. Every other cell fails, with a reason.
//
// Run makes the measurements, and Report prints them. Cells have a fixed order and contain no
// times, so two runs of the same program can be compared byte by byte.
package matrix
